"""One sampled layer: a few columns of the propagation matrix that stand for all."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.drawing import Draw
from drgcn.sampling.lookup import lookup


@dataclass(frozen=True, eq=False)
class LayerSample:
    r"""Nodes that send, and with what weight to whom.

    ``matrix @ h[nodes]`` has the expectation ``A[rows] @ h``.

    Attributes:
        nodes: The nodes drawn ``[n]``; one drawn twice is listed twice.
        matrix: Weights ``[rows, n]``: entries of the propagation matrix, each times the factor
            of its draw.
        real: Which places of ``nodes`` hold a draw ``[n]``; the others are there because there
            were fewer nodes than draws, and send nothing. All of them if not given.
    """

    nodes: Tensor
    matrix: Tensor
    real: Tensor | None = None

    @classmethod
    def of(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, factor: Tensor) -> LayerSample:
        """The columns of some nodes, each times a factor."""
        entries = lookup(graph, rows, nodes)
        return cls(nodes, entries * factor.to(entries.dtype))

    @classmethod
    def drawn(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, draw: Draw) -> LayerSample:
        """The columns of those ``nodes`` that were drawn."""
        layer = cls.of(graph, rows, nodes[draw.index], draw.factor)
        return cls(layer.nodes, layer.matrix, draw.real)
