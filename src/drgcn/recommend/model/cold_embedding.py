"""Embeddings of nodes without clicks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.click_tree import Side, other
from drgcn.recommend.model.neighborhood_encoding import encode_means


def embed_cold(
    model: ClickSAGE, side: Side, table: AttributeTable | None, num_nodes: int | None = None
) -> Tensor:
    """Embeddings by attributes alone, of nodes that have no clicks or were never seen.

    Args:
        model: A model that has seen the whole graph, see
            :func:`~drgcn.recommend.model.embedding.freeze`.
        side: Users or items.
        table: Their attributes.
        num_nodes: How many, where there are no attributes.
    """
    model.check_frozen()
    encoder = model.encoder(side)
    attributes = encoder.prepare(table, num_nodes=num_nodes, known=False)
    nodes = torch.arange(attributes.num_nodes, device=attributes.numeric.device)
    h = encode_means(encoder, attributes, nodes[:, None])
    for number, layer in enumerate(model.sage_layers):
        weights = layer.folded(layer.gate_vectors(layer.frozen_means()))[side]
        nothing = h.new_zeros(h.size(0), layer.in_channels[other(side)])
        h = layer.apply_weights(weights, h, nothing)
        h = F.relu(h) if number + 1 < len(model.layers) else h
    return model.finished(h)
