"""How much of the test part a model has before its eyes while it trains."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.data.assemble import undirected


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
            definition=_DEFINITION,
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
        definition=_DEFINITION,
        numbers=numbers,
    )


_DEFINITION = (
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
