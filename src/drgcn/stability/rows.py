"""Read rows of features from tensors, arrays, memory maps and loaders, in checked blocks."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError, NonFiniteError

# About 16 MB in float64: smaller blocks make slow products, larger ones need memory.
_ENTRIES_PER_BLOCK = 2**21
_FEWEST_ROWS = 512


def blocks(
    x: Any, weight: Tensor | None, device: torch.device
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Yield first row, rows and weights of each block in float64, without rows of weight zero.

    Dense matrices and numpy arrays, memory maps too, are read a block at a time. A sparse
    matrix is one block, a coalesced COO tensor.
    """
    if isinstance(x, Tensor) and x.layout != torch.strided:
        yield _sparse_block(x.detach(), weight, device)
        return
    size = max(_FEWEST_ROWS, _ENTRIES_PER_BLOCK // max(x.shape[1], 1))
    for start in range(0, x.shape[0], size):
        part = x[start : start + size]
        if isinstance(part, Tensor):
            rows = part.detach().to(device, torch.float64)
        else:  # a copy: torch takes no read-only memory
            rows = torch.from_numpy(np.array(part, np.float64)).to(device)
            _forget_pages(x)
        block_weight = None if weight is None else weight[start : start + size]
        if block_weight is not None and bool((block_weight == 0).any()):
            kept = block_weight > 0
            rows, block_weight = rows[kept], block_weight[kept]
        yield start, rows, block_weight


def checked_features(x: Any, num_features: int | None = None) -> Any:
    """Return ``x`` if it is a matrix of real numbers, of that many columns; refuse it else."""
    x = real_numbers(x, "features")
    if len(x.shape) != 2 or (num_features is not None and x.shape[1] != num_features):
        width = "d" if num_features is None else num_features
        raise InputError(f"Expected features of shape [rows, {width}]; found {list(x.shape)}.")
    layouts = (torch.strided, torch.sparse_coo, torch.sparse_csr)
    if isinstance(x, Tensor) and x.layout not in layouts:
        raise InputError(f"Expected dense, COO or CSR features; found {x.layout}. Convert first.")
    return x


def checked_weight(weight: Any, rows: int, device: torch.device) -> Tensor | None:
    """Return row weights in float64; refuse negative and non-finite ones."""
    if weight is None:
        return None
    weight = real_tensor(weight, "weights").to(device)
    if weight.shape != (rows,):
        raise InputError(f"Expected one weight per row, [{rows}]; found {list(weight.shape)}.")
    for fault, where in (
        ("a weight that is no finite number", ~torch.isfinite(weight)),
        ("a negative weight", weight < 0),
    ):
        if bool(where.any()):
            place = int(where.nonzero()[0])
            kind = NonFiniteError if "finite" in fault else InputError
            raise kind(f"Expected weights >= 0; found {fault} at row {place}.")
    return weight


def refuse_non_finite(x: Tensor, first_row: int) -> None:
    """Raise an error that names the first entry that is no finite number."""
    if x.layout == torch.strided:
        bad = (~torch.isfinite(x)).nonzero()
        place = (int(bad[0, 0]), int(bad[0, 1])) if len(bad) else None
    else:
        bad = (~torch.isfinite(x.values())).nonzero()
        at = x.indices()[:, int(bad[0])] if len(bad) else None
        place = None if at is None else (int(at[0]), int(at[1]))
    if place is not None:
        raise NonFiniteError(
            f"Expected finite features; found {float(x[place])} at row {place[0] + first_row}, "
            f"column {place[1]} (both from 0). Remove or impute it."
        )
    raise NonFiniteError("Expected features whose squares fit into float64; they overflow.")


def features_of(chunks: Any) -> Iterator[Any]:
    """Yield the feature matrix in each item of a loader; a matrix is its own only item.

    An item is a matrix, a list or tuple that begins with one, or a PyG batch. Of a batch of a
    neighbour loader only the seed nodes count, so that each node counts once.
    """
    if isinstance(chunks, Tensor | np.ndarray) and len(chunks.shape) == 2:
        yield chunks
        return
    if not isinstance(chunks, Iterable) or isinstance(chunks, str | bytes | Mapping):
        raise InputError(
            f"Expected a loader of feature matrices; found {type(chunks).__name__}. Give a list "
            f"of matrices, or a DataLoader."
        )
    for item in chunks:
        if isinstance(item, list | tuple) and item:
            yield item[0]
        elif hasattr(item, "edge_index") or hasattr(item, "num_nodes"):
            x = item.x
            if x is None:
                raise InputError("Expected batches with node features `x`; found none.")
            yield x[: item.batch_size] if "input_id" in item else x
        else:
            yield item


def _forget_pages(x: Any) -> None:
    """Release the pages read of a memory map, which count as memory of this process else."""
    pages: Any = getattr(x, "_mmap", None)
    # Not for a map that can be written to, whose changes could be lost.
    if getattr(x, "mode", None) == "r" and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


def _sparse_block(
    x: Tensor, weight: Tensor | None, device: torch.device
) -> tuple[int, Tensor, Tensor | None]:
    coo = x.to(device).to_sparse_coo().coalesce()
    index, value = coo.indices().long(), coo.values().double()
    rows = x.size(0)
    if weight is not None and bool((weight == 0).any()):
        kept = weight > 0
        stays = kept[index[0]]
        place = kept.cumsum(0) - 1
        index, value = torch.stack([place[index[0]], index[1]])[:, stays], value[stays]
        weight, rows = weight[kept], int(kept.sum())
    block = torch.sparse_coo_tensor(
        index, value, (rows, x.size(1)), is_coalesced=True, check_invariants=False
    )
    return 0, block, weight


def real_numbers(value: Any, what: str) -> Any:
    """Return ``value`` as a tensor or numpy array, as it is if it is one; refuse anything but
    real numbers.

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
    """Return real numbers as a float64 tensor without gradient."""
    value = real_numbers(value, what)
    # A copy of an array: torch takes neither read-only memory nor negative strides.
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value, np.float64))
    return tensor.detach().double()


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value.dtype)
    names = {"U": "text", "S": "bytes", "O": "Python objects", "M": "dates", "m": "durations"}
    return f"{names.get(value.dtype.kind, 'values')} ({value.dtype})"
