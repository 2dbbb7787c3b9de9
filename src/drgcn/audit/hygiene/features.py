"""Whether features say anything: numbers that are none, rows and columns without content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.data.features import Features

if TYPE_CHECKING:
    from torch_geometric.data import Data

_EXAMPLES = 10


def feature_findings(data: Data) -> list[Finding]:
    """Features that are not finite, nodes without any, and columns that are all alike.

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
        severity="note" if count else "fine",
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
    """Rows that are zero everywhere; NaN is not zero."""
    if sparse.issparse(x):
        entries = x.tocoo()
        return np.bincount(entries.row[entries.data != 0], minlength=x.shape[0]) == 0
    return ~(x != 0).any(axis=1)


def _constant(x: Features) -> npt.NDArray[np.bool_]:
    """Columns of which every entry equals the first; NaN equals nothing."""
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
