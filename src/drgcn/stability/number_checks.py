"""Whether something holds real numbers, before any arithmetic trips over it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError


def real_numbers(value: Any, what: str) -> Any:
    """``value`` as a tensor or numpy array, as it is if it is one; refused unless it holds real
    numbers.

    Integers and booleans are real numbers: counts and flags are features like others.

    Args:
        value: A tensor, a numpy array, or nested lists of numbers.
        what: What it was expected to be, as in "features".
    """
    if not isinstance(value, Tensor | np.ndarray):
        if hasattr(value, "tocoo"):
            raise InputError(
                f"Expected {what} as a tensor or a numpy array; found scipy's "
                f"{type(value).__name__}. Make it a sparse tensor "
                f"(torch_geometric.utils.to_torch_csr_tensor), or dense with .toarray()."
            )
        try:
            value = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:  # lists of unequal lengths, say
            raise InputError(
                f"Expected {what} that are real numbers; found a {type(value).__name__} that is "
                f"no array ({str(error).partition('.')[0]}). Give a tensor or a numpy array."
            ) from None
    real = not value.is_complex() if isinstance(value, Tensor) else value.dtype.kind in "fiub"
    if not real:
        raise InputError(
            f"Expected {what} that are real numbers; found {_kind(value)}. Convert first, as in "
            f"np.asarray(values, dtype=float)."
        )
    return value


def real_tensor(value: Any, what: str) -> Tensor:
    """The same, as a float64 tensor without gradient."""
    value = real_numbers(value, what)
    # A copy of an array: torch takes neither read-only memory nor negative strides.
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value, np.float64))
    return tensor.detach().double()


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value.dtype)
    names = {"U": "text", "S": "bytes", "O": "Python objects", "M": "dates", "m": "durations"}
    return f"{names.get(value.dtype.kind, 'values')} ({value.dtype})"
