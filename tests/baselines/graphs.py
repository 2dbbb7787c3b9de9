"""Small graphs with classes that their edges and features know something about."""

from __future__ import annotations

import torch
from torch_geometric.data import Data


def blocks(seed: int = 0, nodes: int = 60, classes: int = 3, features: int = 8) -> Data:
    """A graph with more edges within classes; a few nodes have none at all."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    chance = torch.where(y[:, None] == y, 0.25, 0.03)
    drawn = torch.rand(nodes, nodes, generator=generator).triu(1)
    row, col = ((drawn > 0) & (drawn < chance)).nonzero().unbind(dim=1)
    lonely = nodes - 2
    kept = (row < lonely) & (col < lonely)
    row, col = row[kept], col[kept]
    x = torch.randn(nodes, features, generator=generator)
    x[torch.arange(nodes), y] += 1.5
    part = torch.arange(nodes) // classes
    masks = {
        "train_mask": part < 4,
        "val_mask": (part >= 4) & (part < 8),
        "test_mask": part >= 10,
    }
    edge_index = torch.stack([torch.cat([row, col]), torch.cat([col, row])])
    return Data(x=x, y=y, edge_index=edge_index, **masks)
