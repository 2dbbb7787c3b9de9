"""GraphSAGE towers that embed users and items by their attributes and those of their neighbours.

What a training step launches with Triton, for two layers: one kernel to draw each level of each
of three trees (users, items, extra negatives) and three small ones to take out the target edge;
8 kernels for own vectors and neighbourhood means of the first layer, which read the tables of
attributes and write ``[rows, channels]``, while the leaves, 50 of 61 places of a tree, are only
ever read; two products for each of four blocks of rows, then for two; 3 kernels for the loss; and
the way back: twice the products, and 8 kernels of atomic sums into the embeddings of categories. A
Dr block adds a batched product for each block of rows it pools. With casts, sums and the optimiser
that is some hundreds of kernels. Shapes depend on settings alone, so all of it is recorded as one
CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

from drgcn.errors import InputError
from drgcn.gates import GATES
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.encoder import (
    AttributeEncoder,
    AttributeSummary,
    ClickAttributes,
    encode_means,
)
from drgcn.recommend.model.sampling import ClickTree, Side, other
from drgcn.reweighting import DimensionalReweighting, fold

_SIDES: tuple[Side, Side] = ("user", "item")
GateName = Literal["dr", "static", "constant"]
_PARTS = 256


class ClickSAGE(torch.nn.Module):
    r"""Relation-wise GraphSAGE with a Dr block for each side in front of every layer.

    The vectors of users and items have length one; their score is the inner product over the
    temperature, and the nearest neighbours by Euclidean distance are those of highest score.

    In training a Dr block pools the nodes of the batch's trees, each place of a positive's tree
    once. Draws are uniform over clicks at every level, so the pooled mean estimates the mean over
    all clicks; :func:`~drgcn.recommend.model.embedding.freeze` computes that for the whole graph,
    and evaluation uses it. Embeddings then do not depend on what else is in a batch.

    Args:
        users: Attributes of users and their statistics.
        items: Attributes of items and their statistics.
        hidden_channels: Width of hidden layers.
        out_channels: Width of embeddings.
        fan_outs: Neighbours drawn at each level; as many layers as levels.
        gate: :obj:`"dr"`, the controls :obj:`"static"` and :obj:`"constant"`, or :obj:`None`.
        embedding_channels: Width of a category's embedding.
        user_id_channels: Width of an embedding of the user, 0 for none.
        user_id_rows: Rows that users share by hash; :obj:`None` for one each.
        item_id_channels: Width of an embedding of the item, 0 for none.
        temperature: What scores are divided by in the loss.
        normalize: Whether embeddings have length one.
    """

    def __init__(
        self,
        users: AttributeSummary,
        items: AttributeSummary,
        hidden_channels: int = 64,
        out_channels: int = 64,
        fan_outs: Sequence[int] = (10, 5),
        gate: GateName | None = None,
        *,
        embedding_channels: int = 8,
        user_id_channels: int = 0,
        user_id_rows: int | None = 1 << 20,
        item_id_channels: int = 0,
        temperature: float = 0.07,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if not fan_outs or min(fan_outs) < 1:
            raise InputError(f"Expected fan-outs of at least one; found {tuple(fan_outs)}.")
        if temperature <= 0:
            raise InputError(f"Expected a temperature above zero; found {temperature}.")
        self.settings: dict[str, Any] = {
            "hidden_channels": hidden_channels,
            "out_channels": out_channels,
            "fan_outs": list(fan_outs),
            "gate": gate,
            "embedding_channels": embedding_channels,
            "user_id_channels": user_id_channels,
            "user_id_rows": user_id_rows,
            "item_id_channels": item_id_channels,
            "temperature": temperature,
            "normalize": normalize,
        }
        self.fan_outs = tuple(fan_outs)
        self.temperature = temperature
        self.normalize = normalize
        self.out_channels = out_channels
        encoders = {
            "user": AttributeEncoder(
                users,
                embedding_channels=embedding_channels,
                id_channels=user_id_channels,
                id_rows=user_id_rows,
            ),
            "item": AttributeEncoder(
                items, embedding_channels=embedding_channels, id_channels=item_id_channels
            ),
        }
        self.encoders = torch.nn.ModuleDict(encoders)
        widths: dict[Side, int] = {side: encoders[side].out_channels for side in _SIDES}
        for side, width in widths.items():
            if not width:
                raise InputError(
                    f"Expected attributes of {side}s; found none. Give {side}_id_channels, so "
                    f"that each {side} has an embedding of its own."
                )
        self.layers = torch.nn.ModuleList()
        for number in range(len(self.fan_outs)):
            last = number == len(self.fan_outs) - 1
            out = out_channels if last else hidden_channels
            self.layers.append(SAGELayer(widths, out, gate))
            widths = dict.fromkeys(_SIDES, out)
        self.register_buffer("frozen", torch.tensor(False))
        self.frozen: Tensor

    def encoder(self, side: Side) -> AttributeEncoder:
        """The encoder of a side."""
        found = self.encoders[side]
        assert isinstance(found, AttributeEncoder)
        return found

    @property
    def sage_layers(self) -> list[SAGELayer]:
        """The layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, SAGELayer)]

    def prepare(
        self,
        data: ClickData,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> ClickAttributes:
        """The attributes of both sides as tables, computed once."""
        return ClickAttributes(
            self.encoder("user").prepare(data.users, device=device, dtype=dtype),
            self.encoder("item").prepare(data.items, device=device, dtype=dtype),
        )

    def forward(
        self,
        trees: Sequence[ClickTree],
        attributes: ClickAttributes,
        *,
        counted: Sequence[int] | None = None,
        exchange: Exchange | None = None,
        dtype: torch.dtype | None = None,
    ) -> list[Tensor]:
        """Embeddings of the roots of each tree.

        Args:
            trees: Trees of either side.
            attributes: What :meth:`prepare` returned.
            counted: For each tree, how many of its roots (the first) count in pooled means.
                (default: all)
            exchange: The other ranks. (default: none)
            dtype: Of hidden vectors and products, bfloat16 for speed. (default: the weights')
        """
        for tree in trees:
            if len(tree.levels) != len(self.layers) + 1:
                raise InputError(
                    f"Expected trees of {len(self.layers)} levels below the roots, one for each "
                    f"layer; found {len(tree.levels) - 1}."
                )
        encoders: dict[Side, AttributeEncoder] = {side: self.encoder(side) for side in _SIDES}
        blocks = first_blocks(encoders, trees, attributes, counted, dtype)
        for number, layer in enumerate(self.sage_layers):
            means = self._means(layer, blocks, exchange or Exchange())
            weights = layer.folded(layer.gate_vectors(means), dtype)
            outputs = [layer.apply_weights(weights[b.side], b.own, b.mean) for b in blocks]
            if number + 1 < len(self.layers):
                blocks = next_blocks(blocks, [F.relu(out) for out in outputs])
        return [self.finished(out) for out in outputs]

    def check_frozen(self) -> None:
        """Refuse to embed before the means of the whole graph are computed."""
        if any(layer.needs_means for layer in self.sage_layers) and not bool(self.frozen):
            raise InputError(
                "Expected a model whose Dr blocks have seen the whole graph; found one that has "
                "not. Call freeze(model, attributes, graph) after training."
            )

    def finished(self, out: Tensor) -> Tensor:
        """The last layer's output as embeddings."""
        out = out.to(self.encoder("user").table.dtype)
        return F.normalize(out, dim=-1) if self.normalize else out

    def _means(
        self, layer: SAGELayer, blocks: list[TreeBlock], exchange: Exchange
    ) -> dict[Side, Tensor]:
        if self.training and layer.needs_means:
            return pooled_means(blocks, layer.in_channels, exchange)
        return layer.frozen_means()


class SAGELayer(torch.nn.Module):
    r"""For a node :math:`v` of side :math:`t` with neighbours on the other side :math:`o`,

    .. math::
        \mathbf{h}'_v = \mathbf{W}^t_{\mathrm{own}} (\mathbf{s}_t \circ \mathbf{h}_v)
        + \mathbf{W}^t_{\mathrm{nbr}} (\mathbf{s}_o \circ \mathrm{mean}_w \mathbf{h}_w)
        + \mathbf{b}^t.

    A gate :math:`\mathbf{s}` belongs to a side, so it commutes with the mean, and both products
    take it into their weights: no vector is ever multiplied by it.

    Args:
        in_channels: Width of the input of each side.
        out_channels: Width of the output.
        gate: :obj:`"dr"`, the controls :obj:`"static"` and :obj:`"constant"`, or :obj:`None`.
    """

    def __init__(
        self, in_channels: dict[Side, int], out_channels: int, gate: GateName | None = None
    ) -> None:
        super().__init__()
        if gate is not None and gate not in get_args(GateName):
            raise InputError(
                f"Expected gate to be one of {get_args(GateName)} or None; found {gate!r}."
            )
        self.in_channels = in_channels
        self.own, self.neighbor, self.bias = (torch.nn.ParameterDict() for _ in range(3))
        self.gates = torch.nn.ModuleDict()
        for side, width in in_channels.items():
            across = in_channels[other(side)]
            self.own[side] = torch.nn.Parameter(torch.empty(out_channels, width))
            self.neighbor[side] = torch.nn.Parameter(torch.empty(out_channels, across))
            self.bias[side] = torch.nn.Parameter(torch.empty(out_channels))
            if gate is not None:
                self.gates[side] = GATES[gate](width)
            # What the gate has seen of the whole graph, for use after training.
            self.register_buffer(f"mean_{side}", torch.zeros(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for side in self.own:
            glorot(self.own[side])
            glorot(self.neighbor[side])
            zeros(self.bias[side])

    @property
    def needs_means(self) -> bool:
        """True if gates are computed from pooled means."""
        return any(isinstance(gate, DimensionalReweighting) for gate in self.gates.values())

    def frozen_means(self) -> dict[Side, Tensor]:
        """The means of the whole graph."""
        return {side: getattr(self, f"mean_{side}") for side in self.in_channels}

    def freeze(self, means: dict[Side, Tensor]) -> None:
        """Take means of the whole graph, to be used from now on in evaluation."""
        for side, mean in means.items():
            getattr(self, f"mean_{side}").copy_(mean)

    def gate_vectors(self, means: dict[Side, Tensor]) -> dict[Side, Tensor]:
        """The vector ``s`` of each side; nothing without gates."""
        return {side: gate.from_mean(means[side]) for side, gate in self.gates.items()}  # type: ignore[operator, index, misc]

    def folded(
        self, gates: dict[Side, Tensor], dtype: torch.dtype | None = None
    ) -> dict[Side, tuple[Tensor, Tensor, Tensor]]:
        """Weights with the gates inside, and the bias, for each side."""
        found: dict[Side, tuple[Tensor, Tensor, Tensor]] = {}
        for side in self.in_channels:
            own, neighbor = self.own[side], self.neighbor[side]
            if gates:
                own, neighbor = fold(own, gates[side]), fold(neighbor, gates[other(side)])
            weights = (own, neighbor, self.bias[side])
            found[side] = weights if dtype is None else tuple(w.to(dtype) for w in weights)
        return found

    @staticmethod
    def apply_weights(weights: tuple[Tensor, Tensor, Tensor], own: Tensor, mean: Tensor) -> Tensor:
        """The layer's output for vectors ``[rows, d]`` and means over their neighbours."""
        of_self, of_neighbors, bias = weights
        return torch.addmm(F.linear(own, of_self, bias), mean, of_neighbors.t())


@dataclass(frozen=True, eq=False)
class TreePlaces:
    """The places of one level, and how much they count in pooled means.

    Attributes:
        tree: The tree.
        level: The number of the level.
        counted: How many roots count, the first ones.
    """

    tree: ClickTree
    level: int
    counted: int

    @cached_property
    def real(self) -> Tensor:
        """Mask of places that hold a node ``[B, k1, ...]``."""
        return self.tree.real(self.level)

    @cached_property
    def weight(self) -> Tensor:
        """One for places whose node counts, else zero ``[rows]``."""
        return self._counting(self.real)

    @cached_property
    def neighbor_weight(self) -> Tensor:
        """Number of neighbours of each place that count ``[rows]``."""
        return self._counting(self.tree.real(self.level + 1).sum(-1))

    def _counting(self, numbers: Tensor) -> Tensor:
        if self.counted < numbers.size(0):
            counts = torch.arange(numbers.size(0), device=numbers.device) < self.counted
            numbers = numbers * counts.view(-1, *[1] * (numbers.dim() - 1))
        return numbers.flatten()


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """Inputs of a layer for one level.

    Attributes:
        places: The level's places.
        own: Vectors of its nodes ``[rows, d]``.
        mean: Means over their neighbours ``[rows, d']``.
    """

    places: TreePlaces
    own: Tensor
    mean: Tensor

    @property
    def side(self) -> Side:
        """The side of its nodes."""
        return self.places.tree.side_of(self.places.level)

    def next_layer(self, own: Tensor, below: TreeBlock, hidden: Tensor) -> TreeBlock:
        """The input of the next layer, from this level's outputs and those of the level below."""
        real = below.places.real
        hidden = hidden.view(-1, real.size(-1), hidden.size(-1))
        real = real.to(hidden.dtype).view(hidden.size(0), 1, -1)
        # A product reads the vectors once; masking them first would copy them. Its factors are
        # ones and zeros, which no precision rounds.
        mean = (real @ hidden).squeeze(1) / real.sum(-1).clamp(min=1)
        return replace(self, own=own, mean=mean)


def next_blocks(blocks: Sequence[TreeBlock], hidden: Sequence[Tensor]) -> list[TreeBlock]:
    """Inputs of the next layer from a layer's output for each block: a level less per tree."""
    pairs = zip(range(len(blocks) - 1), range(1, len(blocks)), strict=True)
    return [
        blocks[above].next_layer(hidden[above], blocks[below], hidden[below])
        for above, below in pairs
        if blocks[above].places.tree is blocks[below].places.tree
    ]


def pooled_means(
    blocks: Sequence[TreeBlock], widths: dict[Side, int], exchange: Exchange
) -> dict[Side, Tensor]:
    """The mean input of a layer for each side, every place of the trees of all ranks once.

    Levels give their own rows. The deepest one, whose vectors were never written down, is counted
    by the means of the level above times the number of places behind each.
    """
    deepest = {id(block.places.tree): block.places.level for block in blocks}
    exact = torch.float64 if blocks[0].own.dtype == torch.float64 else torch.float32
    sums: dict[Side, list[Tensor]] = {side: [] for side in widths}
    for block in blocks:
        places = block.places
        if not places.counted:
            continue
        sums[block.side].append(_sum_and_count(block.own, places.weight, exact))
        if places.level == deepest[id(places.tree)]:
            behind = _sum_and_count(block.mean, places.neighbor_weight, exact)
            sums[other(block.side)].append(behind)
    parts = [
        torch.stack(sums[side]).sum(0)
        if sums[side]
        else blocks[0].own.new_zeros(width + 1).to(exact)
        for side, width in widths.items()
    ]
    shared = exchange.sum(torch.cat(parts))  # one message for both sides
    found = shared.split([part.numel() for part in parts])
    return {
        side: part[:-1] / part[-1].clamp(min=1) for side, part in zip(widths, found, strict=True)
    }


def _sum_and_count(rows: Tensor, weight: Tensor, exact: torch.dtype) -> Tensor:
    """``weight @ rows`` and the sum of the weights ``[d + 1]``, in parts that are then added.

    One tall product would keep only a few of a GPU's processors busy. Weights are small whole
    numbers, which no precision rounds.
    """
    parts = math.gcd(rows.size(0), _PARTS)
    products = weight.to(rows.dtype).view(parts, 1, -1) @ rows.view(parts, -1, rows.size(1))
    return torch.cat([products.to(exact).sum((0, 1)), weight.sum()[None].to(exact)])


def first_blocks(
    encoders: dict[Side, AttributeEncoder],
    trees: Sequence[ClickTree],
    attributes: ClickAttributes,
    counted: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> list[TreeBlock]:
    """A block for each level of each tree but the deepest, which is only ever averaged over.

    Args:
        encoders: The encoder of each side.
        trees: The trees.
        attributes: What the encoders prepared.
        counted: For each tree, how many of its roots count in pooled means. (default: all)
        dtype: Of the vectors. (default: that of the embeddings)
    """
    blocks = []
    for number, tree in enumerate(trees):
        count = tree.levels[0].numel() if counted is None else counted[number]
        for level in range(len(tree.levels) - 1):
            mine = tree.side_of(level)
            theirs = other(mine)
            nodes = tree.levels[level].reshape(-1, 1)
            neighbors = tree.levels[level + 1].flatten(0, -2)
            own = encode_means(encoders[mine], attributes[mine], nodes, dtype)
            mean = encode_means(encoders[theirs], attributes[theirs], neighbors, dtype)
            blocks.append(TreeBlock(TreePlaces(tree, level, count), own, mean))
    return blocks
