"""The rows of one level of a tree on their way through the layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from drgcn.recommend.model.click_tree import ClickTree, Side, other
from drgcn.recommend.model.exchange import Exchange

_PARTS = 256


@dataclass(frozen=True, eq=False)
class TreePlaces:
    """The places of one level, and how much they count in pooled means.

    Attributes:
        tree: The tree.
        level: The number of the level.
        counted: How many roots count, the first ones.
    """

    tree: ClickTree
    level: int
    counted: int

    @cached_property
    def real(self) -> Tensor:
        """Where there is somebody ``[B, k1, ...]``."""
        return self.tree.real(self.level)

    @cached_property
    def weight(self) -> Tensor:
        """One where there is somebody who counts, else zero ``[rows]``."""
        return self._counting(self.real)

    @cached_property
    def neighbor_weight(self) -> Tensor:
        """How many neighbours each place has that count ``[rows]``."""
        return self._counting(self.tree.real(self.level + 1).sum(-1))

    def _counting(self, numbers: Tensor) -> Tensor:
        if self.counted < numbers.size(0):
            counts = torch.arange(numbers.size(0), device=numbers.device) < self.counted
            numbers = numbers * counts.view(-1, *[1] * (numbers.dim() - 1))
        return numbers.flatten()


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """What a layer needs to compute one level.

    Attributes:
        places: The level's places.
        own: Vectors of its nodes ``[rows, d]``.
        mean: Means over their neighbours ``[rows, d']``.
    """

    places: TreePlaces
    own: Tensor
    mean: Tensor

    @property
    def side(self) -> Side:
        """The side of its nodes."""
        return self.places.tree.side_of(self.places.level)

    def next_layer(self, own: Tensor, below: TreeBlock, hidden: Tensor) -> TreeBlock:
        """The input of the next layer, from this level's outputs and those of the level below."""
        real = below.places.real
        hidden = hidden.view(-1, real.size(-1), hidden.size(-1))
        real = real.to(hidden.dtype).view(hidden.size(0), 1, -1)
        # A product reads the vectors once; masking them first would copy them. Its factors are
        # ones and zeros, which no precision rounds.
        mean = (real @ hidden).squeeze(1) / real.sum(-1).clamp(min=1)
        return replace(self, own=own, mean=mean)


def next_blocks(blocks: Sequence[TreeBlock], hidden: Sequence[Tensor]) -> list[TreeBlock]:
    """What the next layer takes, from a layer's output for each block: a level less per tree."""
    pairs = zip(range(len(blocks) - 1), range(1, len(blocks)), strict=True)
    return [
        blocks[above].next_layer(hidden[above], blocks[below], hidden[below])
        for above, below in pairs
        if blocks[above].places.tree is blocks[below].places.tree
    ]


def pooled_means(
    blocks: Sequence[TreeBlock], widths: dict[Side, int], exchange: Exchange
) -> dict[Side, Tensor]:
    """The mean input of a layer for each side, every place of the trees of all ranks once.

    Levels give their own rows. The deepest one, whose vectors were never written down, is counted
    by the means of the level above times the number of places behind each.
    """
    deepest = {id(block.places.tree): block.places.level for block in blocks}
    exact = torch.float64 if blocks[0].own.dtype == torch.float64 else torch.float32
    sums: dict[Side, list[Tensor]] = {side: [] for side in widths}
    for block in blocks:
        places = block.places
        if not places.counted:
            continue
        sums[block.side].append(_sum_and_count(block.own, places.weight, exact))
        if places.level == deepest[id(places.tree)]:
            behind = _sum_and_count(block.mean, places.neighbor_weight, exact)
            sums[other(block.side)].append(behind)
    parts = [
        torch.stack(sums[side]).sum(0)
        if sums[side]
        else blocks[0].own.new_zeros(width + 1).to(exact)
        for side, width in widths.items()
    ]
    shared = exchange.sum(torch.cat(parts))  # one message for both sides
    found = shared.split([part.numel() for part in parts])
    return {
        side: part[:-1] / part[-1].clamp(min=1) for side, part in zip(widths, found, strict=True)
    }


def _sum_and_count(rows: Tensor, weight: Tensor, exact: torch.dtype) -> Tensor:
    """``weight @ rows`` and the sum of the weights ``[d + 1]``, in parts that are then added.

    One tall product would keep only a few of a GPU's processors busy. Weights are small whole
    numbers, which no precision rounds.
    """
    parts = math.gcd(rows.size(0), _PARTS)
    products = weight.to(rows.dtype).view(parts, 1, -1) @ rows.view(parts, -1, rows.size(1))
    return torch.cat([products.to(exact).sum((0, 1)), weight.sum()[None].to(exact)])
