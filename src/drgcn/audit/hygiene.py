"""Checks of graph, features and split: loops, empty rows, overlapping parts, homophily, ..."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import PARTS, GraphView
from drgcn.data.assemble import undirected
from drgcn.data.features import Features
from drgcn.data.splits import Mask

if TYPE_CHECKING:
    from torch_geometric.data import Data

Pairs = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

_EXAMPLES = 10
# Above this share of nodes, isolation is no exception any more.
_MANY_ISOLATED = 0.05
# A class whose share of the training nodes is this far from its share of the test nodes.
_SHIFT = 0.1
# A class this large in the test makes accuracy say little.
_DOMINANT = 0.75
# Below this, equal labels of neighbours are hardly more frequent than by chance.
_LOW_HOMOPHILY = 0.1

_HOMOPHILY_DEFINITION = (
    "Share h of edges between labelled nodes whose labels are equal, and (h - c) / (1 - c), where "
    "c is the sum over classes of the squared share of all degrees. A note where the latter is "
    f"below {_LOW_HOMOPHILY}."
)
_EXPOSURE_DEFINITION = (
    "Share of test nodes with an edge to a training node, and share of test nodes in a graph "
    "with training nodes, whose features every step of full-batch training reads. The vote takes "
    "the commonest label of a test node's training neighbours, the first class in a tie."
)


def graph_findings(data: Data) -> list[Finding]:
    """Check self-loops, repeats, direction, edge counts, isolated nodes, components, degrees.

    Args:
        data: One graph, or several as one (``data.graph``). It is not changed.
    """
    view = GraphView.of(data)
    source, target = view.pairs
    proper = view.pairs[:, source != target]
    return [
        _loops(view),
        _repeats(view, proper),
        _direction(view, proper),
        _edge_counts(view),
        *_connectivity(view),
    ]


def _loops(view: GraphView) -> Finding:
    source, target = view.pairs
    here = len(np.unique(source[source == target]))
    removed = 0 if view.info is None else view.info.self_loops
    return Finding(
        name="self-loops",
        severity="warning" if here else "note" if removed else "fine",
        summary=f"{here:,} nodes have an edge to themselves"
        + (f"; loading took those of {removed:,} more away." if removed else "."),
        definition="Nodes with an edge to themselves. A model that adds the identity counts such "
        "nodes twice.",
        numbers={"nodes with a loop": here, "removed when loading": removed},
    )


def _repeats(view: GraphView, proper: Pairs) -> Finding:
    here = proper.shape[1] - len(_distinct(_keys(proper, view.nodes)))
    removed = 0 if view.info is None else view.info.duplicate_edges
    return Finding(
        name="repeated edges",
        severity="warning" if here else "note" if removed else "fine",
        summary=f"{here:,} entries of edge_index repeat an earlier one"
        + (f"; loading took {removed:,} more away." if removed else "."),
        definition="Entries (source, target) beyond the first of the same kind, loops left out. "
        "Models that sum messages count a repeated edge as often as it is listed.",
        numbers={"repeats": here, "removed when loading": removed},
    )


def _direction(view: GraphView, proper: Pairs) -> Finding:
    keys = _distinct(_keys(proper, view.nodes))
    reversed_keys = keys % view.nodes * view.nodes + keys // view.nodes
    alone = len(keys) - len(np.intersect1d(keys, reversed_keys, assume_unique=True))
    return Finding(
        name="direction",
        severity="warning" if alone else "fine",
        summary=f"{alone:,} of {len(keys):,} edges have no counterpart in the other direction."
        if alone
        else f"Every edge is there in both directions ({len(keys):,} entries).",
        definition="Distinct entries (source, target), loops left out, without (target, source). "
        "GCN and most models on citation graphs expect both.",
        numbers={"entries": len(keys), "without counterpart": alone, "symmetric": alone == 0},
    )


def _edge_counts(view: GraphView) -> Finding:
    clean = undirected(view.pairs, view.nodes)
    both = clean.edge_index.shape[1]
    removed = 0 if view.info is None else view.info.duplicate_edges
    rows: list[tuple[str, int]] = [
        ("entries of edge_index", view.pairs.shape[1]),
        ("undirected edges, each once", both // 2),
        ("both directions", both),
    ]
    if removed and removed % 2 == 0:
        # Planetoid lists each citation from both ends; a pair that cite each other comes twice.
        rows.append(("with the repeats of a file that lists both ends", (both + removed) // 2))
    return Finding(
        name="edge counts",
        severity="fine",
        summary=f"{both // 2:,} undirected edges, which are {both:,} entries in both directions.",
        definition="The same edges counted in the ways that papers do; loops left out of all but "
        "the first.",
        numbers=dict(rows),
        columns=("convention", "edges"),
        rows=tuple(rows),
    )


def _keys(pairs: Pairs, nodes: int) -> npt.NDArray[np.int64]:
    return pairs[0] * nodes + pairs[1]


def _distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the different keys in order; np.unique hashes whole numbers, far slower."""
    ordered = np.sort(keys)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _connectivity(view: GraphView) -> list[Finding]:
    """Check isolated nodes, connected components and degrees of the undirected graph."""
    edges = undirected(view.pairs, view.nodes).edge_index
    ones = np.ones(edges.shape[1], dtype=np.int8)
    matrix = sparse.csr_array((ones, (edges[0], edges[1])), shape=(view.nodes, view.nodes))
    degree = np.diff(matrix.indptr)
    return [_isolated(view, degree == 0), _components(view, matrix), _degrees(degree)]


