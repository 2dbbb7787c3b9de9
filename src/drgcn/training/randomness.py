"""Dropout and uniform numbers drawn from a seed's own key, for any module that uses torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from drgcn.kernels import triton_available, with_lanes
from drgcn.streams import call_key, hashed_pieces, random_16bit, random_uniform

LEVELS: Final = 1 << 16

if triton_available():
    from drgcn.kernels.dropout import hashed_factors as _hashed_factors
else:
    _hashed_factors = None  # type: ignore[assignment]


def dropout_factors(key: Tensor, count: int, p: float, dtype: torch.dtype) -> Tensor:
    """Draw ``count`` dropout factors from a key; they are the same on every device.

    Under :func:`torch.vmap` over keys, every lane draws its own.

    Args:
        key: 64-bit integer.
        count: Number of factors.
        p: Share that becomes zero, rounded to ``1 / 65536``; the others are scaled by the rounded
            rate, so that expectations are exact.
        dtype: Data type of the factors.
    """
    return _factors(key, count, round(p * LEVELS), dtype)


def levels_of(rates: Sequence[float]) -> Tensor:
    """Return rates of dropout as :class:`SeededRandomness` takes them, in steps of 1 / 65536."""
    return torch.tensor([round(rate * LEVELS) for rate in rates])


# Operations of their own, so that programs that are recorded hold them as one.
@torch.library.custom_op("drgcn::dropout_factors", mutates_args=())
def _factors(key: Tensor, count: int, dropped: int, dtype: torch.dtype) -> Tensor:
    scale = LEVELS / max(LEVELS - dropped, 1)
    if key.is_cuda and _hashed_factors is not None:
        return _hashed_factors(key, count, dropped - LEVELS // 2, scale, dtype)
    least, scales = torch.full_like(key, dropped - LEVELS // 2), key.new_tensor(scale, dtype=dtype)
    return _plain_factors(key, least, scales.expand(key.shape), count)


@_factors.register_fake
def _(key: Tensor, count: int, dropped: int, dtype: torch.dtype) -> Tensor:
    return key.new_empty((*key.shape, count), dtype=dtype)


@_factors.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], key: Tensor, *rest: Any) -> tuple[Tensor, int]:
    return _factors(key.movedim(in_dims[0] or 0, 0), *rest), 0


@torch.library.custom_op("drgcn::dropout_factors_at", mutates_args=())
def _factors_at(key: Tensor, level: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """The same for a rate per key, ``level / 65536``."""
    scale = (LEVELS / (LEVELS - level).clamp(min=1).double()).to(dtype)
    if key.is_cuda and _hashed_factors is not None:
        return _hashed_factors(key, count, level - LEVELS // 2, scale, dtype)
    return _plain_factors(key, level - LEVELS // 2, scale, count)


@_factors_at.register_fake
def _(key: Tensor, level: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return key.new_empty((*key.shape, count), dtype=dtype)


@_factors_at.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], key: Tensor, level: Tensor, *rest: Any
) -> tuple[Tensor, int]:
    key = with_lanes(key, in_dims[0], info.batch_size)
    level = with_lanes(level, in_dims[1], info.batch_size)
    return _factors_at(key, level, *rest), 0


def _plain_factors(key: Tensor, least: Tensor, scale: Tensor, count: int) -> Tensor:
    """Factors ``[..., count]`` for keys ``[...]``: ``scale`` where the 16-bit draw is at least
    ``least``, else zero."""
    if key.is_cuda:
        return (random_16bit(key, count) >= least[..., None]) * scale[..., None]
    wide = np.float64 if scale.dtype == torch.float64 else np.float32
    out = np.empty((key.numel(), count), wide)
    lanes = zip(
        key.flatten().tolist(), least.flatten().tolist(), scale.flatten().tolist(), strict=True
    )
    for row, (number, low, factor) in zip(out, lanes, strict=True):
        for start, drawn in hashed_pieces(number, count):
            piece = row[start : start + len(drawn)]
            piece[:] = drawn >= low
            piece *= wide(factor)
    return torch.from_numpy(out).view(*key.shape, count).to(scale.dtype)


class SeededRandomness(TorchFunctionMode):
    """Context in which ``F.dropout``, ``nn.Dropout`` and ``torch.rand`` draw from a key's hash.

    A draw depends on the key and on how many came before in this context, so the modules
    themselves stay plain: PyG's attention dropout, say, or a sampler, need no change.

    Args:
        key: 64-bit integer tensor; under :func:`torch.vmap`, one per lane.
        level: Rate that takes the place of all rates of dropout but zero, see :func:`levels_of`.
            (default: rates are the model's own)
    """

    def __init__(self, key: Tensor, level: Tensor | None = None) -> None:
        super().__init__()
        self.key, self.level = key, level
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace dropout and uniform numbers, and pass everything else on."""
        kwargs = kwargs or {}
        if func is F.dropout:
            return self._dropout(*args, **kwargs)
        # A caller who gives a generator or the memory wants that one used.
        own = any(kwargs.get(name) is not None for name in ("generator", "out"))
        if func is torch.rand and not own:
            return self._rand(*args, **kwargs)
        return func(*args, **kwargs)

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return input
        if self.level is None:
            factor = dropout_factors(self._next(), input.numel(), p, input.dtype)
        else:
            factor = _factors_at(self._next(), self.level, input.numel(), input.dtype)
        factor = factor.view(input.shape)
        return input.mul_(factor) if inplace else input * factor

    def _rand(
        self,
        *numbers: Any,
        size: Any = None,
        dtype: torch.dtype | None = None,
        requires_grad: bool = False,
        **_: Any,
    ) -> Tensor:
        size = numbers if size is None else size
        shape = torch.Size(size[0] if size and not isinstance(size[0], int) else size)
        dtype = dtype or torch.get_default_dtype()
        drawn = random_uniform(self._next(), shape.numel(), dtype).view(shape)
        return drawn.requires_grad_() if requires_grad else drawn

    def _next(self) -> Tensor:
        self.calls += 1
        return call_key(self.key, self.calls)
