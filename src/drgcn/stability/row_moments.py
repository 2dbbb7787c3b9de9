"""Moments of a whole matrix of rows, read block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.stability.chunk_moments import ChunkMoments, of_dense, of_sparse
from drgcn.stability.number_checks import real_tensor
from drgcn.stability.rows import blocks, refuse_non_finite


def moments_of_rows(
    x: Any, weight: Tensor | None, directions: Tensor, *, full: bool, first_row: int = 0
) -> ChunkMoments | None:
    """The moments of checked features; ``None`` if no row has a positive weight.

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
    """A number of feature dimensions."""
    if not isinstance(num_features, int | np.integer) or num_features < 1:
        raise InputError(f"Expected a whole num_features >= 1; found {num_features!r}.")
    return int(num_features)


def checked_directions(directions: Any, num_features: int) -> Tensor:
    """Directions ``[d]`` or ``[k, d]`` as a float64 matrix ``[k, d]``."""
    found = real_tensor(directions, "directions")
    if found.dim() not in (1, 2) or found.size(-1) != num_features:
        raise InputError(
            f"Expected directions of shape [{num_features}] or [k, {num_features}]; found "
            f"{list(found.shape)}."
        )
    return found.reshape(-1, num_features)
