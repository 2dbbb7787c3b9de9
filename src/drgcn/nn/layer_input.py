"""What stands in front of a convolution: a norm, then a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import torch
from torch import Tensor
from torch_geometric.nn import PairNorm

from drgcn.nn.control_gates import ConstantGate, StaticGate
from drgcn.nn.graph_norm import GraphNorm
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.weighted_batch_norm import WeightedBatchNorm
from drgcn.reweighting import DimensionalReweighting, weighted_mean

Reweight = Literal["dr", "static", "constant"]
Norm = Literal["batch", "layer", "graph", "pair"]


class LayerInput(torch.nn.Module):
    r"""Norm and gate at the Dr position: the input of a layer, raw features included.

    The gate is not multiplied here but returned, so that the convolution can fold it into
    its weights.

    Args:
        in_channels (int): Number of feature dimensions.
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`.
        reweight (str, optional): :obj:`"dr"`, the controls :obj:`"static"` and
            :obj:`"constant"`, or :obj:`None`.

    """

    def __init__(
        self, in_channels: int, *, norm: Norm | None = None, reweight: Reweight | None = None
    ) -> None:
        super().__init__()
        _check("norm", norm, get_args(Norm))
        _check("reweight", reweight, get_args(Reweight))
        # NOTE[PAPER] Where the norms stand, whether they are affine, and their order with Dr are
        # not stated. Here they are affine and come first: the gate then acts directly before
        # the weights, as in Eq. 4.
        norms: dict[str, Callable[[int], torch.nn.Module]] = {
            "batch": WeightedBatchNorm,
            "layer": torch.nn.LayerNorm,
            "graph": GraphNorm,
            "pair": lambda _: PairNorm(),
        }
        gates: dict[str, Callable[[int], DimensionalReweighting | StaticGate | ConstantGate]] = {
            "dr": DimensionalReweighting,
            "static": StaticGate,
            "constant": ConstantGate,
        }
        self.norm = norms[norm](in_channels) if norm else None
        self.gate = gates[reweight](in_channels) if reweight else None

    def forward(
        self,
        x: Tensor | SparseMatrix,
        groups: NodeGroups | None = None,
        weight: Tensor | None = None,
    ) -> tuple[Tensor | SparseMatrix, Tensor | None]:
        """The normalised input, and the vector ``s`` that the convolution is to apply: ``[d]``,
        or ``[graphs, d]`` with ``groups``. Rows of a dense ``x`` count by their ``weight`` in the
        gate's mean and in a batch norm."""
        if self.norm is not None:
            dense = x.to_dense() if isinstance(x, SparseMatrix) else x
            x = self._normalized(dense, groups, weight)
        if self.gate is None:
            return x, None
        if groups is not None:
            mean = groups.mean(x)
        else:
            mean = x.column_mean if isinstance(x, SparseMatrix) else weighted_mean(x, weight)
        return x, self.gate.from_mean(mean).to(x.dtype)

    def _normalized(self, x: Tensor, groups: NodeGroups | None, weight: Tensor | None) -> Tensor:
        if isinstance(self.norm, WeightedBatchNorm):
            return self.norm(x, weight)
        if isinstance(self.norm, GraphNorm):
            return self.norm(x, groups)
        if isinstance(self.norm, PairNorm) and groups is not None:
            return self.norm(x, groups.graph, groups.size)
        assert self.norm is not None
        return self.norm(x)

    def gate_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters of the gate; norms are never decayed."""
        if self.gate is not None:
            yield from self.gate.parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for child in self.children():
            if hasattr(child, "reset_parameters"):
                child.reset_parameters()  # type: ignore[operator]


def _check(argument: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise ValueError(f"Expected {argument} to be one of {allowed} or None; found {value!r}.")
