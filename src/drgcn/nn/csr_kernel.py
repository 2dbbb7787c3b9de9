"""A CSR product for CUDA: one pass, one warp per row, the same sum in the same order each time.

cuSPARSE partitions the rows anew and clears the result in a pass of its own at every call. In a
small full-batch epoch that costs as much as the products themselves.
"""

from __future__ import annotations

import os
import shutil

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

if not any((os.environ.get("CC"), shutil.which("gcc"), shutil.which("clang"))):
    raise ImportError("Triton builds its launchers with a C compiler, and none is found.")

_WIDEST_BLOCK = 128
_ENTRIES_AT_ONCE = 32  # loads in flight per row: enough to hide their latency


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _kernel(crow, col, values, x, out, k, BLOCK: tl.constexpr, ENTRIES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < k
    start = tl.load(crow + row)
    end = tl.load(crow + row + 1)
    total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        stored = entry < end
        node = tl.load(col + entry, mask=stored, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=stored, other=0.0)
        rows = tl.load(
            x + node[:, None] * k + columns[None, :],
            mask=stored[:, None] & inside[None, :],
            other=0.0,
        )
        total += tl.sum(value[:, None] * rows, axis=0)
    tl.store(out + row * k + columns, total, mask=inside)


def csr_product(crow: Tensor, col: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """The product of a CSR matrix with a dense ``x`` ``[columns, k]``, all on one device."""
    x, values = x.contiguous(), values.contiguous()
    rows, k = crow.numel() - 1, x.size(1)
    out = torch.empty(rows, k, dtype=x.dtype, device=x.device)
    if out.numel():
        block = min(_WIDEST_BLOCK, triton.next_power_of_2(k))
        grid = (rows, triton.cdiv(k, block))
        _kernel[grid](
            crow, col, values, x, out, k, BLOCK=block, ENTRIES=_ENTRIES_AT_ONCE, num_warps=1
        )
    return out
