"""The entries of a sparse matrix at all crossings of some rows with some columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.sampling.csr_graph import CSRGraph
from drgcn.triton_available import triton_available

if triton_available():
    from drgcn.sampling.lookup_kernel import looked_up as _looked_up
else:
    _looked_up = None  # type: ignore[assignment]


def lookup(graph: CSRGraph, rows: Tensor, cols: Tensor) -> Tensor:
    """The entries ``[rows, cols]``, zero where there is none; no gradient.

    By bisection in every row at once, which takes as many looks as the longest row has binary
    digits, and no more memory than the result. Each row's entries must be sorted by column, as
    :meth:`CSRGraph.from_edge_index` leaves them. Under :func:`torch.vmap` every lane has its own
    rows and columns.
    """
    return _Lookup.apply(rows, cols, graph)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor, cols: Tensor, graph: CSRGraph) -> Tensor:
        if not graph.num_entries:
            kind = torch.get_default_dtype() if graph.value is None else graph.value.dtype
            return torch.zeros(*rows.shape, cols.size(-1), dtype=kind, device=rows.device)
        if rows.is_cuda and _looked_up is not None:
            return _looked_up(graph, rows, cols)
        last = graph.num_entries - 1
        low = graph.rowptr[rows][..., None].expand(*rows.shape, cols.size(-1))
        end = graph.rowptr[rows + 1][..., None]
        high = end.expand_as(low)
        wanted = cols.to(graph.col.dtype)[..., None, :]
        for _ in range(graph.longest_row.bit_length()):
            middle = low + ((high - low) >> 1)  # whose sum might not fit 32 bits
            before = (graph.col[middle.clamp(max=last)] < wanted) & (middle < high)
            low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
        place = low.clamp(max=last)
        found = (low < end) & (graph.col[place] == wanted)
        if graph.value is None:
            return found.to(torch.get_default_dtype())
        return torch.where(found, graph.value[place], 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], rows: Tensor, cols: Tensor, graph: CSRGraph
    ) -> tuple[Tensor, int]:
        def lanes(value: Tensor, dim: int | None) -> Tensor:
            if dim is None:
                return value.expand(info.batch_size, *value.shape)
            return value.movedim(dim, 0)

        return _Lookup.apply(lanes(rows, in_dims[0]), lanes(cols, in_dims[1]), graph), 0
