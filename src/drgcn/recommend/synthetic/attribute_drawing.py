"""Columns filled with noise and a little truth, for some nodes at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.recommend.synthetic.astar_parameters import AstarParameters
from drgcn.recommend.synthetic.category_column import CategoryColumn
from drgcn.recommend.synthetic.counter_hash import counters, hash64, high_bits, stream_key
from drgcn.recommend.synthetic.node_truth import NodeTruth
from drgcn.recommend.synthetic.number_column import MISSING, SPREAD, NumberColumn
from drgcn.recommend.synthetic.streams import Stream

_CENTRE = 98_302  # mean of three uniform 16-bit numbers, rounded down


@dataclass(frozen=True, eq=False)
class AttributeDrawing:
    """Draws the attributes of users, or those of items.

    Attributes:
        numbers: Columns of numbers.
        categories: Columns of categories.
        number_keys: A key for each column of numbers.
        category_keys: A key for each column of categories.
        values: The values of each column of numbers ``[numbers, 65537]``.
        levels: The shift of each topic in each column of numbers ``[numbers, topics]``.
        latent_shift: The shift of a latent factor.
    """

    numbers: tuple[NumberColumn, ...]
    categories: tuple[CategoryColumn, ...]
    number_keys: tuple[int, ...]
    category_keys: tuple[int, ...]
    values: Tensor
    levels: Tensor
    latent_shift: int

    @classmethod
    def prepare(
        cls,
        numbers: tuple[NumberColumn, ...],
        categories: tuple[CategoryColumn, ...],
        streams: tuple[Stream, Stream],
        parameters: AstarParameters,
        seed: int,
        topics: int,
        device: torch.device,
    ) -> AttributeDrawing:
        """Makes the tables.

        Args:
            numbers: Columns of numbers.
            categories: Columns of categories.
            streams: Where numbers and where categories are drawn from.
            parameters: What shapes them.
            seed: Seed of everything.
            topics: Number of topics.
            device: Where to draw.
        """
        topic = counters(0, topics, device)
        reach = round(parameters.topic_signal * SPREAD)
        levels = [
            (
                (high_bits(hash64(stream_key(seed, Stream.TOPIC_LEVELS, j), topic), 16) - 2**15)
                * reach
            )
            >> 15
            for j in range(len(numbers))
        ]
        values = [torch.from_numpy(column.values()) for column in numbers]
        return cls(
            numbers,
            categories,
            tuple(stream_key(seed, streams[0], j) for j in range(len(numbers))),
            tuple(stream_key(seed, streams[1], j) for j in range(len(categories))),
            torch.stack(values).to(device),
            torch.stack(levels),
            round(parameters.latent_signal * SPREAD),
        )

    def fill(self, begin: int, truth: NodeTruth, numeric: Tensor, categories: Tensor) -> None:
        """Writes the attributes of the nodes from ``begin`` on.

        Args:
            begin: The first node.
            truth: What is true of the nodes.
            numeric: Where to write numbers ``[nodes, numbers]``.
            categories: Where to write categories ``[nodes, categories]``.
        """
        node = counters(begin, begin + len(numeric), numeric.device)
        for j in range(len(self.numbers)):
            numeric[:, j] = self._number(j, node, truth)
        for j in range(len(self.categories)):
            categories[:, j] = self._category(j, node, truth)

    def _number(self, j: int, node: Tensor, truth: NodeTruth) -> Tensor:
        """Three uniform numbers make a bell whose standard deviation is ``SPREAD``."""
        column = self.numbers[j]
        bits = hash64(self.number_keys[j], node)
        level = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) - _CENTRE
        if column.carries == "latent":
            level = level + truth.sign(column.factor) * self.latent_shift
        elif column.carries == "topic":
            level = level + self.levels[j][truth.topic]
        index = (level + 4 * SPREAD) >> 2
        if column.missing:
            index = index.masked_fill(high_bits(bits, 16) < column.missing, MISSING)
        return self.values[j][index]  # read, not computed: the same bits on every device

    def _category(self, j: int, node: Tensor, truth: NodeTruth) -> Tensor:
        column = self.categories[j]
        bits = hash64(self.category_keys[j], node)
        low = bits & 0xFFFFFFFF
        if column.carries == "nothing":
            half = low >> 1
            code = ((half * half >> 31) * column.size) >> 31
        else:
            true = (bits >> 32 & 0xFFFF) < column.fidelity
            code = torch.where(true, truth.code(column.carries), low * column.size >> 32)
        if column.missing:
            code = code.masked_fill(high_bits(bits, 16) < column.missing, -1)
        return code
