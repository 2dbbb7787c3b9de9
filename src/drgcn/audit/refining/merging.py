"""Merging of nodes: the map from old to new nodes, and their features, labels, masks, edges."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.graph_view import GraphView
from drgcn.audit.hygiene import zero_rows
from drgcn.data.assemble import undirected
from drgcn.data.features import Features
from drgcn.data.splits import AnyLabels, Mask, Masks
from drgcn.errors import InputError

Fate = Literal["kept", "merged", "dropped"]
FeatureRule = Literal["first", "mean", "max"]
FEATURE_RULES: Final = ("first", "mean", "max")
Members = Sequence[Sequence[int]]


@dataclass(frozen=True)
class NodeFate:
    """Old and new number of a node, and the reason if it is gone.

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
    """Fate of every old node, in their order."""

    fates: tuple[NodeFate, ...]

    @classmethod
    def make(
        cls,
        nodes: int,
        groups: Sequence[Sequence[int]],
        reasons: Sequence[str],
        drop: Mapping[int, str],
    ) -> NodeMap:
        """Return the map that merges groups into their first member and drops some nodes.

        A node that is both in a group and to be dropped is dropped; the rest of the group is
        merged. New numbers keep the old order.

        Raises:
            InputError: If a node does not exist, is in two groups, or no node would be left.
        """
        into, why = np.arange(nodes), dict[int, str]()
        seen: set[int] = set()
        for group, reason in zip(groups, reasons, strict=True):
            for node in sorted(set(group)):
                _check_node(node, nodes, "a group")
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
            _check_node(node, nodes, "drop")
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
        """Number of nodes that were kept, merged and dropped."""
        found = Counter(fate.fate for fate in self.fates)
        return {fate: found[fate] for fate in ("kept", "merged", "dropped")}

    def new_numbers(self) -> npt.NDArray[np.int64]:
        """Return the new number of each old node, -1 where it was dropped."""
        return np.array([-1 if fate.new is None else fate.new for fate in self.fates])

    def members(self) -> list[list[int]]:
        """Return the old nodes of each new node, the kept one first."""
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


def _check_node(node: int, nodes: int, where: str) -> None:
    if not 0 <= node < nodes:
        raise InputError(
            f"Expected nodes from 0 to {nodes - 1}; found {node} in {where}. Nodes go by their "
            "numbers in the graph that is refined."
        )


def merge_features(x: Features, members: Members, rule: FeatureRule) -> Features:
    """Return one row of features per new node.

    Args:
        x: Features of the old nodes.
        members: Old nodes of each new node, in order.
        rule: ``"first"`` takes the row of the first member that has one other than zero, so that
            every row is one that was there; ``"mean"`` the mean row; ``"max"`` the largest value
            in each column, which of bags of words is their union.
    """
    if rule not in FEATURE_RULES:
        raise InputError(
            f"Expected the rule for features to be one of {', '.join(FEATURE_RULES)}; found "
            f"{rule!r}."
        )
    if rule == "first":
        empty = zero_rows(x)
        return x[[next((n for n in nodes if not empty[n]), nodes[0]) for nodes in members]]
    rows, chosen = [], []
    for nodes in members:
        if len(nodes) == 1:
            chosen.append(nodes[0])
            continue
        block = x[list(nodes)]
        dense = block.toarray() if sparse.issparse(block) else block
        rows.append(dense.max(axis=0) if rule == "max" else dense.mean(axis=0, dtype=np.float64))
        chosen.append(x.shape[0] + len(rows) - 1)
    if not rows:
        return x[chosen]
    merged = np.stack(rows).astype(np.float32)
    if sparse.issparse(x):
        return sparse.csr_array(sparse.vstack([x, sparse.csr_array(merged)], format="csr"))[chosen]
    return np.concatenate([x, merged])[chosen]


@dataclass(frozen=True)
class LabelConflict:
    """Nodes of one group with different labels, and the label that the merged node has.

    Attributes:
        nodes: The old nodes.
        labels: Their labels as class names, empty where unknown.
        chosen: The label of the merged node.
    """

    nodes: tuple[int, ...]
    labels: tuple[str, ...]
    chosen: str


def merge_labels(
    y: AnyLabels, members: Members, names: Sequence[str]
) -> tuple[AnyLabels, tuple[LabelConflict, ...]]:
    """Return the commonest known label of each new node's members, the first of equals.

    Of several labels a node each label is decided by itself.
    """
    merged = y[[nodes[0] for nodes in members]].copy()
    conflicts = []
    for new, nodes in enumerate(members):
        if len(nodes) == 1:
            continue
        votes = y[list(nodes)]
        merged[new] = _row_majority(votes) if y.ndim == 2 else _majority(votes)
        known = votes if y.ndim == 2 else votes[votes >= 0]
        if len(np.unique(known, axis=0)) > 1:
            words = tuple(_word(vote, names) for vote in votes)
            conflicts.append(LabelConflict(tuple(nodes), words, _word(merged[new], names)))
    return merged, tuple(conflicts)


def _majority(votes: npt.NDArray[Any]) -> int:
    known = [int(vote) for vote in votes if vote >= 0]
    # max returns the first of equals, and the members stand in their order.
    return max(known, key=known.count) if known else -1


def _row_majority(votes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    share = votes.mean(axis=0)
    return np.where(share == 0.5, votes[0], share > 0.5).astype(votes.dtype)


def _word(label: Any, names: Sequence[str]) -> str:
    if np.ndim(label):
        return " ".join(names[number] for number in np.flatnonzero(label).tolist())
    return names[label] if label >= 0 else ""


def merge_masks(masks: Masks, members: Members) -> Masks:
    """Return the part of each new node: test if any member is in it, else val, else train.

    A document that is tested must not be trained on under another number. So a group with a test
    node leaves training, and the test part keeps all its documents.
    """
    owner = np.repeat(np.arange(len(members)), [len(nodes) for nodes in members])
    flat = np.concatenate([np.asarray(nodes, dtype=np.int64) for nodes in members])

    def any_member(mask: Mask) -> Mask:
        return np.bincount(owner, weights=mask[flat], minlength=len(members)) > 0

    test = any_member(masks.test)
    val = any_member(masks.val) & ~test
    return Masks(any_member(masks.train) & ~test & ~val, val, test)


@dataclass(frozen=True)
class EdgeAccount:
    """Counts of undirected edges before and after, and of those that went.

    Attributes:
        before: Edges of the old graph.
        after: Edges of the new graph.
        inside: Edges between nodes that are one now.
        repeated: Edges that now join the same two nodes as another one.
        dropped: Edges of nodes that were dropped.
    """

    before: int
    after: int
    inside: int
    repeated: int
    dropped: int


def merge_edges(
    view: GraphView, place: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], EdgeAccount]:
    """Return the edges between new nodes, in both directions, and an account of the others.

    Args:
        view: The old graph.
        place: The new number of each old node, -1 where it was dropped.
    """
    both = undirected(view.pairs, view.nodes).edge_index
    once = both[:, both[0] < both[1]]
    ends = place[once]
    there = (ends >= 0).all(axis=0)
    inside = there & (ends[0] == ends[1])
    after = undirected(ends[:, there], int(place.max()) + 1).edge_index
    left = after.shape[1] // 2
    account = EdgeAccount(
        before=once.shape[1],
        after=left,
        inside=int(inside.sum()),
        repeated=int((there & ~inside).sum()) - left,
        dropped=int((~there).sum()),
    )
    return after, account
