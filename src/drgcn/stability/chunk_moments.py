"""Mean and scatter of one chunk of rows, dense or sparse: what moments are merged from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

_EPS = torch.finfo(torch.float64).eps


@dataclass
class ChunkMoments:
    r"""What is kept of some rows, all in float64.

    Attributes:
        weight: Sum of the weights :math:`w_v`; the number of rows without weights.
        mean: Weighted mean ``[d]``.
        scatter: :math:`\sum_v w_v (x_v - m)(x_v - m)^\top`, ``[d, d]``, or its diagonal ``[d]``.
        projected: :math:`\sum_v w_v (p^\top (x_v - m))^2` for each direction ``p``, ``[k]``.
    """

    weight: Tensor
    mean: Tensor
    scatter: Tensor
    projected: Tensor

    def merge(self, other: ChunkMoments, directions: Tensor) -> None:
        r"""Takes in other rows by the rule of Chan, Golub and LeVeque: with
        :math:`\delta = m_b - m_a`, scatters add up to :math:`\delta \delta^\top w_a w_b / w`."""
        weight = self.weight + other.weight
        step = other.mean - self.mean
        between = self.weight * other.weight / weight
        self.scatter += other.scatter
        if self.scatter.dim() == 2:
            self.scatter += torch.outer(step * between, step)
        else:
            self.scatter += between * step.square()
        self.projected += other.projected + between * (directions @ step).square()
        self.mean += step * (other.weight / weight)
        self.weight = weight

    def variance(self) -> Tensor:
        """Variance of each dimension ``[d]``, exactly 0 for constants."""
        scatter = self.scatter.diagonal() if self.scatter.dim() == 2 else self.scatter
        variance = scatter / self.weight
        # The mean is right to some roundings: less than their square is no variance.
        return torch.where(variance > (8 * _EPS * self.mean).square(), variance, 0.0)

    def covariance(self) -> Tensor:
        """Covariance ``[d, d]``, symmetric, with rows of zeros for constants."""
        c = self.scatter / self.weight
        varies = self.variance() > 0
        return torch.where(varies[:, None] & varies, (c + c.T) / 2, 0.0)


def of_dense(x: Tensor, weight: Tensor | None, directions: Tensor, full: bool) -> ChunkMoments:
    """Moments of float64 rows ``[n, d]``, of which none has weight zero."""
    total = x.new_tensor(float(x.size(0))) if weight is None else weight.sum()

    def summed(rows: Tensor) -> Tensor:
        return rows.sum(0) if weight is None else weight @ rows

    rough = summed(x) / total
    centred = x - rough
    # The rounded mean leaves a residue, which is all there is in a constant column. Taking it
    # out of the sums spares a pass over the rows.
    residue = summed(centred) / total
    rooted = centred if weight is None else centred * weight.sqrt()[:, None]
    if full:
        scatter = _gram(rooted)
        scatter -= torch.outer(total * residue, residue)
    else:
        scatter = rooted.square().sum(0) - total * residue.square()
    along = summed((centred @ directions.T).square()) - total * (directions @ residue).square()
    return ChunkMoments(total, rough + residue, scatter, along)


def of_sparse(x: Tensor, weight: Tensor | None, directions: Tensor, full: bool) -> ChunkMoments:
    r"""Moments of a coalesced float64 COO matrix, never made dense.

    With :math:`\mathbf{P}` the pattern of stored entries and :math:`\mathbf{Z}` those entries
    less the mean of their column, the centred matrix is
    :math:`\mathbf{Z} + (\mathbf{P} - \mathbf{1}\mathbf{1}^\top) \mathrm{diag}(\mathbf{m})`. Its
    products expand into products of sparse matrices. A column that is stored in full has no
    second term, so that large offsets cost no digits there.
    """
    n, d = x.shape
    row, col = x.indices()
    value = x.values()
    w = value.new_ones(n) if weight is None else weight
    total, entry_weight, zeros = w.sum(), w[row], value.new_zeros(d)

    def column_sum(entries: Tensor) -> Tensor:
        return zeros.index_add(0, col, entries)

    mean = column_sum(entry_weight * value) / total
    stored_in_full = torch.bincount(col, minlength=d) == n
    residue = column_sum(entry_weight * (value - mean[col])) / total
    mean = torch.where(stored_in_full, mean + residue, mean)
    z = value - mean[col]
    offset = torch.where(stored_in_full, 0.0, mean)  # what an entry that is not stored lies off
    absent = torch.where(stored_in_full, 0.0, total - column_sum(entry_weight))

    parts = torch.zeros(directions.size(0), n, dtype=z.dtype, device=z.device)
    for place, direction in enumerate(directions):
        at_entries = (z + offset[col]) * direction[col]
        parts[place].index_add_(0, row, at_entries).sub_(offset @ direction)
    projected = parts.square() @ w
    if not full:
        scatter = column_sum(entry_weight * z.square()) + absent * offset.square()
        return ChunkMoments(total, mean, scatter, projected)

    pattern = _scipy(row, col, torch.ones_like(z), (n, d))
    centred, weights = _scipy(row, col, z, (n, d)), sparse.diags_array(w.cpu().numpy())
    weighted = weights @ centred
    scatter = _dense(centred.T @ weighted, z)
    sums = column_sum(entry_weight * z)
    crossed = (sums[:, None] - _dense(weighted.T @ pattern, z)) * offset
    filled = column_sum(entry_weight)
    both = total - filled[:, None] - filled + _dense(pattern.T @ (weights @ pattern), z)
    scatter += offset[:, None] * both * offset - crossed - crossed.T
    return ChunkMoments(total, mean, scatter, projected)


def _gram(x: Tensor) -> Tensor:
    """The product of a matrix's transpose with itself."""
    if x.device.type != "cpu":
        return x.T @ x
    values = x.numpy()
    with np.errstate(all="ignore"):  # who sums up non-finite values finds out by the result
        return torch.from_numpy(values.T @ values)  # numpy sees the symmetry: half the work


def _scipy(row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> sparse.csr_array:
    index = (row.cpu().numpy(), col.cpu().numpy())
    return sparse.csr_array((value.cpu().numpy(), index), shape=shape)


def _dense(matrix: sparse.csr_array, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix.toarray())).to(like.device)
