"""Small graphs for audits: a clean one, and ways to spoil it."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data


def ring(nodes: int = 12, classes: int = 2) -> Data:
    """A ring whose halves are classes; every third node trains, validates, tests."""
    source = torch.arange(nodes)
    target = (source + 1) % nodes
    number = torch.arange(nodes)
    return Data(
        x=torch.stack([number + 1.0, (number * 7) % 5 + 0.5, torch.cos(number.float())], dim=1),
        edge_index=torch.stack([torch.cat([source, target]), torch.cat([target, source])]),
        y=number * classes // nodes,
        train_mask=number % 3 == 0,
        val_mask=number % 3 == 1,
        test_mask=number % 3 == 2,
    )


def spoilt(**tensors: Any) -> Data:
    """The ring with some of its tensors replaced."""
    data = ring()
    for name, value in tensors.items():
        data[name] = value
    return data


def with_edges(*pairs: tuple[int, int]) -> Data:
    """The ring with more entries in ``edge_index``."""
    data = ring()
    more = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    data.edge_index = torch.cat([data.edge_index, more], dim=1)
    return data


def marked(*nodes: int, size: int = 12) -> torch.Tensor:
    """A mask that is true at some nodes."""
    mask = torch.zeros(size, dtype=torch.bool)
    mask[list(nodes)] = True
    return mask


def tensors_of(data: Data) -> dict[str, torch.Tensor]:
    """Copies of all tensors, to see afterwards that nothing changed."""
    return {key: value.clone() for key, value in data.to_dict().items() if torch.is_tensor(value)}
