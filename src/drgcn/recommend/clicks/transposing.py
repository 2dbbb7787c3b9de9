"""A matrix by rows turned into the same matrix by columns."""

from __future__ import annotations

import numpy as np
import torch

from drgcn.sampling.graph import CSRGraph


def transposed(graph: CSRGraph) -> CSRGraph:
    """Rows for columns; entries of a row come in the order of their old rows.

    Values are not carried over.
    """
    if not graph.col.is_cuda:
        try:
            return _counted(graph)
        except ImportError:
            pass
    rows = torch.arange(graph.num_rows, dtype=graph.col.dtype, device=graph.col.device)
    row = rows.repeat_interleave(graph.degree, output_size=graph.num_entries)
    order = graph.col.sort(stable=True).indices
    counts = torch.bincount(graph.col, minlength=graph.num_cols)
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return CSRGraph(rowptr.to(graph.rowptr.dtype), row[order], graph.num_rows)


def _counted(graph: CSRGraph) -> CSRGraph:
    """One counting sort: several times faster than sorting on the CPU, and stable like it."""
    from scipy import sparse

    ones = np.ones(graph.num_entries, dtype=np.int8)
    parts = (ones, graph.col.numpy(), graph.rowptr.numpy())
    by_column = sparse.csr_matrix(parts, shape=(graph.num_rows, graph.num_cols)).tocsc()
    return CSRGraph(
        torch.from_numpy(by_column.indptr).to(graph.rowptr.dtype),
        torch.from_numpy(by_column.indices).to(graph.col.dtype),
        graph.num_rows,
    )
