"""One number for a set of clicks, computed where the set lies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.synthetic.counter_hash import counters, hash64, scatter_bits, stream_key

_PIECES = {"cuda": 2**24, "cpu": 2**15}


def checksum(data: ClickData) -> str:
    """Sixteen hexadecimal digits that change with any value and with any order.

    Each value is hashed with its place, and the hashes are added up modulo ``2**64``: adding whole
    numbers gives the same sum in any order, so devices agree. It is quick and needs no copy to the
    host, and it is no protection against intent: that is what ``content_hash`` is for.
    """
    size = _PIECES.get(data.graph.device.type, 2**20)
    total = torch.zeros((), dtype=torch.int64, device=data.graph.device)
    for number, values in enumerate(_tensors(data)):
        key = stream_key(number, values.numel())
        flat = values.reshape(-1)
        for begin in range(0, flat.numel(), size):
            piece = _integers(flat[begin : begin + size])
            place = hash64(key, counters(begin, begin + piece.numel(), piece.device))
            total = total + scatter_bits(place ^ piece).sum()
    return f"{int(total) % 2**64:016x}"


def _tensors(data: ClickData) -> Iterator[Tensor]:
    graph = data.graph
    yield from (graph.by_user.rowptr, graph.by_user.col, graph.by_item.rowptr, graph.by_item.col)
    if graph.days is not None:
        yield graph.days
    for table in (data.users, data.items):
        if table is not None:
            yield from (table.numeric, table.categories)


def _integers(values: Tensor) -> Tensor:
    if values.is_floating_point():
        bits = values.float().view(torch.int32)
        return bits.masked_fill(values.isnan(), -1).long()  # every NaN is the same
    return values.long()
