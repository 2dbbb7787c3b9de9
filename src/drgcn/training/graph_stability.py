"""K of one layer's input, on one graph or as the mean over several."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from drgcn.errors import NonFiniteError, UndefinedStability
from drgcn.nn.products import Features
from drgcn.nn.sparse import SparseMatrix
from drgcn.stability import stability_k


def graph_stability(x: Features, s: Tensor, graph: Tensor | None = None) -> float | None:
    """K of features ``x`` for a vector ``s`` ``[d]``, or for one of each graph ``[graphs, d]``.

    With several graphs, the mean over those where K is defined; ``None`` where it nowhere is, as
    for a layer all of whose inputs have died, or grown beyond all numbers.
    """
    x = x.to_csr() if isinstance(x, SparseMatrix) else x
    if s.dim() == 1:
        pairs = [(x, s)]
    else:
        assert graph is not None
        dense = x if x.layout == torch.strided else x.to_dense()
        pairs = [(dense[graph == number], s[number]) for number in range(len(s))]
    values = []
    for features, vector in pairs:
        with contextlib.suppress(UndefinedStability, NonFiniteError):
            values.append(stability_k(features, vector))
    return sum(values) / len(values) if values else None
