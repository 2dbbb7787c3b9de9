"""LightGCN: embeddings of nodes, averaged over their neighbourhoods."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.nn.graph import normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.recommend.clicks.graph import ClickGraph


class LightGCN(torch.nn.Module):
    r"""The model of `"LightGCN" <https://arxiv.org/abs/2002.02126>`_.

    With :math:`\mathbf{A}` the symmetrically normalised adjacency of users and items together and
    :math:`\mathbf{E}` their embeddings, :math:`\mathbf{Z} = \frac{1}{L + 1} \sum_{l=0}^L
    \mathbf{A}^l \mathbf{E}`. The score of a user and an item is the inner product. It has no
    attributes and no Dr block, and is here because its numbers are known.

    Args:
        num_users: Number of users.
        num_items: Number of items.
        out_channels: Width of embeddings.
        num_layers: Number of propagations :math:`L`.
        temperature: What scores are divided by in a softmax loss.
        normalize: Whether the results have length one.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        out_channels: int = 64,
        num_layers: int = 3,
        *,
        temperature: float = 1.0,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise InputError(f"Expected a temperature above zero; found {temperature}.")
        self.settings: dict[str, Any] = {
            "num_users": num_users,
            "num_items": num_items,
            "out_channels": out_channels,
            "num_layers": num_layers,
            "temperature": temperature,
            "normalize": normalize,
        }
        self.num_users, self.num_items = num_users, num_items
        self.num_layers = num_layers
        self.temperature = temperature
        self.normalize = normalize
        self.embeddings = torch.nn.Parameter(torch.empty(num_users + num_items, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws embeddings as the authors do, with standard deviation 0.1."""
        torch.nn.init.normal_(self.embeddings, std=0.1)

    def prepare(self, graph: ClickGraph) -> SparseMatrix:
        """The normalised adjacency of users, then items."""
        if (graph.num_users, graph.num_items) != (self.num_users, self.num_items):
            raise InputError(
                f"Expected a graph of {self.num_users} users and {self.num_items} items, as the "
                f"model was made for; found {graph.num_users} and {graph.num_items}."
            )
        rows = torch.arange(self.num_users, device=graph.device)
        user = rows.repeat_interleave(graph.by_user.degree, output_size=graph.num_clicks)
        item = graph.by_user.col.long() + self.num_users
        edges = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
        nodes = self.num_users + self.num_items
        return normalized_adjacency(edges, nodes, self_loops=False, dtype=self.embeddings.dtype)

    def forward(self, adjacency: SparseMatrix) -> tuple[Tensor, Tensor]:
        """Embeddings of all users and of all items."""
        h: Tensor = self.embeddings
        total: Tensor = self.embeddings
        for _ in range(self.num_layers):
            h = spmm(adjacency, h)
            total = total + h
        total = total / (self.num_layers + 1)
        if self.normalize:
            total = F.normalize(total, dim=-1)
        users, items = total.split([self.num_users, self.num_items])
        return users, items
