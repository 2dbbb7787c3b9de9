"""Random bits from counting: the n-th output of SplitMix64, for any n at once.

Nothing has a state. A number depends on its key and its counter alone, so it does not matter
which device draws it, in which order, or in how large a piece.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_BITS: Final = 64
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB


def hash64(key: int, counter: Tensor) -> Tensor:
    """Output number ``counter`` of SplitMix64 started with ``key``, as signed 64-bit integers.

    Args:
        key: Any whole number below ``2**64``, see :func:`stream_key`.
        counter: Which outputs, int64, counted from 0.
    """
    return scatter_bits(counter * signed(_GOLDEN) + signed(key + _GOLDEN))


def stream_key(seed: int, *path: int) -> int:
    """A 64-bit key for one purpose of one seed; different paths give unrelated keys."""
    key = _scattered(seed % 2**_BITS)
    for step in path:
        key = _scattered((key + (step + 1) * _GOLDEN) % 2**_BITS)
    return key


def scatter_bits(z: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection in which every bit of the input moves all bits."""
    z = (z ^ high_bits(z, _BITS - 30)) * signed(_FIRST)
    z = (z ^ high_bits(z, _BITS - 27)) * signed(_SECOND)
    return z ^ high_bits(z, _BITS - 31)


def high_bits(z: Tensor, count: int) -> Tensor:
    """The ``count`` highest of 64 bits as a number from 0 to ``2**count - 1``."""
    # torch shifts copies of the sign in from the left; the mask takes them away.
    return (z >> (_BITS - count)) & ((1 << count) - 1)


def below(z: Tensor, limit: int | Tensor) -> Tensor:
    """A whole number from 0 to ``limit - 1`` out of the 32 highest bits; limits up to 2**31."""
    return (high_bits(z, 32) * limit) >> 32


def signed(number: int) -> int:
    """The signed 64-bit integer with the same bits as a whole number modulo ``2**64``."""
    half = 1 << (_BITS - 1)
    return (number + half) % (1 << _BITS) - half


def counters(begin: int, end: int, device: torch.device) -> Tensor:
    """``begin`` to ``end - 1`` as 64-bit integers."""
    return torch.arange(begin, end, dtype=torch.int64, device=device)


def _scattered(z: int) -> int:
    z = ((z ^ (z >> 30)) * _FIRST) % 2**_BITS
    z = ((z ^ (z >> 27)) * _SECOND) % 2**_BITS
    return z ^ (z >> 31)
