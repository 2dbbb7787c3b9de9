"""Sorted events as the arrays of a click graph, without holding them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from drgcn.recommend.clicks.ingesting.npy_stream import NpyStream
from drgcn.recommend.clicks.transposing import transposed
from drgcn.sampling.graph import CSRGraph


def write_clicks(
    batches: Iterable[Any], folder: Path, num_users: int, num_items: int, with_days: bool
) -> int:
    """Writes what :meth:`ClickGraph.load` reads.

    Args:
        batches: Record batches with columns ``u``, ``i`` and perhaps ``d``, sorted by these.
        folder: Where to write.
        num_users: Number of users.
        num_items: Number of items.
        with_days: Whether there are days.

    Returns:
        Number of different pairs. Of a pair that comes more than once the first is kept.
    """
    kind = np.int32 if max(num_users, num_items) < 2**31 else np.int64
    counts = np.zeros(num_users + 1, dtype=np.int64)
    last = (-1, -1)
    with ExitStack() as stack:
        col = stack.enter_context(NpyStream(folder / "by_user" / "col.npy", kind))
        if with_days:
            days = stack.enter_context(NpyStream(folder / "days.npy", np.int16))
        for batch in batches:
            if not batch.num_rows:
                continue
            users, items = batch["u"].to_numpy(), batch["i"].to_numpy()
            new = np.empty(len(users), dtype=bool)
            new[0] = (users[0], items[0]) != last
            new[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
            last = (users[-1], items[-1])
            col.append(items[new])
            if with_days:
                days.append(batch["d"].to_numpy()[new])
            first = int(users[0])
            here = np.bincount(users[new] - first)  # sorted: a batch spans few users
            counts[first + 1 : first + 1 + len(here)] += here
    rowptr = np.cumsum(counts, out=counts)
    np.save(folder / "by_user" / "rowptr.npy", rowptr)
    facts = {"num_cols": num_items, "arrays": ["rowptr", "col"]}
    (folder / "by_user" / "graph.json").write_text(json.dumps(facts), encoding="utf-8")
    transposed(CSRGraph.open(folder / "by_user")).save(folder / "by_item")
    return int(rowptr[-1])
