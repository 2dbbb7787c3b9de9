"""How a graph hangs together: nodes without neighbours, pieces, degrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.data.assemble import undirected
from drgcn.data.splits import Mask

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
