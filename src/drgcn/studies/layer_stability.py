"""K and saturation of every layer of a trained model."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import NonFiniteError, UndefinedStability
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.stability import gate_saturation, stability_k


@torch.no_grad()
def layer_stability(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[float | None]:
    """K of each layer of a trained model, over all nodes, in evaluation mode.

    With several graphs, the mean over those where K is defined; ``None`` where it nowhere is, as
    for a layer all of whose inputs have died, or grown beyond all numbers.
    """
    groups = next((value for value in inputs if isinstance(value, NodeGroups)), None)
    found: list[float | None] = []
    for layer_input, s, _ in model.layers(*inputs):  # type: ignore[operator]
        if s is None:
            continue
        if groups is None:
            x = layer_input.to_csr() if isinstance(layer_input, SparseMatrix) else layer_input
            values = _defined([(x, s)])
        else:
            dense = (
                layer_input.to_dense() if isinstance(layer_input, SparseMatrix) else layer_input
            )
            values = _defined([(dense[groups.graph == g], s[g]) for g in range(groups.size)])
        found.append(round(sum(values) / len(values), 4) if values else None)
    return found


@torch.no_grad()
def layer_saturation(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[float]:
    """Share of each layer's gate entries at either end, over all graphs, in evaluation mode."""
    vectors = [s for _, s, _ in model.layers(*inputs) if s is not None]  # type: ignore[operator]
    return [round(gate_saturation(s), 4) for s in vectors]


def _defined(pairs: list[tuple[Tensor, Tensor]]) -> list[float]:
    values = []
    for x, s in pairs:
        with contextlib.suppress(UndefinedStability, NonFiniteError):
            values.append(stability_k(x, s))
    return values
