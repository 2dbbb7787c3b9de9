"""What a rule for ``vmap`` gets, as tensors with one lane each in front."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def with_lanes(
    info: Any, in_dims: tuple[int | None, ...], values: tuple[Tensor, ...]
) -> list[Tensor]:
    """Every value with its lanes first; one that all lanes share is repeated without a copy."""
    return [
        v.expand(info.batch_size, *v.shape) if dim is None else v.movedim(dim, 0)
        for v, dim in zip(values, in_dims, strict=True)
    ]
