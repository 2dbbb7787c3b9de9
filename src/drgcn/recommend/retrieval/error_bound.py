"""Bounds on the error of both stages of an exact search; derived in docs/retrieval.md.

All bounds are in the unit of stage 1: a true score times the scales of query and items, and for
``"l2"`` of ``u.i - |i|^2 / 2``, which ranks items as the distance does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.recommend.retrieval.blocks import ItemBlocks, RoundedVectors

#: What one addition may lose, relative to the sum of absolute values: twice the unit roundoff of
#: a 32-bit float, and eight times that where tensor cores, which cut rather than round, add up.
ADDITION = 2.0**-23
TENSOR_CORE_ADDITION = 2.0**-20
_SMALLEST = 2.0**-126  # below which a float loses digits


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Bounds for a batch of queries ``[q]``, in 64-bit floats.

    Attributes:
        stage_one: No number of stage 1 plus ``offset`` is farther than this from the true score.
        stage_two: No number of stage 2 is farther than this from the true score.
        offset: What stage 1 left out because it is the same for all items.
        factor: A number of stage 2 is ``factor * score + shift``.
        shift: See ``factor``.
    """

    stage_one: Tensor
    stage_two: Tensor
    offset: Tensor
    factor: Tensor
    shift: Tensor

    @classmethod
    def of(cls, queries: RoundedVectors, blocks: ItemBlocks) -> ErrorBound:
        """Bounds for these queries against these items."""
        dim = blocks.dim
        ratio, unit = queries.scale[:, 0] / blocks.scale, queries.scale[:, 0] * blocks.scale
        largest_bias = 0.5 * blocks.norm**2 * ratio if blocks.metric == "l2" else 0 * ratio
        addition = TENSOR_CORE_ADDITION if queries.values.is_cuda else ADDITION
        stage_one = (
            queries.moved * blocks.norm
            + queries.rounded_norm * blocks.moved
            + (dim + 8) * addition * (queries.rounded_norm * blocks.rounded_norm + largest_bias)
            + ratio * blocks.spread
            + (dim + 8) * _SMALLEST
        )
        if blocks.metric == "ip":
            stage_two = queries.norm * blocks.norm
            factor, shift = unit, torch.zeros_like(unit)
        else:
            norms = queries.norm / queries.scale[:, 0] + blocks.norm / blocks.scale
            stage_two = norms.square() * unit
            factor = unit / 2
            shift = queries.square / queries.scale[:, 0].square() * factor
        stage_two = (dim + 8) * (ADDITION * stage_two + _SMALLEST * unit)
        size = len(queries.values)
        return cls(
            stage_one,
            stage_two.expand(size),
            (ratio * blocks.offset).expand(size),
            factor.expand(size),
            shift.expand(size),
        )

    def __getitem__(self, rows: Tensor) -> ErrorBound:
        """The bounds of some queries."""
        parts = (self.stage_one, self.stage_two, self.offset, self.factor, self.shift)
        return ErrorBound(*(part[rows] for part in parts))

    def ceiling(self, maxima: Tensor) -> Tensor:
        """Upper bound of stage-2 numbers, for items with at most these stage-1 numbers."""
        return maxima.double() + self.offset + self.stage_one + self.stage_two

    def floor(self, maxima: Tensor) -> Tensor:
        """The least score, as stage 2 gives it, of an item with at least this stage-1 number."""
        low = maxima.double() + self.offset - self.stage_one - self.stage_two
        low = (low - self.shift) / self.factor
        return (low - low.abs() * 2.0**-23).float()

    def in_stage_one(self, scores: Tensor) -> Tensor:
        """Scores of stage 2 in the unit of stage 1."""
        return self.factor * scores.double() + self.shift
