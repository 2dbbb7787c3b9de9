"""K and saturation of every layer of a trained model."""

from __future__ import annotations

from typing import Any

import torch

from drgcn.nn.node_groups import NodeGroups
from drgcn.stability import gate_saturation
from drgcn.training.graph_stability import graph_stability


@torch.no_grad()
def layer_stability(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[float | None]:
    """K of each layer of a trained model, over all nodes, in evaluation mode."""
    groups = next((value for value in inputs if isinstance(value, NodeGroups)), None)
    found = [
        graph_stability(layer_input, s, None if groups is None else groups.graph)
        for layer_input, s, _ in model.layers(*inputs)  # type: ignore[operator]
        if s is not None
    ]
    return [None if k is None else round(k, 4) for k in found]


@torch.no_grad()
def layer_saturation(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[float]:
    """Share of each layer's gate entries at either end, over all graphs, in evaluation mode."""
    vectors = [s for _, s, _ in model.layers(*inputs) if s is not None]  # type: ignore[operator]
    return [round(gate_saturation(s), 4) for s in vectors]
