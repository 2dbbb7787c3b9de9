"""Pairs of nodes that look alike, and the connected groups they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

Evidence = Literal["exact features", "near features", "text", "structure"]


@dataclass(frozen=True, eq=False)
class DuplicatePairs:
    """Pairs of one kind of evidence, in rising order and each with the smaller node first.

    Attributes:
        evidence: What is alike.
        nodes: The pairs, shape ``[P, 2]``.
        score: The similarity of each pair, 1 for equal.
    """

    evidence: Evidence
    nodes: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        nodes = np.sort(np.asarray(self.nodes, dtype=np.int64).reshape(-1, 2), axis=1)
        score = np.asarray(self.score, dtype=np.float64)
        order = np.lexsort((nodes[:, 1], nodes[:, 0]))
        object.__setattr__(self, "nodes", nodes[order])
        object.__setattr__(self, "score", score[order])

    def __len__(self) -> int:
        return len(self.nodes)

    def within(self, group: Iterable[int]) -> DuplicatePairs:
        """The pairs whose two nodes are both in a group."""
        inside = np.isin(self.nodes, list(group)).all(axis=1)
        return DuplicatePairs(self.evidence, self.nodes[inside], self.score[inside])

    @classmethod
    def none(cls, evidence: Evidence) -> DuplicatePairs:
        """No pairs."""
        return cls(evidence, np.empty((0, 2), dtype=np.int64), np.empty(0))


def groups_of(pairs: npt.NDArray[np.int64], nodes: int) -> tuple[tuple[int, ...], ...]:
    """The sets of two and more nodes that pairs connect, in the order of their first nodes.

    Args:
        pairs: Pairs of nodes, shape ``[P, 2]``.
        nodes: Number of nodes.

    Example:
        >>> groups_of(np.array([[4, 1], [1, 2], [0, 5]]), 6)
        ((0, 5), (1, 2, 4))
    """
    if not len(pairs):
        return ()
    # Only the nodes that are in a pair: a million nodes with ten pairs must cost ten pairs.
    members, ends = np.unique(pairs, return_inverse=True)
    if members[0] < 0 or members[-1] >= nodes:
        raise IndexError(f"pairs name nodes outside 0 to {nodes - 1}")
    ends = ends.reshape(pairs.shape)
    graph = sparse.coo_array(
        (np.ones(len(pairs), dtype=np.int8), (ends[:, 0], ends[:, 1])),
        shape=(len(members), len(members)),
    )
    _, component = connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable")  # members stay in rising order
    cuts = np.flatnonzero(np.diff(component[order])) + 1
    groups = [tuple(part.tolist()) for part in np.split(members[order], cuts)]
    return tuple(sorted(group for group in groups if len(group) > 1))
