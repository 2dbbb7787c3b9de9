"""Mean node representation and column scaling, for dense, COO and CSR features alike."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter


def weighted_mean(
    x: Tensor,
    weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    """Mean over nodes: ``[d]``, or ``[graphs, d]`` with ``batch``.

    Sums run in float32 or better. Weights are taken to be non-negative. A graph without nodes,
    or of zero total weight, has the zero vector as its mean, so that a batch with an empty
    entry stays finite.
    """
    if x.dim() != 2:
        raise ValueError(f"Expected node features of shape [nodes, d]; found {tuple(x.shape)}.")
    dtype = torch.promote_types(x.dtype, torch.float32)
    if weight is not None:
        weight = weight.to(dtype)
    if batch is None:
        if weight is None:
            return _column_sum(x, None, dtype) / max(x.size(0), 1)
        return _column_sum(x, weight / _nonzero(weight.sum()), dtype)
    size = int(batch.max()) + 1 if batch_size is None and batch.numel() > 0 else batch_size or 0
    if weight is None:
        weight = torch.ones(x.size(0), dtype=dtype, device=x.device)
    mass = scatter(weight, batch, dim_size=size)
    weight = weight / _nonzero(mass)[batch]
    if x.layout == torch.strided:
        return scatter(x.to(dtype) * weight[:, None], batch, dim_size=size)
    row, col, value = _entries(x)
    cell = batch[row] * x.size(1) + col
    flat = torch.zeros(size * x.size(1), dtype=dtype, device=x.device)
    return flat.index_add(0, cell, value.to(dtype) * weight[row]).view(size, x.size(1))


def scale_columns(x: Tensor, s: Tensor, batch: Tensor | None = None) -> Tensor:
    """``x * s`` in the layout of ``x``; with ``batch``, row ``v`` takes ``s[batch[v]]``."""
    if x.layout == torch.strided:
        return x * (s if batch is None else s[batch])
    row, col, value = _entries(x)
    value = value * (s[col] if batch is None else s[batch[row], col])
    if x.layout == torch.sparse_coo:
        coalesced = x.is_coalesced() or x.requires_grad
        return torch.sparse_coo_tensor(
            torch.stack([row, col]), value, x.shape, is_coalesced=coalesced, check_invariants=False
        )
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), value, x.shape, check_invariants=False
    )


def _column_sum(x: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    if x.layout == torch.strided:
        return x.sum(0, dtype=dtype) if weight is None else weight @ x.to(dtype)
    row, col, value = _entries(x)
    value = value.to(dtype) if weight is None else value.to(dtype) * weight[row]
    return torch.zeros(x.size(1), dtype=dtype, device=x.device).index_add(0, col, value)


def _entries(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of the stored entries of a sparse matrix."""
    if x.layout == torch.sparse_coo:
        if x.requires_grad:
            x = x.coalesce()  # only its entries carry gradients
            return x.indices()[0], x.indices()[1], x.values()
        indices = x._indices()  # the stored ones: repeated entries add up, as they should
        return indices[0], indices[1], x._values()
    if x.layout == torch.sparse_csr:
        crow = x.crow_indices()
        rows = torch.arange(x.size(0), device=x.device)
        row = rows.repeat_interleave(crow.diff(), output_size=x.values().numel())
        return row, x.col_indices(), x.values()
    raise ValueError(f"Expected dense, COO or CSR features; found {x.layout}. Convert first.")


def _nonzero(mass: Tensor) -> Tensor:
    return torch.where(mass == 0, torch.ones_like(mass), mass)
