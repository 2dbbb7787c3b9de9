"""Graph checks: loops, repeats, direction, isolated nodes, components, degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.data.assemble import undirected
from drgcn.data.splits import Mask

if TYPE_CHECKING:
    from torch_geometric.data import Data


Pairs = npt.NDArray[np.int64]


def graph_findings(data: Data) -> list[Finding]:
    """Self-loops, repeated edges, direction, edge counts, isolated nodes, pieces and degrees.

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
        *connectivity_findings(view),
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
    """The different keys in order; np.unique hashes whole numbers, which is far slower."""
    ordered = np.sort(keys)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


# Above this share of nodes, isolation is no exception any more.
_MANY = 0.05


def connectivity_findings(view: GraphView) -> list[Finding]:
    """Isolated nodes, connected components and degrees of the undirected graph."""
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
        severity="warning" if share > _MANY else "note" if count else "fine",
        summary=f"{count:,} of {view.nodes:,} nodes ({share:.1%}) have no neighbour, {tested:,} "
        "of them in the test part.",
        definition="Nodes without an edge to another node: for them every graph model is a model "
        f"of their own features. A warning above {_MANY:.0%}.",
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
