"""Comparison of groups of duplicates with the nodes that others removed from a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drgcn.audit.duplicates.groups import Groups


@dataclass(frozen=True)
class AgainstRemoved:
    """Agreement of groups of duplicates with removed nodes.

    A merged group leaves one node and removes the others. So a removed node that is in a group is
    explained by it, and a group with a removed node was seen by others too.

    Attributes:
        seen: Groups with a removed node.
        unseen: Groups without a removed node.
        explained: Removed nodes that are in a group.
        unexplained: Removed nodes that are in none.
    """

    seen: Groups
    unseen: Groups
    explained: tuple[int, ...]
    unexplained: tuple[int, ...]

    @classmethod
    def of(cls, groups: Groups, removed: Iterable[int]) -> AgainstRemoved:
        """Return the agreement of some groups with some removed nodes.

        Example:
            >>> AgainstRemoved.of(((0, 1), (2, 5)), [1, 7]).recall
            0.5
        """
        gone = sorted(set(removed))
        grouped = {node for group in groups for node in group}
        return cls(
            seen=tuple(group for group in groups if set(group) & set(gone)),
            unseen=tuple(group for group in groups if not set(group) & set(gone)),
            explained=tuple(node for node in gone if node in grouped),
            unexplained=tuple(node for node in gone if node not in grouped),
        )

    @property
    def groups(self) -> Groups:
        """All groups."""
        return tuple(sorted((*self.seen, *self.unseen)))

    @property
    def precision(self) -> float:
        """Share of the groups that have a removed node; not a number without groups."""
        return len(self.seen) / len(self.groups) if self.groups else float("nan")

    @property
    def recall(self) -> float:
        """Share of the removed nodes that are in a group; not a number if none was removed."""
        gone = len(self.explained) + len(self.unexplained)
        return len(self.explained) / gone if gone else float("nan")
