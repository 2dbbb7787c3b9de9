"""Mean and covariance of features in one pass, in pieces that can be merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from drgcn.errors import InputError, UndefinedStability
from drgcn.stability.rows import (
    blocks,
    checked_features,
    checked_weight,
    features_of,
    real_tensor,
    refuse_non_finite,
)

_EPS = torch.finfo(torch.float64).eps


class FeatureMoments:
    r"""Weighted mean and covariance of feature dimensions, one pass, in float64.

    Chunks are centred by themselves and merged by the rule of Chan, Golub and LeVeque: with
    weights :math:`w_a, w_b` and :math:`\delta = m_b - m_a`,

    .. math::
        \mathbf{M} = \mathbf{M}_a + \mathbf{M}_b + \frac{w_a w_b}{w_a + w_b} \delta\delta^\top,
        \quad \mathbf{C} = \mathbf{M} / w.

    Digits survive feature offsets of :math:`10^6`, where :math:`E[xx^\top] - mm^\top` has none
    left. Memory is :math:`O(d^2)`, or :math:`O(d)` with ``diagonal=True``, whatever the number
    of rows. Two processes can each read half of the rows and :meth:`merge`.

    Args:
        num_features (int): Number of feature dimensions :math:`d`.
        diagonal (bool, optional): Keep variances alone, and the variance along the sum of all
            dimensions and along ``directions``: what K needs. (default: :obj:`False`)
        directions (Tensor, optional): Vectors ``s``, ``[d]`` or ``[k, d]``, whose K will be
            asked for; only with ``diagonal``.
        device (torch.device, optional): Where to compute. (default: CPU)

    Example:
        >>> x = torch.randn(100, 4) + 1e6
        >>> moments = FeatureMoments(4).update(x[:30]).update(x[30:])
        >>> bool(torch.allclose(moments.covariance(), torch.cov(x.double().T, correction=0)))
        True
    """

    def __init__(
        self,
        num_features: int,
        *,
        diagonal: bool = False,
        directions: Tensor | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        num_features = checked_width(num_features)
        if directions is not None and not diagonal:
            raise InputError("Expected directions with diagonal=True alone; C has them all.")
        self.num_features = num_features
        self.diagonal = diagonal
        self.device = torch.device(device or "cpu")
        self.rows_seen = 0
        ones = torch.ones(1 if diagonal else 0, num_features, dtype=torch.float64)
        self.directions = ones.to(self.device)
        if directions is not None:
            extra = checked_directions(directions, num_features).to(self.device)
            self.directions = torch.cat([self.directions, extra])
        shape = (num_features,) if diagonal else (num_features, num_features)
        self._sums = ChunkMoments(
            *(
                torch.zeros(size, dtype=torch.float64, device=self.device)
                for size in ((), (num_features,), shape, (len(self.directions),))
            )
        )

    @classmethod
    def from_chunks(cls, chunks: Iterable[Any], **options: Any) -> Self:
        """Return the moments of all rows of a loader.

        Args:
            chunks: Feature matrices; lists or tuples that begin with one, as a
                :class:`torch.utils.data.DataLoader` yields them; or PyG batches, of which those
                of a neighbour loader count with their seed nodes alone.
            **options: Passed on to the class.
        """
        moments = None
        for x in features_of(chunks):
            x = checked_features(x)
            if moments is None:
                moments = cls(x.shape[1], **options)
            moments.update(x)
        if moments is None:
            raise InputError("Expected at least one chunk of features; the loader is empty.")
        return moments

    def update(self, x: Any, weight: Any = None) -> Self:
        """Add rows: all of them or, if one is refused, none.

        Args:
            x (Tensor or numpy.ndarray): Features ``[n, d]``: dense, COO, CSR, or a memory map,
                which is read block by block. Sparse features are never made dense.
            weight (Tensor, optional): Weight of each row, not negative. A row of weight zero is
                as if it were not there. (default: one)
        """
        x = checked_features(x, self.num_features)
        weight = checked_weight(weight, x.shape[0], self.device)
        arrived = moments_of_rows(
            x, weight, self.directions, full=not self.diagonal, first_row=self.rows_seen
        )
        self.rows_seen += x.shape[0]
        if arrived is not None:
            self._sums.merge(arrived, self.directions)
        return self

    def merge(self, other: FeatureMoments) -> Self:
        """Add the rows that ``other`` has seen; ``other`` stays as it is."""
        if not isinstance(other, FeatureMoments):
            raise InputError(
                f"Expected FeatureMoments to merge; found {type(other).__name__}. Take in rows "
                f"with update."
            )
        alike = (self.num_features, self.diagonal) == (other.num_features, other.diagonal)
        if not alike or not torch.equal(self.directions, other.directions.to(self.device)):
            raise InputError(
                "Expected moments of as many features, in the same mode and directions; found "
                f"{other!r} to merge into {self!r}."
            )
        self.rows_seen += other.rows_seen
        if float(other._sums.weight) > 0:
            theirs = ChunkMoments(*(part.to(self.device) for part in vars(other._sums).values()))
            self._sums.merge(theirs, self.directions)
        return self

    @property
    def weight(self) -> float:
        """Sum of weights; the number of rows where none were given."""
        return float(self._sums.weight)

    @property
    def mean(self) -> Tensor:
        """Mean of each dimension ``[d]``."""
        self._expect_rows()
        return self._sums.mean.clone()

    def variance(self, *, center: bool = True) -> Tensor:
        """Variance of each dimension ``[d]``, exactly 0 for constants; without ``center`` the
        mean square."""
        self._expect_rows()
        variance = self._sums.variance()
        return variance if center else variance + self._sums.mean.square()

    def covariance(self, *, center: bool = True) -> Tensor:
        """Covariance ``[d, d]`` over all rows (divided by the sum of weights)."""
        if self.diagonal:
            raise InputError("Expected moments with covariances; these keep the diagonal alone.")
        self._expect_rows()
        c = self._sums.covariance()
        return c if center else c + torch.outer(self._sums.mean, self._sums.mean)

    def variance_along(self, direction: Tensor, *, center: bool = True) -> Tensor:
        r"""Variance of :math:`\mathbf{X}\mathbf{p}` for one of the directions kept."""
        self._expect_rows()
        direction = real_tensor(direction, "directions").to(self.device)
        if not self.diagonal:
            return direction @ self.covariance(center=center) @ direction
        same = (self.directions == direction).all(1).nonzero()
        if len(same) == 0:
            raise InputError(
                "Expected a direction that these moments keep; build them with directions=s."
            )
        along = self._sums.projected[int(same[0])] / self._sums.weight
        return along if center else along + (self._sums.mean @ direction).square()

    def state(self) -> dict[str, Tensor]:
        """Return everything as tensors, for safetensors or another process."""
        rows = torch.tensor(self.rows_seen)
        return {"directions": self.directions, "rows_seen": rows, **vars(self._sums)}

    @classmethod
    def from_state(cls, state: dict[str, Tensor]) -> Self:
        """Return the moments that :meth:`state` came from."""
        parts = {name: part.clone() for name, part in state.items()}
        directions, rows = parts.pop("directions"), parts.pop("rows_seen")
        found = cls(
            len(parts["mean"]), diagonal=parts["scatter"].dim() == 1, device=directions.device
        )
        found.directions, found.rows_seen = directions, int(rows)
        found._sums = ChunkMoments(**parts)
        return found

    def __repr__(self) -> str:
        mode = ", diagonal" if self.diagonal else ""
        return f"{type(self).__name__}({self.num_features}{mode}, weight={self.weight:g})"

    def _expect_rows(self) -> None:
        if not self.weight > 0:
            raise UndefinedStability("Moments are undefined: no row of positive weight was seen.")


@dataclass
class ChunkMoments:
    r"""Sums over some rows, all in float64.

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
        r"""Add other rows by the rule of Chan, Golub and LeVeque: with
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
    offset = torch.where(stored_in_full, 0.0, mean)  # distance of an entry that is not stored
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
    """Return the product of a matrix's transpose with itself."""
    if x.device.type != "cpu":
        return x.T @ x
    values = x.numpy()
    with np.errstate(all="ignore"):  # non-finite values are found in the result
        return torch.from_numpy(values.T @ values)  # numpy uses the symmetry: half the work


