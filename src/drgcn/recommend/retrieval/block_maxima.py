"""Stage 1: the largest score in every block, and in every chunk of blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available
from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.rounded_vectors import RoundedVectors
from drgcn.recommend.retrieval.tiling import WIDEST

if triton_available():
    from drgcn.recommend.retrieval.block_maxima_kernel import maxima_by_kernel as _by_kernel
else:
    _by_kernel = None  # type: ignore[assignment]

_SCORES = 2**24  # held at a time where there is no kernel


def block_maxima(queries: RoundedVectors, blocks: ItemBlocks) -> tuple[Tensor, Tensor]:
    """Maxima of the rounded scores ``[q, chunks * chunk_blocks]``, and by chunk ``[q, chunks]``.

    Blocks without an item have minus infinity.
    """
    tiling = blocks.tiling
    kernel = _by_kernel is not None and queries.values.is_cuda and blocks.dim <= WIDEST
    if kernel and tiling.dtype != "float32":
        maxima, tops = _by_kernel(queries, blocks)
    else:
        maxima, tops = maxima_by_torch(queries, blocks)
    maxima[:, blocks.num_blocks :] = -torch.inf
    return maxima, tops


def maxima_by_torch(queries: RoundedVectors, blocks: ItemBlocks) -> tuple[Tensor, Tensor]:
    """The same numbers by matrix products of 32-bit floats, in which rounded values are exact."""
    tiling, size = blocks.tiling, len(queries.values)
    if tiling.dtype == "float32" and torch.get_float32_matmul_precision() != "highest":
        raise InputError(
            "Expected products of 32-bit floats as such; found float32_matmul_precision "
            f"{torch.get_float32_matmul_precision()!r}, whose error is not known. Set it to "
            "'highest', or cut the items with a Tiling of dtype bfloat16."
        )
    shape = (size, -1, tiling.fold, tiling.items // tiling.columns, tiling.columns)
    maxima = torch.empty(
        size, blocks.num_chunks * tiling.chunk_blocks, device=queries.values.device
    )
    left = queries.values.float()
    step = tiling.chunk_items * max(1, _SCORES // (tiling.chunk_items * max(size, 1)))
    for first in range(0, len(blocks.rounded), step):
        right = blocks.rounded[first : first + step, : blocks.dim].float().T
        start = first // tiling.block
        found = maxima[:, start : start + right.size(1) // tiling.block]
        scores = torch.mm(left, right, out=found if tiling.block == 1 else None)
        if blocks.bias is not None:
            scores += blocks.bias[first : first + step] * _ratio(queries, blocks)
        if tiling.block > 1:
            found.copy_(scores.view(shape).amax(dim=(2, 4)).view(size, -1))
    return maxima, maxima.view(size, blocks.num_chunks, tiling.chunk_blocks).amax(dim=2)


def _ratio(queries: RoundedVectors, blocks: ItemBlocks) -> float:
    return float(queries.scale[0, 0]) / blocks.scale
