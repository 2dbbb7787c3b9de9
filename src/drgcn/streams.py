"""Counter-based random numbers: functions of a seed, a step and a place alone.

Numbers come from hashing a counter instead of advancing a generator's state. A seed's draws
are therefore the same whether it trains alone or among others, in one go or resumed from a
checkpoint, on CPU or CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_BITS = 64
_PIECE = 1 << 14  # hashes that stay in a core's own cache while they are made
GOLDEN = 0x9E3779B97F4A7C15
_CALL = 0x2545F4914F6CDD1D
SPREAD = 0xD1342543DE82EF95
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the finaliser of SplitMix64
_MANTISSA = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
_STREAMS = {"initialisation": 1, "dropout": 2, "batches": 3, "evaluation": 4}


def stream_key(seed: int, stream: str) -> int:
    """Return the 63-bit key of one purpose of a seed; keys of different purposes are unrelated."""
    key = torch.tensor(seed * 1024 + _STREAMS[stream])
    return int(mix(mix(key))) & (2**63 - 1)


def step_key(key: Tensor, step: Tensor) -> Tensor:
    """Return the key of one step.

    Multiples of an odd constant near the golden ratio lie far apart, so that counters that start
    at the keys of different steps do not overlap.
    """
    return key + step * signed(GOLDEN)


def call_key(key: Tensor, call: int) -> Tensor:
    """Return the key of one draw within a step, likewise apart from the others."""
    return key + signed(call * _CALL)


def mix(z: Tensor) -> Tensor:
    """Hash 64-bit integers by a bijection that spreads every input bit over the output."""
    return scatter_bits(z * signed(SPREAD))


def scatter_bits(z: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection in which every bit of the input moves all bits."""
    z = (z ^ high_bits(z, _BITS - 30)) * signed(MIX[0])
    z = (z ^ high_bits(z, _BITS - 27)) * signed(MIX[1])
    return z ^ high_bits(z, _BITS - 31)


def high_bits(z: Tensor, count: int) -> Tensor:
    """Return the ``count`` highest of 64 bits as a number from 0 to ``2**count - 1``."""
    # torch shifts copies of the sign in from the left; the mask takes them away.
    return (z >> (_BITS - count)) & ((1 << count) - 1)


def below(z: Tensor, limit: int | Tensor) -> Tensor:
    """Return whole numbers from 0 to ``limit - 1`` by the 32 highest bits; limits up to 2**31."""
    return (high_bits(z, 32) * limit) >> 32


def signed(number: int) -> int:
    """Return the signed 64-bit integer with the bits of an unsigned one, modulo ``2**64``."""
    half = 1 << (_BITS - 1)
    return (number + half) % (1 << _BITS) - half


def random_16bit(key: Tensor, count: int) -> Tensor:
    """Draw ``count`` integers, uniform on ``[-2**15, 2**15)``, from each of the keys ``[...]``.

    Four numbers share a hash, because dropout spends most of its time here.
    """
    counter = torch.arange((count + 3) // 4, device=key.device)
    return mix(counter + key[..., None]).view(torch.int16)[..., :count]


def hashed_pieces(key: int, count: int) -> Iterator[tuple[int, npt.NDArray[np.int16]]]:
    """Yield what :func:`random_16bit` draws from one key piece by piece, each with the place where
    it starts; the next piece is written over it.

    NumPy hashes in place and without signs, in a third of the time.
    """
    hashes = (count + 3) // 4
    counter = np.arange(min(hashes, _PIECE), dtype=np.uint64)
    numbers: Any = np.empty_like(counter)
    shifted: Any = np.empty_like(counter)
    for start in range(0, hashes, _PIECE):
        z, spare = (array[: hashes - start] for array in (numbers, shifted))
        np.add(counter[: len(z)], np.uint64((key + start) % (1 << _BITS)), out=z)
        z *= np.uint64(SPREAD)
        for bits, factor in ((30, MIX[0]), (27, MIX[1]), (31, 1)):
            z ^= np.right_shift(z, np.uint64(bits), out=spare)
            if factor != 1:
                z *= np.uint64(factor)
        yield 4 * start, z.view(np.int16)[: count - 4 * start]


def random_uniform(key: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """Draw ``count`` numbers, uniform on ``[0, 1)``, from each of the keys ``[...]``."""
    bits = _MANTISSA[dtype]  # all that the type holds, so that nothing rounds up to 1
    counter = torch.arange(count, device=key.device)
    number = high_bits(mix(counter + key[..., None]), bits)
    return number.to(dtype) * 2.0**-bits
