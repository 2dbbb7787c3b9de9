"""``astar``: synthetic clicks of industrial size, the same bits wherever they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn._io import whole_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph, transposed
from drgcn.recommend.synthetic.attributes import item_attributes, user_attributes
from drgcn.recommend.synthetic.clicks import AstarParameters, AstarSizes, ClickDrawing, TopicMap
from drgcn.recommend.synthetic.random import (
    Stream,
    chunk_bounds,
    chunk_size,
    clicks_of_users,
    counters,
    for_each_chunk,
    hash64,
    stream_key,
)
from drgcn.sampling.graph import CSRGraph
from drgcn.streams import below, scatter_bits

_PIECES = {"cuda": 2**24, "cpu": 2**15}
# The columns of the rows from a first to before a last.
Columns = Callable[[int, int], dict[str, Any]]
_ROWS = 2**20
_DAY = 86_400
_DAY_ZERO = 20_454 * _DAY  # an arbitrary midnight, in seconds since 1970


def generate_astar(
    fraction: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    chunk: int | None = None,
    parameters: AstarParameters | None = None,
) -> ClickData:
    """Draw users, items, clicks and attributes. They are synthetic.

    The sizes are those of a graph that was published without its data; everything else is made
    up, see ``docs/recommend_inside.md``. No number measured on it can be compared with one
    measured there.

    The same fraction, seed and parameters give the same bits on every device and for every chunk.

    Args:
        fraction: Share of the full numbers of users, items and clicks, 1e-4 to 1.
        seed: Seed of everything, from 0 on.
        device: Where to draw, and where the result lies.
        chunk: Users or items drawn at once. (default: by device)
        parameters: What shapes the clicks. (default: as published)
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"Expected a seed from 0 to 2**63 - 1; found {seed!r}.")
    device = torch.device(device)
    chunk = chunk_size(device) if chunk is None else chunk
    if chunk < 1:
        raise InputError(f"Expected a chunk of at least one user; found {chunk!r}.")
    parameters = AstarParameters() if parameters is None else parameters
    sizes = parameters.sized(fraction)
    topics = TopicMap.draw(parameters, sizes, seed, device)
    graph = _draw_graph(parameters, sizes, seed, topics, chunk)
    users = user_attributes(parameters, sizes, seed, topics, chunk)
    items = item_attributes(parameters, sizes, seed, topics, chunk)
    return ClickData(graph, users, items, name=f"astar (synthetic) {fraction:g} seed {seed}")


def degrees(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, device: torch.device
) -> Tensor:
    """Clicks of each user ``[users]``: the same numbers for every seed, shuffled."""
    at_least = clicks_of_users(sizes.users, sizes.clicks, parameters.user_tail, sizes.most_clicks)
    exactly = torch.from_numpy(at_least - np.append(at_least[1:], 0)).to(device)
    ascending = torch.arange(1, exactly.numel() + 1, device=device).repeat_interleave(
        exactly, output_size=sizes.users
    )
    keys = hash64(stream_key(seed, Stream.USER_ORDER), counters(0, sizes.users, device))
    shuffled = torch.empty_like(ascending)
    shuffled[keys.argsort()] = ascending  # the keys are all different: there is one order
    return shuffled


def _draw_graph(
    parameters: AstarParameters, sizes: AstarSizes, seed: int, topics: TopicMap, chunk: int
) -> ClickGraph:
    device = topics.starts.device
    rowptr = torch.zeros(sizes.users + 1, dtype=torch.int64, device=device)
    torch.cumsum(degrees(parameters, sizes, seed, device), 0, out=rowptr[1:])
    drawing = ClickDrawing.prepare(parameters, seed, topics)
    col = torch.empty(sizes.clicks, dtype=torch.int32, device=device)
    days = torch.empty(sizes.clicks, dtype=torch.int16, device=device)
    bounds = chunk_bounds(sizes.users, chunk)
    ends = rowptr[torch.tensor(bounds, device=device)].tolist()
    place = dict(zip(bounds, ends, strict=True))  # on the host, so that no chunk has to ask

    def draw(begin: int, end: int) -> None:
        low, high = place[begin], place[end]
        items, when = drawing.draw(begin, end, rowptr[begin : end + 1], high - low)
        col[low:high], days[low:high] = items, when

    for_each_chunk(bounds, device, draw)
    by_user = CSRGraph(rowptr, col, sizes.items)
    return ClickGraph(by_user, transposed(by_user), days)


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


def write_tables(data: ClickData, folder: str | PathLike[str]) -> Path:
    """Write ``clicks.parquet``, ``users.parquet`` and ``items.parquet`` into a new folder.

    Clicks have the columns user, item and time, in seconds since 1970, at a random second of their
    day. Tables of attributes have the column user or item, and then one for each attribute;
    categories are texts. Missing values are null.
    """
    days = data.graph.days
    if days is None or data.users is None or data.items is None:
        raise InputError(
            "Expected clicks with days and attributes of both sides; some are missing."
        )
    with whole_folder(folder) as partial:
        _write(partial / "clicks.parquet", data.graph.num_clicks, _click_columns(data.graph, days))
        for side, table in (("user", data.users), ("item", data.items)):
            _write(partial / f"{side}s.parquet", len(table), _attribute_columns(table, side))
    return Path(folder)


def _click_columns(graph: ClickGraph, days: Tensor) -> Columns:
    rowptr = graph.by_user.rowptr.cpu()
    key = stream_key(0)

    def columns(begin: int, end: int) -> dict[str, Any]:
        click = counters(begin, end, torch.device("cpu"))
        second = below(hash64(key, click), _DAY)
        return {
            "user": (torch.bucketize(click, rowptr, right=True) - 1).numpy(),
            "item": graph.by_user.col[begin:end].cpu().numpy(),
            "time": (_DAY_ZERO + days[begin:end].cpu().long() * _DAY + second).numpy(),
        }

    return columns


def _attribute_columns(table: AttributeTable, side: str) -> Columns:
    import pyarrow as pa

    def columns(begin: int, end: int) -> dict[str, Any]:
        numeric = table.numeric[begin:end].cpu().numpy()
        codes = table.categories[begin:end].cpu().numpy()
        found: dict[str, Any] = {side: np.arange(begin, end, dtype=np.int64)}
        for j, name in enumerate(table.numeric_names):
            found[name] = pa.array(numeric[:, j], from_pandas=True)  # NaN becomes null
        for j, name in enumerate(table.category_names):
            found[name] = pa.array(codes[:, j], mask=codes[:, j] < 0).cast(pa.string())
        return found

    return columns


def _write(path: Path, rows: int, columns: Columns) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    first = pa.table(columns(0, 0))
    with parquet.ParquetWriter(path, first.schema) as writer:
        for begin, end in pairwise(chunk_bounds(rows, _ROWS)):
            writer.write_table(pa.table(columns(begin, end)))
