"""LightGCN: embeddings of nodes, averaged over their neighbourhoods; alone or with attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.gates import GATES
from drgcn.nn.graph import normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.model.encoder import (
    AttributeEncoder,
    AttributeSummary,
    ClickAttributes,
    EncodedAttributes,
    encode_means,
)
from drgcn.recommend.model.sage import GateName
from drgcn.recommend.model.sampling import Side, rows_of

_SIDES: tuple[Side, Side] = ("user", "item")


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
        """Draw embeddings as the authors do, with standard deviation 0.1."""
        torch.nn.init.normal_(self.embeddings, std=0.1)

    def prepare(self, graph: ClickGraph) -> SparseMatrix:
        """The normalised adjacency of users, then items."""
        if (graph.num_users, graph.num_items) != (self.num_users, self.num_items):
            raise InputError(
                f"Expected a graph of {self.num_users} users and {self.num_items} items, as the "
                f"model was made for; found {graph.num_users} and {graph.num_items}."
            )
        user, item = graph.by_user.row, graph.by_user.col.long() + self.num_users
        edges = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
        nodes = self.num_users + self.num_items
        return normalized_adjacency(edges, nodes, self_loops=False, dtype=self.embeddings.dtype)

    def forward(self, adjacency: SparseMatrix) -> tuple[Tensor, Tensor]:
        """Embeddings of all users and of all items."""
        return self.propagated(adjacency, self.embeddings)

    def propagated(self, adjacency: SparseMatrix, first: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of all users and of all items, from vectors before propagation."""
        h = total = first
        for _ in range(self.num_layers):
            h = spmm(adjacency, h)
            total = total + h
        users, items = self.finished(total / (self.num_layers + 1)).split(
            [self.num_users, self.num_items]
        )
        return users, items

    def finished(self, vectors: Tensor) -> Tensor:
        """Vectors as scores are taken from."""
        return F.normalize(vectors, dim=-1) if self.normalize else vectors


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """Inputs of :class:`AttributedLightGCN` from a graph, computed once.

    Attributes:
        adjacency: The normalised adjacency.
        known: One for nodes with clicks, else zero ``[users + items, 1]``.
        shares: Share of all clicks that are of each node, by side.
        attributes: The encoded attributes.
    """

    adjacency: SparseMatrix
    known: Tensor
    shares: dict[Side, Tensor]
    attributes: ClickAttributes


@dataclass(frozen=True, eq=False)
class HybridVectors:
    """Embeddings that :class:`AttributedLightGCN` computes of all nodes.

    Attributes:
        users: Those of users ``[users, d]``.
        items: Those of items ``[items, d]``.
        cold: Those of users as if they had no clicks ``[users, d]``.
        spread: Mean square by which attributes move users away from the bias.
    """

    users: Tensor
    items: Tensor
    cold: Tensor
    spread: Tensor


