"""What makes a run this run: a checkpoint of any other one must not be mistaken for it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import torch
from torch import Tensor

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.train_settings import TrainSettings
from drgcn.streams import mix

_CHUNK = 1 << 24


def run_fingerprint(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    targets: ClickGraph,
    settings: TrainSettings,
) -> str:
    """A hash of model, settings, clicks and attributes; the weights are not part of it."""
    sums = [
        _checksum(part.by_user.col) + _checksum(part.by_user.rowptr) for part in (graph, targets)
    ]
    tables: list[int | str] = [data.known_hash]
    if isinstance(model, ClickSAGE) and not data.known_hash:
        tables += [
            _checksum(table.numeric.view(torch.int32)) + _checksum(table.categories)
            for table in (data.users, data.items)
            if table is not None
        ]
    facts = (type(model).__name__, model.settings, asdict(settings), sums, tables)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _checksum(values: Tensor) -> int:
    """A hash of a tensor of whole numbers, on its device."""
    flat, total = values.flatten(), 0
    for begin in range(0, flat.numel(), _CHUNK):
        piece = flat[begin : begin + _CHUNK].long()
        place = torch.arange(begin, begin + piece.numel(), device=piece.device)
        total += int(mix(mix(piece) + place).sum())
    return total
