"""From torch's tensors to the arrays that the readers work with."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.features import Features
from drgcn.errors import InputError


def as_features(x: torch.Tensor, source: str) -> Features:
    """A feature matrix, dense or in CSR form as the tensor is dense or sparse."""
    if x.layout == torch.strided:
        return _plain(x, source)
    coo = x.to_sparse_coo().coalesce()
    if coo.dense_dim() or not coo.is_floating_point():
        return _plain(coo.to_dense(), source)
    indices = coo.indices().cpu().numpy()
    values = coo.values().detach().cpu().float().numpy()
    return sparse.csr_array((values, indices), shape=tuple(coo.shape))


def as_array(value: Any, source: str) -> npt.NDArray[Any]:
    """Labels, edges or a mask as an array."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise InputError(f"{source}: y, edge_index and masks must be plain tensors")
    return _plain(value, source)


def _plain(tensor: torch.Tensor, source: str) -> npt.NDArray[Any]:
    # numpy does not know all of torch's float types.
    tensor = tensor.detach().cpu()
    try:
        return (tensor.float() if tensor.is_floating_point() else tensor.resolve_conj()).numpy()
    except (TypeError, RuntimeError):
        raise InputError(f"{source}: a tensor of type {tensor.dtype} cannot be read") from None
