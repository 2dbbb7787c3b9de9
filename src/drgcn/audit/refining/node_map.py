"""A refined dataset, with an account of every node."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from drgcn.audit.refining.merging import EdgeAccount, FeatureRule, LabelConflict
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


Fate = Literal["kept", "merged", "dropped"]


@dataclass(frozen=True)
class NodeFate:
    """One line of the map.

    Attributes:
        old: Number of the node before.
        new: Its number after; of a merged node, that of the node it went into. ``None`` if
            dropped.
        fate: Whether it was kept, merged into another node, or dropped.
        into: For a merged node, the old number of the node it went into.
        reason: Why; empty for a kept node.
    """

    old: int
    new: int | None
    fate: Fate
    into: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class NodeMap:
    """A line for every old node, in their order: nothing goes without one."""

    fates: tuple[NodeFate, ...]

    @classmethod
    def make(
        cls,
        nodes: int,
        groups: Sequence[Sequence[int]],
        reasons: Sequence[str],
        drop: Mapping[int, str],
    ) -> NodeMap:
        """The map that merges groups into their first member and leaves some nodes out.

        A node that is both in a group and to be dropped is dropped; the rest of the group is
        merged. New numbers keep the old order.

        Raises:
            InputError: If a node does not exist, is in two groups, or no node would be left.
        """
        into, why = np.arange(nodes), dict[int, str]()
        seen: set[int] = set()
        for group, reason in zip(groups, reasons, strict=True):
            for node in sorted(set(group)):
                _check(node, nodes, "a group")
                if node in seen:
                    raise InputError(
                        f"Expected groups without a common node; node {node} is in two of them. "
                        "Join these groups first."
                    )
                seen.add(node)
            members = [node for node in sorted(set(group)) if node not in drop]
            for node in members[1:]:
                into[node] = members[0]
                why[node] = reason
        for node in drop:
            _check(node, nodes, "drop")
        left = [node for node in range(nodes) if into[node] == node and node not in drop]
        if not left:
            raise InputError("Expected at least one node to be left; all are dropped.")
        new = {node: number for number, node in enumerate(left)}
        fates = []
        for node in range(nodes):
            kept = int(into[node])
            if node in drop:
                fates.append(NodeFate(node, None, "dropped", reason=drop[node]))
            elif kept == node:
                fates.append(NodeFate(node, new[node], "kept"))
            else:
                fates.append(NodeFate(node, new[kept], "merged", kept, why[node]))
        return cls(tuple(fates))

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes were kept, merged and dropped."""
        found = Counter(fate.fate for fate in self.fates)
        return {fate: found[fate] for fate in ("kept", "merged", "dropped")}

    def new_numbers(self) -> npt.NDArray[np.int64]:
        """The new number of each old node, -1 where it was dropped."""
        return np.array([-1 if fate.new is None else fate.new for fate in self.fates])

    def members(self) -> list[list[int]]:
        """The old nodes of each new node, the kept one first."""
        lists: list[list[int]] = [[] for _ in range(self.counts["kept"])]
        for fate in self.fates:
            if fate.new is not None:
                lists[fate.new].append(fate.old)
        return lists

    def write(self, path: Path) -> None:
        """Write the map as CSV, an empty cell where there is no number."""
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("old", "new", "fate", "into", "reason"))
            for fate in self.fates:
                # csv writes None as an empty cell.
                table.writerow((fate.old, fate.new, fate.fate, fate.into, fate.reason))


def _check(node: int, nodes: int, where: str) -> None:
    if not 0 <= node < nodes:
        raise InputError(
            f"Expected nodes from 0 to {nodes - 1}; found {node} in {where}. Nodes go by their "
            "numbers in the graph that is refined."
        )


@dataclass(frozen=True)
class Refined:
    """What :func:`drgcn.audit.refining.refine.refine` returns.

    Attributes:
        data: The new graph, as :func:`drgcn.data.load` would give it.
        node_map: What became of every old node.
        edges: What became of the edges.
        conflicts: Groups whose members had different labels.
        left_training: Old training nodes that were taken out of training because what they were
            merged with is validated or tested on.
        feature_rule: How features of merged nodes were made.
        removed_features: Old numbers of the columns that were taken out.
        replaced_features: Whether the features are new ones.
        has_split: Whether the old graph had a split.
        texts: Texts of the new nodes, if those of the old ones were given.
    """

    data: Data
    node_map: NodeMap
    edges: EdgeAccount
    conflicts: tuple[LabelConflict, ...]
    left_training: tuple[int, ...]
    feature_rule: FeatureRule
    removed_features: tuple[int, ...] = ()
    replaced_features: bool = False
    has_split: bool = True
    texts: tuple[str, ...] | None = None

    @property
    def changed(self) -> bool:
        """Whether anything was merged, dropped, removed or replaced."""
        counts = self.node_map.counts
        return (
            bool(counts["merged"] or counts["dropped"] or self.removed_features)
            or self.replaced_features
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the map is a table of its own."""
        info = self.data.dataset
        return {
            "refined from": dict(info.options),
            "nodes": {"before": len(self.node_map.fates), **self.node_map.counts},
            "edges": asdict(self.edges),
            "features": {
                "columns": info.features,
                "rule for merged nodes": self.feature_rule,
                "removed columns": list(self.removed_features),
                "replaced": self.replaced_features,
            },
            "split": {
                "train": info.train,
                "val": info.val,
                "test": info.test,
                "rule for merged nodes": "test if a member is in test, else val, else train",
                "nodes that left training": list(self.left_training),
            },
            "class names": list(info.class_names),
            "label conflicts": [asdict(conflict) for conflict in self.conflicts],
            "content hash": info.content_hash,
        }