def _scipy(row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> sparse.csr_array:
    index = (row.cpu().numpy(), col.cpu().numpy())
    return sparse.csr_array((value.cpu().numpy(), index), shape=shape)


def _dense(matrix: sparse.csr_array, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix.toarray())).to(like.device)


def moments_of_rows(
    x: Any, weight: Tensor | None, directions: Tensor, *, full: bool, first_row: int = 0
) -> ChunkMoments | None:
    """Return the moments of checked features; ``None`` if no row has a positive weight.

    Args:
        x: Features that passed :func:`drgcn.stability.rows.checked_features`.
        weight: Weights that passed ``checked_weight``.
        directions: Directions ``[k, d]``, on the device to compute on.
        full: Keep the scatter of all pairs of dimensions, not its diagonal alone.
        first_row: Number of the first row, for messages.

    Raises:
        NonFiniteError: If a value is not finite.
    """
    arrived: ChunkMoments | None = None
    for start, rows, block_weight in blocks(x, weight, directions.device):
        if rows.shape[0] == 0:
            continue
        reduce = of_dense if rows.layout == torch.strided else of_sparse
        found = reduce(rows, block_weight, directions, full)
        if not bool(torch.isfinite(found.scatter).all()):
            refuse_non_finite(rows, first_row + start)
        if arrived is None:
            arrived = found
        else:
            arrived.merge(found, directions)
    return arrived


def checked_width(num_features: Any) -> int:
    """Return a number of feature dimensions; refuse anything else."""
    if not isinstance(num_features, int | np.integer) or num_features < 1:
        raise InputError(f"Expected a whole num_features >= 1; found {num_features!r}.")
    return int(num_features)


def checked_directions(directions: Any, num_features: int) -> Tensor:
    """Return directions ``[d]`` or ``[k, d]`` as a float64 matrix ``[k, d]``."""
    found = real_tensor(directions, "directions")
    if found.dim() not in (1, 2) or found.size(-1) != num_features:
        raise InputError(
            f"Expected directions of shape [{num_features}] or [k, {num_features}]; found "
            f"{list(found.shape)}."
        )
    return found.reshape(-1, num_features)
