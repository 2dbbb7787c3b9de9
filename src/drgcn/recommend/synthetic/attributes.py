"""Attributes of synthetic users and items: columns of noise with a little truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.synthetic.clicks import (
    AstarParameters,
    AstarSizes,
    TopicMap,
    draw_tastes,
)
from drgcn.recommend.synthetic.random import (
    Stream,
    chunk_bounds,
    counters,
    for_each_chunk,
    hash64,
    stream_key,
)
from drgcn.streams import high_bits

SPREAD: Final = 2**15  # standard deviation of the noise, see attributes.py
MISSING: Final = 2**16  # index of the missing value
_HALF: Final = 2**15
_STEP: Final = 4  # neighbouring indices differ by so much
USER_NUMBERS: Final = 19
ITEM_NUMBERS: Final = 24
TOPICS_PER_GROUP: Final = 16
_ONE: Final = 65_536
_SCALES: Final = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
)
_CARRIES: Final[tuple[Literal["latent", "topic", "nothing"], ...]] = (
    "latent",
    "topic",
    "nothing",
    "nothing",
)
_LOG_SPREADS: Final = (0.5, 1.0, 2.0)
_OFFSETS: Final = (0, 3, -1)
_MISSING: Final = (0, 0, 0, _ONE // 32, _ONE // 8)
_STYLE_SHIFT, _BRAND_SHIFT = 6, 10  # factors 0 to 5 are carried by numbers
_CENTRE = 98_302  # mean of three uniform 16-bit numbers, rounded down


@dataclass(frozen=True)
class CategoryColumn:
    """One attribute of categories.

    Attributes:
        name: Its name.
        carries: What it tells: the topic (a user's first favourite), the group of that topic, the
            second favourite, four latent factors ("style"), topic and two factors ("brand"), or
            nothing.
        size: Number of categories.
        fidelity: How often it tells the truth, in 65,536ths; else it is drawn uniformly. What
            tells nothing is drawn with more weight on the first categories.
        missing: Share of missing values, in 65,536ths.
    """

    name: str
    carries: Literal["topic", "group", "second", "style", "brand", "nothing"]
    size: int
    fidelity: int = 0
    missing: int = 0


@dataclass(frozen=True)
class NumberColumn:
    """One attribute of numbers.

    Attributes:
        name: Its name.
        carries: What shifts it: a latent factor, the topic, or nothing.
        factor: Which latent factor, if one.
        scale: What one standard deviation of the noise is worth, or the median if log-normal.
        offset: Mean, in multiples of the scale; not for log-normal columns.
        log_spread: Standard deviation of the logarithm; 0 for a bell.
        missing: Share of missing values, in 65,536ths.
    """

    name: str
    carries: Literal["latent", "topic", "nothing"]
    factor: int
    scale: float
    offset: int
    log_spread: float
    missing: int

    def values(self) -> npt.NDArray[np.float32]:
        """The value for each of 65,536 levels of noise and signal, and NaN behind them.

        Products alone make the exponentials, so that every machine has the same table.
        """
        if self.log_spread:
            step = Decimal(self.log_spread) * _STEP / SPREAD
            up = np.cumprod(np.full(_HALF, float(step.exp())))
            down = np.cumprod(np.full(_HALF, float((-step).exp())))
            levels = self.scale * np.concatenate([down[::-1], [1.0], up[:-1]])
        else:
            index = np.arange(-_HALF, _HALF, dtype=np.float64)
            levels = self.scale * (self.offset + index * (_STEP / SPREAD))
        return np.append(levels, np.nan).astype(np.float32)


def number_columns(count: int) -> tuple[NumberColumn, ...]:
    """Columns by rule: everything but the name follows from a column's number.

    Of four columns one carries a factor, one the topic, and two nothing. Every third is
    log-normal. Scales walk through 0.01, 0.02, 0.05, ..., 1000 in steps of five.
    """
    return tuple(
        NumberColumn(
            name=f"number_{j}",
            carries=_CARRIES[j % 4],
            factor=j // 4,
            scale=_SCALES[5 * j % len(_SCALES)],
            offset=_OFFSETS[j // 3 % 3],
            log_spread=_LOG_SPREADS[j // 3 % 3] if j % 3 == 2 else 0.0,
            missing=_MISSING[j % len(_MISSING)],
        )
        for j in range(count)
    )


def user_categories(topics: int) -> tuple[CategoryColumn, ...]:
    """The 8 columns of categories of users, for so many topics."""
    groups = -(-topics // TOPICS_PER_GROUP)
    return (
        CategoryColumn("interest", "topic", topics, _ONE * 5 // 8, _ONE // 32),
        CategoryColumn("interest_group", "group", groups, _ONE * 3 // 4),
        CategoryColumn("second_interest", "second", topics, _ONE // 2, _ONE // 4),
        CategoryColumn("style", "style", 16, _ONE * 3 // 4),
        CategoryColumn("noise_3", "nothing", 3),
        CategoryColumn("noise_12", "nothing", 12, 0, _ONE // 16),
        CategoryColumn("noise_64", "nothing", 64),
        CategoryColumn("noise_340", "nothing", 340, 0, _ONE // 8),
    )


def item_categories(topics: int) -> tuple[CategoryColumn, ...]:
    """The 9 columns of categories of items, for so many topics."""
    groups = -(-topics // TOPICS_PER_GROUP)
    return (
        CategoryColumn("topic", "topic", topics, _ONE * 5 // 8, _ONE // 32),
        CategoryColumn("topic_group", "group", groups, _ONE * 3 // 4),
        CategoryColumn("brand", "brand", 4 * topics, _ONE // 2, _ONE // 8),
        CategoryColumn("style", "style", 16, _ONE * 3 // 4),
        CategoryColumn("noise_2", "nothing", 2),
        CategoryColumn("noise_7", "nothing", 7),
        CategoryColumn("noise_30", "nothing", 30, 0, _ONE // 16),
        CategoryColumn("noise_365", "nothing", 365),
        CategoryColumn("noise_10000", "nothing", 10_000, 0, _ONE // 8),
    )


@dataclass(frozen=True, eq=False)
class NodeTruth:
    """Topics and latent factors of some nodes.

    Attributes:
        topic: The topic of each item, or the first favourite of each user ``[nodes]``.
        second: The second favourite of each user; of items the topic again.
        latents: The factors as bits.
    """

    topic: Tensor
    second: Tensor
    latents: Tensor

    def sign(self, factor: int) -> Tensor:
        """A latent factor of each node, -1 or 1."""
        return ((self.latents >> factor) & 1) * 2 - 1

    def code(self, carries: Literal["topic", "group", "second", "style", "brand"]) -> Tensor:
        """The true category of each node, see :class:`CategoryColumn`."""
        match carries:
            case "topic":
                return self.topic
            case "group":
                return self.topic.div(TOPICS_PER_GROUP, rounding_mode="floor")
            case "second":
                return self.second
            case "style":
                return (self.latents >> _STYLE_SHIFT) & 15
            case "brand":
                return self.topic * 4 + ((self.latents >> _BRAND_SHIFT) & 3)


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
        topics: TopicMap,
    ) -> AttributeDrawing:
        """Make the tables, on the device of the topics.

        Args:
            numbers: Columns of numbers.
            categories: Columns of categories.
            streams: Where numbers and where categories are drawn from.
            parameters: What shapes them.
            seed: Seed of everything.
            topics: The topics.
        """
        device = topics.starts.device
        topic = counters(0, topics.sizes.numel(), device)
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
        """Write the attributes of the nodes from ``begin`` on.

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


def user_attributes(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, topics: TopicMap, chunk: int
) -> AttributeTable:
    """The 27 attributes of each user."""
    drawing = AttributeDrawing.prepare(
        number_columns(USER_NUMBERS),
        user_categories(sizes.topics),
        (Stream.USER_NUMBERS, Stream.USER_CATEGORIES),
        parameters,
        seed,
        topics,
    )

    def truth(begin: int, end: int) -> NodeTruth:
        tastes = draw_tastes(begin, end, parameters, seed, topics)
        return NodeTruth(tastes.topics[:, 0], tastes.topics[:, 1], tastes.latents)

    return _filled(drawing, sizes.users, chunk, truth)


def item_attributes(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, topics: TopicMap, chunk: int
) -> AttributeTable:
    """The 33 attributes of each item."""
    drawing = AttributeDrawing.prepare(
        number_columns(ITEM_NUMBERS),
        item_categories(sizes.topics),
        (Stream.ITEM_NUMBERS, Stream.ITEM_CATEGORIES),
        parameters,
        seed,
        topics,
    )

    def truth(begin: int, end: int) -> NodeTruth:
        place = topics.place_of[begin:end].long()
        topic = topics.topic_at(place)
        return NodeTruth(topic, topic, topics.latents[place].long())

    return _filled(drawing, sizes.items, chunk, truth)


def _filled(
    drawing: AttributeDrawing,
    rows: int,
    chunk: int,
    truth: Callable[[int, int], NodeTruth],
) -> AttributeTable:
    device = drawing.values.device
    numeric = torch.empty(rows, len(drawing.numbers), device=device, dtype=torch.float32)
    codes = torch.empty(rows, len(drawing.categories), device=device, dtype=torch.int32)

    def fill(begin: int, end: int) -> None:
        drawing.fill(begin, truth(begin, end), numeric[begin:end], codes[begin:end])

    for_each_chunk(chunk_bounds(rows, chunk), device, fill)
    return AttributeTable(
        numeric,
        codes,
        tuple(column.name for column in drawing.numbers),
        tuple(column.name for column in drawing.categories),
        tuple(column.size for column in drawing.categories),
    )
