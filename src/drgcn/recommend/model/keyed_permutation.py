"""A permutation of 0 ... n-1 that is computed place by place, and never held."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.streams import call_key, mix, step_key

_ROUNDS = 4
_POSITIVE = (1 << 63) - 1


@dataclass(frozen=True)
class KeyedPermutation:
    """A Feistel network over pairs of numbers, one permutation for each key and epoch.

    A place is written as ``left * b + right`` with ``a * b`` little more than ``size``. Each round
    adds a hash of one half to the other, modulo its range, which can be undone. Results that fall
    beyond ``size`` go through again (cycle walking), so that what is left is a permutation of
    exactly ``size`` places. No place needs any other: 130 million of them take no memory, and a
    run may go on anywhere.

    Attributes:
        size: How many places there are.
    """

    size: int

    def __post_init__(self) -> None:
        if not 0 < self.size < 1 << 62:
            raise InputError(f"Expected at least one thing to permute; found {self.size}.")

    def __call__(self, places: Tensor, key: Tensor, epoch: Tensor) -> Tensor:
        """Where each of ``places`` goes in the permutation of its ``epoch`` (of equal shape)."""
        keys = step_key(key, epoch)
        walked = self._once(places, keys)
        # About one in the root of the size walks on; reading that waits for the device, which is
        # why batches are made for many steps at once.
        while bool((beyond := walked >= self.size).any()):
            walked = torch.where(beyond, self._once(walked, keys), walked)
        return walked

    def _once(self, places: Tensor, keys: Tensor) -> Tensor:
        b = math.isqrt(self.size - 1) + 1
        a = -(-self.size // b)
        left, right = places // b, places % b
        for number in range(_ROUNDS):
            left = (left + self._hash(right, keys, 2 * number) % a) % a
            right = (right + self._hash(left, keys, 2 * number + 1) % b) % b
        return left * b + right

    @staticmethod
    def _hash(half: Tensor, keys: Tensor, call: int) -> Tensor:
        return mix(mix(half + call_key(keys, call))) & _POSITIVE
