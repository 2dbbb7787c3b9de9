"""Mean and covariance of features in one pass, in pieces that can be merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import Tensor

from drgcn.errors import InputError, UndefinedStability
from drgcn.stability.chunk_moments import ChunkMoments
from drgcn.stability.number_checks import real_tensor
from drgcn.stability.row_moments import checked_directions, checked_width, moments_of_rows
from drgcn.stability.rows import checked_features, checked_weight, features_of


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
        """The moments of all rows of a loader.

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
        """Takes in rows; all of them or, if one is refused, none.

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
        """Takes in the rows that ``other`` has seen; ``other`` stays as it is."""
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
        """Everything as tensors, ready for safetensors or another process."""
        rows = torch.tensor(self.rows_seen)
        return {"directions": self.directions, "rows_seen": rows, **vars(self._sums)}

    @classmethod
    def from_state(cls, state: dict[str, Tensor]) -> Self:
        """The moments that :meth:`state` came from."""
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
