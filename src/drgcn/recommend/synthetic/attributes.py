"""Attributes of all users and of all items."""

from __future__ import annotations

from collections.abc import Callable

import torch

from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.synthetic.astar_parameters import AstarParameters, AstarSizes
from drgcn.recommend.synthetic.attribute_columns import (
    ITEM_NUMBERS,
    USER_NUMBERS,
    item_categories,
    number_columns,
    user_categories,
)
from drgcn.recommend.synthetic.attribute_drawing import AttributeDrawing
from drgcn.recommend.synthetic.chunks import chunk_bounds, for_each_chunk
from drgcn.recommend.synthetic.node_truth import NodeTruth
from drgcn.recommend.synthetic.streams import Stream
from drgcn.recommend.synthetic.tastes import draw_tastes
from drgcn.recommend.synthetic.topic_map import TopicMap


def user_attributes(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, topics: TopicMap, chunk: int
) -> AttributeTable:
    """The 27 attributes of each user."""
    device = topics.starts.device
    drawing = AttributeDrawing.prepare(
        number_columns(USER_NUMBERS),
        user_categories(sizes.topics),
        (Stream.USER_NUMBERS, Stream.USER_CATEGORIES),
        parameters,
        seed,
        sizes.topics,
        device,
    )

    def truth(begin: int, end: int) -> NodeTruth:
        tastes = draw_tastes(begin, end, parameters, seed, topics)
        return NodeTruth(tastes.topics[:, 0], tastes.topics[:, 1], tastes.latents)

    return _filled(drawing, sizes.users, chunk, device, truth)


def item_attributes(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, topics: TopicMap, chunk: int
) -> AttributeTable:
    """The 33 attributes of each item."""
    device = topics.starts.device
    drawing = AttributeDrawing.prepare(
        number_columns(ITEM_NUMBERS),
        item_categories(sizes.topics),
        (Stream.ITEM_NUMBERS, Stream.ITEM_CATEGORIES),
        parameters,
        seed,
        sizes.topics,
        device,
    )

    def truth(begin: int, end: int) -> NodeTruth:
        place = topics.place_of[begin:end].long()
        topic = topics.topic_at(place)
        return NodeTruth(topic, topic, topics.latents[place].long())

    return _filled(drawing, sizes.items, chunk, device, truth)


def _filled(
    drawing: AttributeDrawing,
    rows: int,
    chunk: int,
    device: torch.device,
    truth: Callable[[int, int], NodeTruth],
) -> AttributeTable:
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
