"""Two towers that embed users and items by their attributes and those of their neighbours.

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

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.model.attribute_encoder import AttributeEncoder
from drgcn.recommend.model.attribute_summary import AttributeSummary
from drgcn.recommend.model.click_tree import ClickTree, Side
from drgcn.recommend.model.encoded_attributes import ClickAttributes
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.first_blocks import first_blocks
from drgcn.recommend.model.sage_layer import GateName, SAGELayer
from drgcn.recommend.model.tree_block import TreeBlock, next_blocks, pooled_means

_SIDES: tuple[Side, Side] = ("user", "item")


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
        """Refuses to embed with means that nobody has computed."""
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
