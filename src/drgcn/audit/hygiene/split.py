"""Split checks: overlapping or empty parts, missing classes, homophily, exposed test nodes."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import PARTS, GraphView
from drgcn.data.assemble import undirected

if TYPE_CHECKING:
    from torch_geometric.data import Data


# A class whose share of the training nodes is this far from its share of the test nodes.
_SHIFT = 0.1
# A class this large in the test makes accuracy say little.
_DOMINANT = 0.75


def split_findings(data: Data) -> list[Finding]:
    """Overlaps, empty parts, classes by part, missing labels, exposure of the test, homophily.

    Args:
        data: One graph, or several as one (``data.graph``). It is not changed.
    """
    view = GraphView.of(data)
    findings = [_parts(view), _overlap(view), _unlabelled(view)]
    if view.known.any():
        counts = class_counts(view)
        findings += [_balance(view, counts), _missing(view, counts)]
    findings += [exposure_finding(view)]
    if view.known.any():
        findings += [homophily_finding(view)]
    return findings


def class_counts(view: GraphView) -> dict[str, npt.NDArray[np.int64]]:
    """How many nodes of each class are in each part; of several labels a node, all count."""
    counts = {}
    for part in PARTS:
        y = view.y[view.mask(part) & view.known]
        counts[part] = (
            y.sum(axis=0).astype(np.int64)
            if y.ndim == 2
            else np.bincount(y, minlength=len(view.class_names))
        )
    return counts


def _parts(view: GraphView) -> Finding:
    sizes = {part: int(view.mask(part).sum()) for part in PARTS}
    empty = [part for part, size in sizes.items() if not size]
    rest = view.nodes - int(np.logical_or.reduce([view.mask(part) for part in PARTS]).sum())
    if len(empty) == len(PARTS):
        summary = "There is no split: no node is marked to train, validate or test."
    else:
        listed = ", ".join(f"{size:,} {part}" for part, size in sizes.items())
        summary = f"{listed}, {rest:,} in no part" + f"; {' and '.join(empty)} is empty" * bool(
            empty
        )
        summary += "."
    return Finding(
        name="parts of the split",
        severity="fine" if not empty else "note" if len(empty) == len(PARTS) else "serious",
        summary=summary,
        definition="Nodes in train_mask, val_mask and test_mask. Choosing anything by the test "
        "part because there is no other one makes the test worthless.",
        numbers={**sizes, "in no part": rest},
    )


def _overlap(view: GraphView) -> Finding:
    rows = [
        (first, second, int((view.mask(first) & view.mask(second)).sum()))
        for first, second in combinations(PARTS, 2)
    ]
    shared = sum(count for _, _, count in rows)
    return Finding(
        name="overlapping parts",
        severity="serious" if shared else "fine",
        summary=f"{shared:,} times a node is in two parts at once: "
        + ", ".join(f"{count:,} {a} and {b}" for a, b, count in rows if count)
        + "."
        if shared
        else "No node is in two parts.",
        definition="Nodes that two masks mark, counted for each pair of masks.",
        numbers={f"{first} and {second}": count for first, second, count in rows},
        columns=("part", "other part", "nodes in both"),
        rows=tuple(rows),
    )


def _unlabelled(view: GraphView) -> Finding:
    bare = {part: int((view.mask(part) & ~view.known).sum()) for part in PARTS}
    count, total = sum(bare.values()), int((~view.known).sum())
    return Finding(
        name="unlabelled nodes",
        severity="serious" if count else "note" if total else "fine",
        summary=f"{total:,} nodes have no label, "
        + (f"{count:,} of them inside a part of the split." if count else "none in a part.")
        if total
        else "Every node has a label.",
        definition="Nodes with y = -1. Inside a part they are trained on or scored as if -1 were "
        "a class.",
        numbers={"nodes": total, **{f"in {part}": number for part, number in bare.items()}},
    )


def _balance(view: GraphView, counts: dict[str, npt.NDArray[np.int64]]) -> Finding:
    shares = {part: _share(view, part, count) for part, count in counts.items()}
    # A part without nodes has no shares to compare.
    there = counts["train"].any() and counts["test"].any()
    shift = float(np.abs(shares["train"] - shares["test"]).max()) if there else 0.0
    largest = float(shares["test"].max(initial=0.0))
    name = view.class_names[int(shares["test"].argmax())]
    rows = [
        (name, *(int(counts[part][label]) for part in PARTS), *_percent(shares, label))
        for label, name in enumerate(view.class_names)
    ]
    return Finding(
        name="class balance",
        severity="warning" if largest > _DOMINANT else "note" if shift > _SHIFT else "fine",
        summary=f"The largest class of the test part, {name}, holds {largest:.1%} of it; between "
        f"training and test a class's share differs by up to {100 * shift:.1f} points.",
        definition="Nodes of each class in each part. A note where a share differs by more than "
        f"{100 * _SHIFT:.0f} points, a warning where one class holds more than {_DOMINANT:.0%} "
        "of the test part, which is then the accuracy of always naming it.",
        numbers={"largest test share": largest, "largest shift": shift},
        columns=("class", *PARTS, *(f"{part} %" for part in PARTS)),
        rows=tuple(rows),
    )


def _share(view: GraphView, part: str, count: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    members = int((view.mask(part) & view.known).sum())
    return count / max(members, 1)


def _percent(shares: dict[str, npt.NDArray[np.float64]], label: int) -> tuple[float, ...]:
    return tuple(round(100 * float(shares[part][label]), 1) for part in PARTS)


def _missing(view: GraphView, counts: dict[str, npt.NDArray[np.int64]]) -> Finding:
    asked = (counts["val"] + counts["test"]) > 0
    # Without training nodes there is nothing to miss; the parts are reported as empty.
    missing = asked & (counts["train"] == 0) & view.mask("train").any()
    untrained = np.flatnonzero(missing).tolist()
    unasked = np.flatnonzero((counts["train"] > 0) & (counts["test"] == 0))
    lost = sum(int(counts["test"][label]) for label in untrained)
    tested = max(int((view.mask("test") & view.known).sum()), 1)
    names = [view.class_names[label] for label in untrained]
    return Finding(
        name="classes missing from training",
        severity="serious" if names else "fine",
        summary=f"{len(names):,} classes are asked for but never trained on ({_few(names)}): "
        f"{lost:,} test nodes ({lost / tested:.1%}) cannot be right."
        if names
        else "Every class that is asked for is trained on.",
        definition="Classes with nodes to validate or test on and none to train on.",
        numbers={
            "classes": len(names),
            "test nodes": lost,
            "trained on but not tested": len(unasked),
        },
        columns=("class", "val", "test"),
        rows=tuple(
            (view.class_names[label], int(counts["val"][label]), int(counts["test"][label]))
            for label in untrained
        ),
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


# Below this, neighbours tell next to nothing about a label by its being the same.
_LOW = 0.1


def homophily_finding(view: GraphView) -> Finding:
    """Share of edges between equal labels, as it is and adjusted for class sizes.

    The adjusted form (Platonov et al., Characterizing Graph Datasets for Node Classification,
    NeurIPS 2023) subtracts the share expected from the degrees of the classes, and is 1 if all
    edges join equal labels.
    """
    edges = undirected(view.pairs, view.nodes).edge_index
    source, target = edges[:, view.known[edges].all(axis=0)]
    numbers: dict[str, float | int | None] = {"edges": len(source) // 2}
    if not len(source) or view.y.ndim == 2:
        why = "nodes have several labels" if view.y.ndim == 2 else "no edge joins labelled nodes"
        return Finding(
            name="homophily",
            severity="fine",
            summary=f"Not defined here: {why}.",
            definition=_HOMOPHILY,
            numbers=numbers,
        )
    same = float((view.y[source] == view.y[target]).mean())
    weight = np.bincount(view.y[source], minlength=len(view.class_names)) / len(source)
    chance = float((weight**2).sum())
    adjusted = (same - chance) / (1 - chance) if chance < 1 else None
    numbers |= {"same label": same, "expected by chance": chance, "adjusted": adjusted}
    low = adjusted is not None and adjusted < _LOW
    words = "" if adjusted is None else f", {adjusted:.2f} after adjusting for class sizes"
    return Finding(
        name="homophily",
        severity="note" if low else "fine",
        summary=f"{same:.1%} of edges join nodes of one class{words}"
        + (": smoothing over neighbours is no help by itself." if low else "."),
        definition=_HOMOPHILY,
        numbers=numbers,
    )


_HOMOPHILY = (
    "Share h of edges between labelled nodes whose labels are equal, and (h - c) / (1 - c), where "
    "c is the sum over classes of the squared share of all degrees. A note where the latter is "
    f"below {_LOW}."
)


def exposure_finding(view: GraphView) -> Finding:
    """Test nodes beside training nodes, test features in the training graph, and a plain vote.

    Transductive training is no fault. But whoever compares with a model that has not seen the
    test features, or asks what a graph model adds to copying neighbours, needs these numbers.
    """
    train, test = view.mask("train"), view.mask("test")
    tested = int(test.sum())
    if not tested or not train.any():
        return Finding(
            name="exposure of the test",
            severity="fine",
            summary="There are no training or no test nodes.",
            definition=_EXPOSURE,
            numbers={"test nodes": tested},
        )
    edges = undirected(view.pairs, view.nodes).edge_index
    beside = np.zeros(view.nodes, dtype=np.bool_)
    beside[edges[1][train[edges[0]]]] = True
    # All features of a graph are before a model that trains on the graph.
    seen = test & np.isin(view.graph, view.graph[train])
    numbers = {
        "test nodes": tested,
        "beside a training node": int((test & beside).sum()),
        "share beside a training node": float((test & beside).sum() / tested),
        "share of test features seen": float(seen.sum() / tested),
    }
    words = (
        f"{numbers['share beside a training node']:.1%} of {tested:,} test nodes are neighbours "
        f"of training nodes, and the features of {numbers['share of test features seen']:.1%} "
        "are part of the graph that is trained on"
    )
    vote = _vote(view, edges)
    if vote is not None:
        numbers["correct by a vote of training neighbours"] = vote
        words += f"; where there are such neighbours, their commonest label is right in {vote:.1%}"
    return Finding(
        name="exposure of the test",
        severity="note" if seen.any() or beside[test].any() else "fine",
        summary=f"{words}.",
        definition=_EXPOSURE,
        numbers=numbers,
    )


_EXPOSURE = (
    "Share of test nodes with an edge to a training node, and share of test nodes in a graph "
    "with training nodes, whose features every step of full-batch training reads. The vote takes "
    "the commonest label of a test node's training neighbours, the first class in a tie."
)


def _vote(view: GraphView, edges: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> float | None:
    """How often the commonest label of training neighbours is the test node's own."""
    if view.y.ndim == 2:
        return None
    voters = (view.mask("train") & view.known)[edges[0]] & view.mask("test")[edges[1]]
    voters &= view.known[edges[1]]
    source, target = edges[:, voters]
    if not len(source):
        return None
    shape = (view.nodes, len(view.class_names))
    ones = np.ones(len(source), dtype=np.int64)
    votes = sparse.csr_array((ones, (target, view.y[source])), shape=shape)
    asked = np.unique(target)
    chosen = votes[asked].toarray().argmax(axis=1)
    return float((chosen == view.y[asked]).mean())
