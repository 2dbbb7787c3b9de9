"""Random tables of clicks, and what they come to, written out step by step."""

import random
from pathlib import Path

import pyarrow as pa
import torch
from pyarrow import parquet

DAY = 86_400
START = 1_700_000_000


def random_events(seed, count=600, users=40, items=25, days=9, user_id="u{}".format, item_id=int):
    draw = random.Random(seed)
    return [
        (
            user_id(draw.randrange(users)),
            item_id(draw.randrange(items) * 7 + 3),
            START + draw.randrange(days * DAY),
        )
        for _ in range(count)
    ]


def write_csv(path, names, rows, delimiter=","):
    lines = [names, *rows]
    text = "\n".join(
        delimiter.join("" if value is None else str(value) for value in row) for row in lines
    )
    Path(path).write_text(text + "\n", encoding="utf-8")
    return Path(path)


def write_parquet(path, names, rows):
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pa.table(columns), path)
    return Path(path)


def literal_clicks(events, day_zero=None, more_users=(), more_items=()):
    """Ids in ascending order, and the first day of each pair by its numbers, in order."""
    users = sorted({user for user, _, _ in events} | set(more_users))
    items = sorted({item for _, item, _ in events} | set(more_items))
    zero = min(time for _, _, time in events) // DAY if day_zero is None else day_zero
    first = {}
    for user, item, time in events:
        pair = (users.index(user), items.index(item))
        first[pair] = min(first.get(pair, 10**9), time // DAY - zero)
    return users, items, dict(sorted(first.items()))


def clicks_of(graph):
    """The pairs of a graph with their days, in order."""
    users = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree)
    pairs = list(zip(users.tolist(), graph.by_user.col.tolist(), strict=True))
    days = [None] * len(pairs) if graph.days is None else graph.days.tolist()
    clicks = dict(zip(pairs, days, strict=True))
    assert list(clicks) == sorted(clicks)
    assert len(clicks) == len(pairs) == graph.num_clicks
    return clicks


def pairs_by_item(graph):
    """The pairs that the other side knows, in its order turned round."""
    items = torch.arange(graph.num_items).repeat_interleave(graph.by_item.degree)
    pairs = list(zip(items.tolist(), graph.by_item.col.tolist(), strict=True))
    assert pairs == sorted(pairs)
    return sorted((user, item) for item, user in pairs)


def ids_of(ids, count):
    return list(range(count)) if ids is None else ids.to_pylist()
