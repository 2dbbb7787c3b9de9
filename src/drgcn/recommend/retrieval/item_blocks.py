"""Items made ready for an exact search: cut into blocks, rounded, and laid out for stage 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.retrieval.rounded_vectors import RoundedVectors
from drgcn.recommend.retrieval.tiling import NARROWEST, Tiling

_LARGEST = 2.0**60  # whose square is far from the largest float
_ALIKE = 2.0**-18  # halves of squared norms that differ by less count as one number


@dataclass(frozen=True, eq=False)
class ItemBlocks:
    """Items in blocks of consecutive ids.

    Attributes:
        items: The vectors as given ``[n, d]``; the results are ranked by these.
        metric: ``"ip"`` or ``"l2"``.
        tiling: How they are cut.
        rounded: Rounded vectors in the order in which stage 1 reads them. The last block and the
            last chunk are filled with copies of the last item. On CUDA columns of zeros bring the
            width to a power of two.
        bias: ``-|i|^2 / 2`` in the same order, for ``"l2"`` where norms differ; else ``None``.
        offset: The middle of ``-|i|^2 / 2`` where that is (nearly) one number.
        spread: How far from the middle it comes.
        scale: The power of two that the rounded vectors were multiplied with.
        norm: The largest norm, of scaled vectors as all below.
        rounded_norm: The largest norm after rounding.
        moved: The farthest that a vector was moved by rounding.
    """

    items: Tensor
    metric: str
    tiling: Tiling
    rounded: Tensor
    bias: Tensor | None
    offset: float
    spread: float
    scale: float
    norm: float
    rounded_norm: float
    moved: float

    @classmethod
    def of(cls, items: Tensor, metric: str = "ip", tiling: Tiling | None = None) -> ItemBlocks:
        """Makes items ready.

        Args:
            items: ``[n, d]``; made 32-bit floats.
            metric: ``"ip"`` (largest inner product) or ``"l2"`` (smallest distance).
            tiling: How to cut them. (default: by device and width)
        """
        if metric not in ("ip", "l2"):
            raise InputError(f"Expected metric 'ip' or 'l2'; found {metric!r}.")
        items = checked_vectors(items, "items")
        if not len(items):
            raise InputError("Expected at least one item; found none.")
        if tiling is None:
            exact = torch.get_float32_matmul_precision() == "highest"
            tiling = Tiling.default(items.size(1), items.is_cuda, exact)
        vectors = RoundedVectors.of(items, getattr(torch, tiling.dtype), by_row=False)
        halves = -0.5 * vectors.square if metric == "l2" else vectors.square.new_zeros(1)
        low, high = float(halves.min()), float(halves.max())
        norm = float(vectors.norm.max())
        alike = (high - low) / 2 <= _ALIKE * norm * norm
        return cls(
            items,
            metric,
            tiling,
            _in_reading_order(_padded(vectors.values), tiling),
            None if alike else _in_reading_order(halves.float()[:, None], tiling)[:, 0],
            offset=(low + high) / 2 if alike else 0.0,
            spread=(high - low) / 2 if alike else 0.0,
            scale=float(vectors.scale),
            norm=norm,
            rounded_norm=float(vectors.rounded_norm.max()),
            moved=float(vectors.moved.max()),
        )

    @property
    def num_items(self) -> int:
        """Number of items."""
        return self.items.size(0)

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        return self.items.size(1)

    @property
    def num_blocks(self) -> int:
        """Blocks that hold at least one item."""
        return -(-self.num_items // self.tiling.block)

    @property
    def num_chunks(self) -> int:
        """Chunks that hold at least one item."""
        return -(-self.num_items // self.tiling.chunk_items)


def checked_vectors(x: Tensor, name: str) -> Tensor:
    """``x`` as 32-bit floats, or an error that says what is wrong with it."""
    if x.dim() != 2 or not x.is_floating_point() or not x.size(1):
        raise InputError(
            f"Expected {name} as floats of shape [rows, columns]; found {x.dtype} of shape "
            f"{list(x.shape)}."
        )
    x = x.detach().float().contiguous()
    low, high = x.aminmax() if x.numel() else (x.new_zeros(()), x.new_zeros(()))
    largest = float(torch.maximum(-low, high))
    if not largest * x.size(1) ** 0.5 < _LARGEST:  # also where it is no number
        raise InputError(
            f"Expected {name} to be finite and of norms below {_LARGEST:.0e}; found an entry of "
            f"{largest}. Divide them by their largest norm, or look where they come from."
        )
    return x


def _padded(x: Tensor) -> Tensor:
    if not x.is_cuda:
        return x
    width = max(NARROWEST, 2 ** (x.size(1) - 1).bit_length())
    return torch.nn.functional.pad(x, (0, width - x.size(1)))


def _in_reading_order(x: Tensor, tiling: Tiling) -> Tensor:
    """Rows by chunk, group, fold, block and column: what is folded lies one tile apart."""
    missing = -len(x) % tiling.chunk_items
    if missing:
        x = torch.cat([x, x[-1:].expand(missing, -1)])
    if tiling.fold == 1:
        return x.contiguous()
    blocks = x.view(-1, tiling.items // tiling.columns, tiling.fold, tiling.columns, x.size(1))
    return blocks.transpose(1, 2).reshape(-1, x.size(1))
