"""The rows of one level of a tree on their way through the layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.recommend.model.click_tree import ClickTree, Side, other
from drgcn.recommend.model.exchange import Exchange

_PARTS = 256


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """What a layer needs to compute one level.

    Attributes:
        side: The side of its nodes.
        tree: The number of the tree.
        level: The number of the level.
        own: Vectors of its nodes ``[rows, d]``.
        mean: Means over their neighbours ``[rows, d']``.
        weight: How much each row counts in pooled means ``[rows]``.
        neighbor_weight: How many neighbours each row has that count ``[rows]``.
        real: Where there is somebody ``[B, k1, ...]``.
    """

    side: Side
    tree: int
    level: int
    own: Tensor
    mean: Tensor
    weight: Tensor
    neighbor_weight: Tensor
    real: Tensor

    @classmethod
    def of(
        cls,
        tree: ClickTree,
        number: int,
        level: int,
        own: Tensor,
        mean: Tensor,
        counted: int | None = None,
    ) -> TreeBlock:
        """The input of the first layer at one level.

        Args:
            tree: The tree.
            number: Its number.
            level: The level.
            own: Encoded vectors of its nodes.
            mean: Encoded means of their neighbours.
            counted: How many roots count in pooled means, the first ones. (default: all)
        """
        real, below = tree.real(level), tree.real(level + 1)
        exact = torch.float64 if own.dtype == torch.float64 else torch.float32
        weight, neighbor_weight = real.to(exact), below.sum(-1).to(exact)
        if counted is not None and counted < real.size(0):
            counts = torch.arange(real.size(0), device=real.device) < counted
            counts = counts.view(-1, *[1] * (real.dim() - 1))
            weight, neighbor_weight = weight * counts, neighbor_weight * counts
        return cls(
            tree.side_of(level),
            number,
            level,
            own,
            mean,
            weight.flatten(),
            neighbor_weight.flatten(),
            real,
        )

    def next_layer(self, own: Tensor, below: TreeBlock, hidden: Tensor) -> TreeBlock:
        """The input of the next layer, from this level's outputs and those of the level below."""
        hidden = hidden.view(-1, below.real.size(-1), hidden.size(-1))
        real = below.real.to(hidden.dtype).view(hidden.size(0), 1, -1)
        # A product reads the vectors once; masking them first would copy them. Its factors are
        # ones and zeros, which no precision rounds.
        mean = (real @ hidden).squeeze(1) / real.sum(-1).clamp(min=1)
        return TreeBlock(
            self.side,
            self.tree,
            self.level,
            own,
            mean,
            self.weight,
            self.neighbor_weight,
            self.real,
        )


def next_blocks(blocks: Sequence[TreeBlock], hidden: Sequence[Tensor]) -> list[TreeBlock]:
    """What the next layer takes, from a layer's output for each block: a level less per tree."""
    pairs = zip(range(len(blocks) - 1), range(1, len(blocks)), strict=True)
    return [
        blocks[above].next_layer(hidden[above], blocks[below], hidden[below])
        for above, below in pairs
        if blocks[above].tree == blocks[below].tree
    ]


def pooled_means(
    blocks: Sequence[TreeBlock], widths: dict[Side, int], exchange: Exchange
) -> dict[Side, Tensor]:
    """The mean input of a layer for each side, every place of the trees of all ranks once.

    Levels give their own rows. The deepest one, whose vectors were never written down, is counted
    by the means of the level above times the number of places behind each.
    """
    deepest = {block.tree: block.level for block in blocks}
    sums: dict[Side, list[Tensor]] = {side: [] for side in widths}
    counts: dict[Side, list[Tensor]] = {side: [] for side in widths}
    for block in blocks:
        sums[block.side].append(_weighted_sum(block.own, block.weight))
        counts[block.side].append(block.weight.sum())
        if block.level == deepest[block.tree]:
            sums[other(block.side)].append(_weighted_sum(block.mean, block.neighbor_weight))
            counts[other(block.side)].append(block.neighbor_weight.sum())
    zero = blocks[0].weight.new_zeros(())
    parts = [
        part
        for side, width in widths.items()
        for part in (
            torch.stack(sums[side]).sum(0) if sums[side] else zero.expand(width),
            torch.stack(counts[side]).sum()[None] if counts[side] else zero[None],
        )
    ]
    shared = exchange.sum(torch.cat(parts))  # one message for both sides
    found = shared.split([part.numel() for part in parts])
    return {
        side: found[2 * number] / found[2 * number + 1].clamp(min=1)
        for number, side in enumerate(widths)
    }


def _weighted_sum(rows: Tensor, weight: Tensor) -> Tensor:
    """``weight @ rows`` in parts that are summed in the precision of the weights.

    One tall product would keep only a few of a GPU's processors busy. Weights are small whole
    numbers, which no precision rounds.
    """
    parts = math.gcd(rows.size(0), _PARTS)
    products = weight.to(rows.dtype).view(parts, 1, -1) @ rows.view(parts, -1, rows.size(1))
    return products.to(weight.dtype).sum((0, 1))
