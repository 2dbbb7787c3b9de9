"""Neighbours of a node at even distances in its row, from one random number per node."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available
from drgcn.sampling.graph import CSRGraph
from drgcn.streams import mix

if triton_available():
    from drgcn.recommend.model.draw_kernel import drawn_on_cuda
else:
    drawn_on_cuda = None  # type: ignore[assignment]

_HALF = 32
_LOW = (1 << _HALF) - 1


def draw_systematic(
    graph: CSRGraph, rows: Tensor, count: int, key: Tensor, first: int = 0
) -> Tensor:
    r"""Systematic sampling: place :math:`k` takes entry :math:`\lfloor (k + u) D / K \rfloor`.

    With one uniform :math:`u` per row, each of the :math:`D` entries is drawn :math:`K / D` times
    on average, so the mean over the draws is an unbiased estimate of the mean over the row. A row
    with :math:`D \ge K` gives distinct entries; one with fewer gives each of them
    :math:`\lfloor K/D \rfloor` or :math:`\lceil K/D \rceil` times. That is nearly as good as
    drawing without replacement, and needs neither a search for repeats nor a random number per
    place. Integers only: the same draws on CPU and CUDA.

    Args:
        graph: Whose rows to draw from.
        rows: Rows of any shape; ``graph.num_rows`` stands for nobody.
        count: Draws :math:`K` per row.
        key: 64-bit key of this draw, a tensor without axes.
        first: The number of the first row of ``rows`` among those of all ranks.

    Returns:
        Entries ``[*rows.shape, count]`` as int64; ``graph.num_cols`` where there is nobody.
    """
    if count < 1:
        raise InputError(f"Expected at least one neighbour to draw; found {count}.")
    if drawn_on_cuda is not None and rows.is_cuda:
        return drawn_on_cuda(graph, rows, count, key, first)
    somebody = rows < graph.num_rows
    row = torch.where(somebody, rows, 0)
    begin = graph.rowptr[row].long()
    degree = torch.where(somebody, graph.rowptr[row + 1].long() - begin, 0)
    counter = torch.arange(first, first + rows.numel(), device=rows.device).view(rows.shape)
    chance = (mix(key + counter) >> _HALF) & _LOW
    step = torch.arange(count, device=rows.device) << _HALF
    place = (((step + chance.unsqueeze(-1)) * degree.unsqueeze(-1)) >> _HALF) // count
    real = degree.unsqueeze(-1) > 0
    if graph.num_entries == 0:
        return torch.full_like(place, graph.num_cols)
    entry = torch.where(real, begin.unsqueeze(-1) + place, 0)
    return torch.where(real, graph.col[entry].long(), graph.num_cols)


def check_drawable(graph: CSRGraph, count: int) -> None:
    """Refuses rows so long that a draw would not fit 63 bits; done once, for it reads them all."""
    if count * graph.longest_row >= 1 << 30:
        raise InputError(
            f"Expected fan-out times the longest row below 2**30; found {count} times "
            f"{graph.longest_row}. Use a smaller fan-out, or CSRGraph.trimmed."
        )