def _isolated(view: GraphView, alone: Mask) -> Finding:
    count, tested = int(alone.sum()), int((alone & view.mask("test")).sum())
    share = count / view.nodes
    return Finding(
        name="isolated nodes",
        severity="warning" if share > _MANY_ISOLATED else "note" if count else "fine",
        summary=f"{count:,} of {view.nodes:,} nodes ({share:.1%}) have no neighbour, {tested:,} "
        "of them in the test part.",
        definition="Nodes without an edge to another node: for them every graph model is a model "
        f"of their own features. A warning above {_MANY_ISOLATED:.0%}.",
        numbers={"isolated": count, "share": share, "isolated test nodes": tested},
    )


def _components(view: GraphView, matrix: sparse.csr_array) -> Finding:
    count, piece = csgraph.connected_components(matrix, directed=False)
    largest = int(np.bincount(piece).max())
    train, graphs = view.mask("train"), len(np.unique(view.graph))
    # Graphs kept for the test are meant to be out of reach.
    expected = view.mask("test") & np.isin(view.graph, view.graph[train])
    unreached = int((expected & ~np.isin(piece, piece[train])).sum())
    return Finding(
        name="components",
        severity="note" if count > graphs else "fine",
        summary=f"{count:,} connected piece{'s' * (count > 1)} in {graphs} "
        f"graph{'s' * (graphs > 1)}, the largest with {largest:,} of {view.nodes:,} nodes; "
        f"{unreached:,} test nodes are in a piece without a training node.",
        definition="Connected components of the undirected graph, an isolated node being one. "
        "Test nodes are counted in graphs that are trained on.",
        numbers={
            "components": int(count),
            "graphs": graphs,
            "largest": largest,
            "test nodes out of reach": unreached,
        },
    )


def _degrees(degree: npt.NDArray[np.integer[Any]]) -> Finding:
    top = int(degree.max())
    # 0, 1, 2 to 3, 4 to 7, ...: citation and contact graphs spread over orders of magnitude.
    starts = [0, *(2**power for power in range(top.bit_length()))]
    rows = []
    for start, stop in zip(starts, [*starts[1:], top + 1], strict=True):
        label = str(start) if stop == start + 1 else f"{start}-{stop - 1}"
        rows.append((label, int(((degree >= start) & (degree < stop)).sum())))
    return Finding(
        name="degrees",
        severity="fine",
        summary=f"A node has {degree.mean():.2f} neighbours on average, "
        f"{np.median(degree):g} in the middle and {top:,} at most.",
        definition="Distinct neighbours of a node in the undirected graph, the node itself left "
        "out.",
        numbers={
            "mean": float(degree.mean()),
            "median": float(np.median(degree)),
            "largest": top,
        },
        columns=("degree", "nodes"),
        rows=tuple(rows),
    )


def feature_findings(data: Data) -> list[Finding]:
    """Check for features that are not finite, rows of zeros, and constant columns.

    Args:
        data: One graph, or several as one. It is not changed.
    """
    view = GraphView.of(data)
    return [_not_finite(view.x), _empty_rows(view), _constant_columns(view)]


def _not_finite(x: Features) -> Finding:
    if sparse.issparse(x):
        entries = x.tocoo()
        wrong = ~np.isfinite(entries.data)
        rows, columns = entries.row[wrong], entries.col[wrong]
    else:
        rows, columns = np.nonzero(~np.isfinite(x))
    places = list(zip(rows.tolist(), columns.tolist(), strict=True))
    return Finding(
        name="features that are not finite",
        severity="serious" if places else "fine",
        summary=f"{len(places):,} entries of {len(set(rows.tolist())):,} nodes are infinite or "
        "not a number."
        if places
        else "All features are finite numbers.",
        definition="Entries of the feature matrix that are NaN or infinite; one of them makes "
        "every result of a graph model NaN.",
        numbers={"entries": len(places), "nodes": len(set(rows.tolist()))},
        columns=("node", "column"),
        rows=tuple(places[:_EXAMPLES]),
    )


