"""Dropout whose masks belong to a seed, for any module that calls torch's own dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from drgcn.training.dropout_factors import dropout_factors
from drgcn.training.streams import call_key


class SeededDropout(TorchFunctionMode):
    """While active, ``F.dropout`` and ``nn.Dropout`` draw from the hash of a key.

    A mask depends on the key and on how many dropouts came before in this context, so the
    modules themselves stay plain: PyG's attention dropout, say, needs no change.

    Args:
        key: 64-bit integer tensor; under :func:`torch.vmap`, one per lane.
    """

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self.key = key
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replaces dropout and lets everything else pass."""
        if func is F.dropout:
            return self._dropout(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return input
        self.calls += 1
        key = call_key(self.key, self.calls)
        factor = dropout_factors(key, input.numel(), p, input.dtype).view(input.shape)
        return input.mul_(factor) if inplace else input * factor
