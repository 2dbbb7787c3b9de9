"""What a run is, in a few letters: a checkpoint of another run must not be mistaken for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

_STATE = 2  # the layout of checkpoints; one of another layout cannot be gone on from


def fingerprint_of(
    settings: tuple[Any, ...], data: Data, make_model: Callable[[], torch.nn.Module]
) -> str:
    """What makes a run this run: a checkpoint of any other one must not be mistaken for it."""
    digest = hashlib.sha256(repr((_STATE, *settings)).encode())
    for name in ("y", "train_mask", "val_mask", "edge_index", "x", "graph"):
        if isinstance(value := data.get(name), Tensor):
            dense = value if value.layout == torch.strided else value.to_dense()
            digest.update(dense.cpu().numpy().tobytes())
    with torch.random.fork_rng(devices=[]):
        model = make_model()
    digest.update(repr(model).encode())
    for module in model.modules():  # dropout rates and the like are seldom printed
        facts = {k: v for k, v in vars(module).items() if _is_plain(v)}
        digest.update(repr(sorted(facts.items())).encode())
    return digest.hexdigest()


def _is_plain(value: Any) -> bool:
    """Whether a value prints the same in every process: numbers, words, and tuples of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str)