class AttributedLightGCN(LightGCN):
    r"""LightGCN over embeddings of ids and attributes together.

    Before propagation a node :math:`v` of side :math:`t` has the vector

    .. math::
        \mathbf{e}_v = \mathbf{p}_v
        + \mathbf{W}_t (\mathbf{s}_t \circ \mathbf{x}_v) + \mathbf{b}_t,

    with :math:`\mathbf{p}_v` its own embedding, :math:`\mathbf{x}_v` its encoded attributes and
    :math:`\mathbf{s}_t` the gate of its side. A node without clicks was never trained, so its own
    embedding is left out: what is known of its attributes remains, and without any the bias, which
    is the same for all and comes to lie near popular items.

    A Dr gate is computed from the mean of :math:`\mathbf{x}` over clicks. Training computes it of
    all nodes at every step; afterwards the last one is kept, so that embeddings do not depend on
    what is clicked later.

    Args:
        users: Attributes of users and their statistics.
        items: Attributes of items and their statistics.
        out_channels: Width of embeddings.
        num_layers: Number of propagations.
        gate: :obj:`"dr"`, the controls :obj:`"static"` and :obj:`"constant"`, or :obj:`None`.
        embedding_channels: Width of a category's embedding.
        cold_share: Share of the users in a batch that are trained as if they had no clicks.
        shrinkage: Weight in the loss of the mean square by which attributes move users away from
            the bias: a few active users would else decide what their like are shown.
        temperature: What scores are divided by in a softmax loss.
        normalize: Whether the results have length one.
    """

    def __init__(
        self,
        users: AttributeSummary,
        items: AttributeSummary,
        out_channels: int = 64,
        num_layers: int = 3,
        gate: GateName | None = None,
        *,
        embedding_channels: int = 8,
        cold_share: float = 0.3,
        shrinkage: float = 1.0,
        temperature: float = 0.2,
        normalize: bool = True,
    ) -> None:
        if not 0 <= cold_share < 1:
            raise InputError(f"Expected a share of cold users from 0 to 1; found {cold_share}.")
        super().__init__(
            users.num_nodes,
            items.num_nodes,
            out_channels,
            num_layers,
            temperature=temperature,
            normalize=normalize,
        )
        for name in ("num_users", "num_items"):  # the summaries say them
            del self.settings[name]
        self.settings |= {
            "gate": gate,
            "embedding_channels": embedding_channels,
            "cold_share": cold_share,
            "shrinkage": shrinkage,
        }
        self.cold_share, self.shrinkage = cold_share, shrinkage
        self.encoders, self.gates = torch.nn.ModuleDict(), torch.nn.ModuleDict()
        self.weight, self.bias = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        for side, summary in zip(_SIDES, (users, items), strict=True):
            encoder = AttributeEncoder(summary, embedding_channels=embedding_channels)
            self.encoders[side] = encoder
            self.weight[side] = torch.nn.Parameter(torch.empty(out_channels, encoder.out_channels))
            self.bias[side] = torch.nn.Parameter(torch.empty(out_channels))
            if gate is not None and encoder.out_channels:
                self.gates[side] = GATES[gate](encoder.out_channels)
            self.register_buffer(f"mean_{side}", torch.zeros(encoder.out_channels))
        self.reset_towers()

    def reset_towers(self) -> None:
        """Draw weights such that attributes begin as large as embeddings."""
        for side, weight in self.weight.items():
            torch.nn.init.normal_(weight, std=0.1 * max(weight.size(1), 1) ** -0.5)
            torch.nn.init.normal_(self.bias[side], std=0.1)

    def encoder(self, side: Side) -> AttributeEncoder:
        """The encoder of a side."""
        found = self.encoders[side]
        assert isinstance(found, AttributeEncoder)
        return found

    def prepare_attributes(
        self, data: ClickData, device: torch.device | str | None = None
    ) -> ClickAttributes:
        """The attributes of both sides as tables, computed once."""
        return ClickAttributes(
            self.encoder("user").prepare(data.users, device=device),
            self.encoder("item").prepare(data.items, device=device),
        )

    def inputs(self, graph: ClickGraph, attributes: ClickAttributes) -> GraphInputs:
        """Inputs from the clicks of a graph."""
        degrees: dict[Side, Tensor] = {side: rows_of(graph, side).degree for side in _SIDES}
        known = torch.cat([degrees[side] > 0 for side in _SIDES])
        dtype = self.embeddings.dtype
        shares = {
            side: degree.to(dtype) / max(graph.num_clicks, 1) for side, degree in degrees.items()
        }
        return GraphInputs(self.prepare(graph), known.to(dtype)[:, None], shares, attributes)

    def forward(self, inputs: GraphInputs) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Embeddings of all users and of all items."""
        found = self.vectors(inputs)
        return found.users, found.items

    def vectors(self, inputs: GraphInputs) -> HybridVectors:
        """Embeddings of all users and items, and of all users as if they had no clicks."""
        by_user, by_item = (
            self._tower(side, inputs.attributes[side], inputs.shares[side]) for side in _SIDES
        )
        users, items = self.propagated(
            inputs.adjacency, self.embeddings * inputs.known + torch.cat([by_user, by_item])
        )
        return HybridVectors(
            users,
            items,
            self.finished(by_user / (self.num_layers + 1)),
            (by_user - self.bias["user"]).square().sum(dim=-1).mean(),
        )

    def from_attributes(self, side: Side, attributes: EncodedAttributes) -> Tensor:
        """Parts of vectors that come from attributes, before scaling, of nodes in no graph."""
        return self._tower(side, attributes) / (self.num_layers + 1)

    def _tower(
        self, side: Side, attributes: EncodedAttributes, shares: Tensor | None = None
    ) -> Tensor:
        """Vectors by attributes, before propagation; training needs shares of clicks."""
        encoder = self.encoder(side)
        if not encoder.out_channels:
            return self.bias[side].expand(attributes.num_nodes, -1)
        nodes = torch.arange(attributes.num_nodes, device=attributes.numeric.device)
        x = encode_means(encoder, attributes, nodes[:, None])
        if side in self.gates:
            mean: Tensor = getattr(self, f"mean_{side}")
            if self.training and shares is not None:
                now = shares @ x
                mean.copy_(now.detach())
                mean = now
            x = x * self.gates[side].from_mean(mean)  # type: ignore[operator]
        return F.linear(x, self.weight[side], self.bias[side])
