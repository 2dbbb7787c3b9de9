"""Triton kernel of dropout factors from hashed counters, as in :mod:`drgcn.streams`."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.streams import MIX, SPREAD

_BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _factors_kernel(  # type: ignore[no-untyped-def]
    keys, out, count, least, scale,
    OWN: tl.constexpr, SPREAD: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803, E501
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    if OWN:  # every lane has a rate of its own
        least = tl.load(least + lane).to(tl.int32)
        scale = tl.load(scale + lane)
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + lane).to(tl.uint64, bitcast=True)
    z = (key + (place // 4).to(tl.uint64)) * SPREAD
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    z = z ^ (z >> 31)
    bits = ((z >> ((place % 4) * 16).to(tl.uint64)) & 0xFFFF).to(tl.int32)
    number = tl.where(bits >= 32768, bits - 65536, bits)  # as a signed 16-bit integer
    factor = tl.where(number >= least, scale, 0.0)
    tl.store(out + lane * count + place, factor, mask=place < count)


def hashed_factors(
    key: Tensor, count: int, least: int | Tensor, scale: float | Tensor, dtype: torch.dtype
) -> Tensor:
    """Factors ``[..., count]`` for keys ``[...]``: ``scale`` where the 16-bit draw is at least
    ``least``, else zero; both are numbers, or tensors of one for each key."""
    out = torch.empty(*key.shape, count, dtype=dtype, device=key.device)
    own = isinstance(least, Tensor)
    if isinstance(least, Tensor) and isinstance(scale, Tensor):
        least, scale = least.contiguous(), scale.contiguous()
    single = dtype != torch.float64 or own  # numbers are handed over in single precision
    if out.numel():
        grid = (triton.cdiv(count, _BLOCK), key.numel())
        _factors_kernel[grid](
            key.contiguous(),
            out,
            count,
            least,
            scale if single else 1.0,
            OWN=own,
            SPREAD=SPREAD,
            FIRST=MIX[0],
            SECOND=MIX[1],
            BLOCK=_BLOCK,
        )
    return out if single else out * scale