def _empty_rows(view: GraphView) -> Finding:
    empty = zero_rows(view.x)
    tested = int((empty & view.mask("test")).sum())
    count = int(empty.sum())
    return Finding(
        name="nodes without features",
        severity="warning" if tested else "note" if count else "fine",
        summary=f"{count:,} nodes have zero in every column, {tested:,} of them in the test part "
        f"and {int((empty & ~view.known).sum()):,} without a label."
        if count
        else "Every node has a feature that is not zero.",
        definition="Rows of the feature matrix that are all zero. A warning if test nodes are "
        "among them.",
        numbers={
            "nodes": count,
            "test nodes": tested,
            "without a label": int((empty & ~view.known).sum()),
        },
        columns=("node",),
        rows=tuple((int(node),) for node in np.flatnonzero(empty)[:_EXAMPLES]),
    )


def _constant_columns(view: GraphView) -> Finding:
    same = _constant(view.x)
    train = view.mask("train")
    unseen = _constant(view.x[np.flatnonzero(train)]) & ~same if train.any() else same & False
    count = int(same.sum())
    return Finding(
        name="constant features",
        severity="warning" if count == len(same) else "note" if count else "fine",
        summary=f"{count:,} of {len(same):,} columns are the same for all nodes; {unseen.sum():,} "
        "more are the same for all training nodes.",
        definition="Columns of the feature matrix with one value only: over all nodes, and over "
        "the training nodes. The weights of the latter are not learnt from what they vary by.",
        numbers={
            "constant": count,
            "constant in training": int(unseen.sum()),
            "columns": len(same),
        },
        columns=("column",),
        rows=tuple((int(column),) for column in np.flatnonzero(same)[:_EXAMPLES]),
    )


def zero_rows(x: Features) -> npt.NDArray[np.bool_]:
    """Return the rows that are zero everywhere; NaN is not zero."""
    if sparse.issparse(x):
        entries = x.tocoo()
        return np.bincount(entries.row[entries.data != 0], minlength=x.shape[0]) == 0
    return ~(x != 0).any(axis=1)


def _constant(x: Features) -> npt.NDArray[np.bool_]:
    """Return the columns of which every entry equals the first; NaN equals nothing."""
    if not sparse.issparse(x):
        return (x == x[0]).all(axis=0)
    # Zeros need not be stored: a column is constant if all its entries are the same value, and
    # either every row has one or the value is zero.
    columns = sparse.csc_array(x, copy=True)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    stored = np.diff(columns.indptr)
    same = stored == 0
    for column in np.flatnonzero(stored == x.shape[0]):
        values = columns.data[columns.indptr[column] : columns.indptr[column + 1]]
        same[column] = (values == values[0]).all()
    return same


def split_findings(data: Data) -> list[Finding]:
    """Check parts, overlaps, labels, classes by part, exposure of the test, and homophily.

    Args:
        data: One graph, or several as one (``data.graph``). It is not changed.
    """
    view = GraphView.of(data)
    findings = [_parts(view), _overlap(view), _unlabelled(view)]
    if view.known.any():
        counts = _class_counts(view)
        findings += [_balance(view, counts), _missing(view, counts)]
    findings.append(_exposure(view))
    if view.known.any():
        findings.append(_homophily(view))
    return findings


def _class_counts(view: GraphView) -> dict[str, Counts]:
    """Count the nodes of each class in each part; of several labels a node, all count."""
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
        missing = f"; {' and '.join(empty)} is empty" if empty else ""
        summary = f"{listed}, {rest:,} in no part{missing}."
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


def _balance(view: GraphView, counts: dict[str, Counts]) -> Finding:
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


def _share(view: GraphView, part: str, count: Counts) -> Shares:
    members = int((view.mask(part) & view.known).sum())
    return count / max(members, 1)


def _percent(shares: dict[str, Shares], label: int) -> tuple[float, ...]:
    return tuple(round(100 * float(shares[part][label]), 1) for part in PARTS)


def _missing(view: GraphView, counts: dict[str, Counts]) -> Finding:
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


def _homophily(view: GraphView) -> Finding:
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
            definition=_HOMOPHILY_DEFINITION,
            numbers=numbers,
        )
    same = float((view.y[source] == view.y[target]).mean())
    weight = np.bincount(view.y[source], minlength=len(view.class_names)) / len(source)
    chance = float((weight**2).sum())
    adjusted = (same - chance) / (1 - chance) if chance < 1 else None
    numbers |= {"same label": same, "expected by chance": chance, "adjusted": adjusted}
    low = adjusted is not None and adjusted < _LOW_HOMOPHILY
    words = "" if adjusted is None else f", {adjusted:.2f} after adjusting for class sizes"
    return Finding(
        name="homophily",
        severity="note" if low else "fine",
        summary=f"{same:.1%} of edges join nodes of one class{words}"
        + (": smoothing over neighbours is no help by itself." if low else "."),
        definition=_HOMOPHILY_DEFINITION,
        numbers=numbers,
    )


def _exposure(view: GraphView) -> Finding:
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
            definition=_EXPOSURE_DEFINITION,
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
        definition=_EXPOSURE_DEFINITION,
        numbers=numbers,
    )


def _vote(view: GraphView, edges: Pairs) -> float | None:
    """Return the share of test nodes whose training neighbours have their label most often."""
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
