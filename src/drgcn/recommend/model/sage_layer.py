"""One layer of relation-wise SAGE: weights and a gate for each side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

from drgcn.errors import InputError
from drgcn.nn.base import ConstantGate, StaticGate
from drgcn.recommend.model.click_tree import Side, other
from drgcn.reweighting import DimensionalReweighting, fold

GateName = Literal["dr", "static", "constant"]
AnyGate = DimensionalReweighting | StaticGate | ConstantGate

_GATES: dict[str, Callable[[int], AnyGate]] = {
    "dr": DimensionalReweighting,
    "static": StaticGate,
    "constant": ConstantGate,
}


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
                self.gates[side] = _GATES[gate](width)
            # What the gate has seen of the whole graph, for use after training.
            self.register_buffer(f"mean_{side}", torch.zeros(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for side in self.own:
            glorot(self.own[side])
            glorot(self.neighbor[side])
            zeros(self.bias[side])

    @property
    def needs_means(self) -> bool:
        """Whether gates look at the data."""
        return any(isinstance(gate, DimensionalReweighting) for gate in self.gates.values())

    def frozen_means(self) -> dict[Side, Tensor]:
        """The means of the whole graph."""
        return {side: getattr(self, f"mean_{side}") for side in self.in_channels}

    def freeze(self, means: dict[Side, Tensor]) -> None:
        """Takes means of the whole graph, to be used from now on in evaluation."""
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
