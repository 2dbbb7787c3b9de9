"""K, saturation and gate of every layer of a trained model, out of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.nn.graph import NodeGroups
from drgcn.stability import gate_saturation
from drgcn.training.tracker import graph_stability


@dataclass(frozen=True)
class LayerState:
    """The gate of one layer.

    Attributes:
        k: Stability measure over all nodes, the mean over graphs where there are several;
            ``None`` where it is undefined.
        saturation: Share of gate entries at either end, over all graphs.
        s: The vector ``[d]``; with several graphs the mean of theirs.
    """

    k: float | None
    saturation: float
    s: Tensor

    @property
    def deciles(self) -> list[float]:
        """Least entry of the vector, its deciles, and its greatest."""
        steps = torch.linspace(0, 1, 11, dtype=torch.float64, device=self.s.device)
        return [round(value, 4) for value in self.s.double().quantile(steps).tolist()]


@torch.no_grad()
def layer_states(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[LayerState]:
    """Every layer that has a gate, in evaluation mode.

    Args:
        model: One of ours, which has ``layers``.
        inputs: What it is called with.
    """
    groups = next((value for value in inputs if isinstance(value, NodeGroups)), None)
    graph = None if groups is None else groups.graph
    found = []
    for layer_input, s, _ in model.layers(*inputs):  # type: ignore[operator]
        if s is not None:
            k = graph_stability(layer_input, s, graph)
            found.append(
                LayerState(
                    k=None if k is None else round(k, 4),
                    saturation=round(gate_saturation(s), 4),
                    s=s.reshape(-1, s.shape[-1]).mean(0),
                )
            )
    return found
