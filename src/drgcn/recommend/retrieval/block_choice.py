"""Which blocks to look into: those with the largest maxima."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class BlockChoice:
    """The blocks chosen for each query.

    Attributes:
        blocks: ``[q, count]``, those with the largest maxima first.
        maxima: Their maxima ``[q, count]``.
        outside: The largest maximum that was not chosen ``[q]``; minus infinity if all were.
    """

    blocks: Tensor
    maxima: Tensor
    outside: Tensor

    @classmethod
    def of(cls, maxima: Tensor, tops: Tensor, count: int, num_blocks: int) -> BlockChoice:
        """Chooses ``count`` blocks by two short searches instead of one long one.

        The blocks wanted lie in the ``count`` chunks with the largest maxima, for the same
        reason as items do in blocks.

        Args:
            maxima: By block ``[q, chunks * chunk_blocks]``.
            tops: By chunk ``[q, chunks]``.
            count: How many to choose.
            num_blocks: How many blocks there are; those beyond are padding.
        """
        (size, chunks), width = tops.shape, maxima.size(1) // tops.size(1)
        count = min(count, num_blocks)
        left_out = maxima.new_full((size, 1), -torch.inf)
        if count + 1 < chunks:
            best, chunk = tops.topk(count + 1, dim=1)
            left_out, chunk = best[:, -1:], chunk[:, :-1]
            place = chunk[:, :, None].expand(-1, -1, width)
            maxima = maxima.view(size, chunks, width).gather(1, place).flatten(1)
        else:
            chunk = torch.arange(chunks, device=tops.device).expand(size, -1)
        best, place = maxima.topk(min(count + 1, maxima.size(1)), dim=1)
        outside = torch.cat([left_out, best[:, count:]], dim=1).amax(dim=1)
        best, place = best[:, :count], place[:, :count]
        return cls(chunk.gather(1, place // width) * width + place % width, best, outside)
