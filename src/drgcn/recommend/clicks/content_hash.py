"""One number for the content of a set of clicks, whatever types it is stored in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from drgcn.recommend.clicks.click_data import ClickData

_CHUNK = 2**22


def hash_content(data: ClickData) -> str:
    """SHA-256 of clicks, days, attributes and ids.

    The name is left out, and so is what follows from the rest (``by_item``). Integers are hashed
    as 64 bits and every NaN as the same one, so the hash does not depend on how data is held.
    """
    digest = hashlib.sha256()
    for name, pieces in _parts(data):
        digest.update(f"[{name}]".encode())
        for piece in pieces:
            digest.update(piece)
    return digest.hexdigest()


def _parts(data: ClickData) -> Iterator[tuple[str, Iterator[bytes | memoryview]]]:
    graph = data.graph
    yield f"sizes {graph.num_users} {graph.num_items} {data.parts}", iter(())
    yield "rowptr", _integers(graph.by_user.rowptr)
    yield "col", _integers(graph.by_user.col)
    if graph.days is not None:
        yield "days", _integers(graph.days)
    for side, table, ids in (
        ("users", data.users, data.user_ids),
        ("items", data.items, data.item_ids),
    ):
        if table is not None:
            names = (table.numeric_names, table.category_names, table.category_sizes)
            yield f"{side} {names}", iter(())
            yield "numeric", _floats(table.numeric)
            yield "categories", _integers(table.categories)
            for values in table.category_values:
                yield "values", _texts(values)
        if ids is not None:
            yield f"{side} ids", _texts(ids)


def _integers(values: Tensor) -> Iterator[bytes | memoryview]:
    for piece in values.flatten().split(_CHUNK):
        yield piece.to("cpu", torch.int64).numpy().tobytes()


def _floats(values: Tensor) -> Iterator[bytes | memoryview]:
    for piece in values.split(max(1, _CHUNK // max(1, values.size(1)))):
        array = piece.cpu().numpy()
        yield np.where(np.isnan(array), np.float32("nan"), array).tobytes()


def _texts(ids: Any) -> Iterator[bytes | memoryview]:
    import pyarrow as pa

    for begin in range(0, len(ids), _CHUNK):
        piece = ids.slice(begin, _CHUNK).cast(pa.large_string()).fill_null("")
        _, ends, text = piece.buffers()
        ends = np.frombuffer(ends, np.int64)[piece.offset : piece.offset + len(piece) + 1]
        yield np.diff(ends).tobytes()
        yield b"" if text is None else memoryview(text)[ends[0] : ends[-1]]
