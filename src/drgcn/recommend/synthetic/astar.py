"""``astar``: synthetic clicks of industrial size, the same bits wherever they are made."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.transposing import transposed
from drgcn.recommend.synthetic.astar_parameters import AstarParameters, AstarSizes
from drgcn.recommend.synthetic.attributes import item_attributes, user_attributes
from drgcn.recommend.synthetic.chunks import chunk_bounds, chunk_size, for_each_chunk
from drgcn.recommend.synthetic.click_drawing import ClickDrawing
from drgcn.recommend.synthetic.counter_hash import counters, hash64, stream_key
from drgcn.recommend.synthetic.power_law import clicks_of_users
from drgcn.recommend.synthetic.streams import Stream
from drgcn.recommend.synthetic.topic_map import TopicMap
from drgcn.sampling.graph import CSRGraph


def generate_astar(
    fraction: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    chunk: int | None = None,
    parameters: AstarParameters | None = None,
) -> ClickData:
    """Draw users, items, clicks and attributes. They are synthetic.

    The sizes are those of a graph that was published without its data; everything else is made
    up, see ``docs/astar.md``. No number measured on it can be compared with one measured there.

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
