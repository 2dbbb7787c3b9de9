"""Items made ready for an exact search: blocks, rounded vectors, and bounds on the rounding.

All bounds are in the unit of stage 1: a true score times the scales of query and items, and for
``"l2"`` of ``u.i - |i|^2 / 2``, which ranks items as the distance does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError

NARROWEST = 16  #: columns that a tensor core takes at least
WIDEST = 256  #: columns of the widest vectors that the kernel takes
_ROWS = 2**18  # rounded at a time
_LARGEST = 2.0**60  # whose square is far from the largest float
_ALIKE = 2.0**-18  # halves of squared norms that differ by less count as one number
#: What one addition may lose, relative to the sum of absolute values: twice the unit roundoff of
#: a 32-bit float, and eight times that where tensor cores, which cut rather than round, add up.
ADDITION = 2.0**-23
TENSOR_CORE_ADDITION = 2.0**-20
_SMALLEST = 2.0**-126  # below which a float loses digits


@dataclass(frozen=True)
class Tiling:
    """The shape of both stages on CUDA, and of blocks everywhere.

    A program of stage 1 scores ``users`` queries against ``chunk`` tiles of items. ``fold`` tiles
    are folded into one by taking the larger score at each place, and ``columns`` adjacent places
    of what remains are reduced to one. So a block has ``fold * columns`` items: with ``fold = 1``
    all is reduced across threads at every tile, with ``columns = 1`` nothing is, at the price of
    registers for the running maxima.

    Attributes:
        users: Queries of a program; held on chip while items pass by.
        items: Items of a tile.
        chunk: Tiles of a program; a chunk's largest maximum is written too.
        fold: Tiles folded into one.
        columns: Adjacent columns reduced to one.
        warps: Warps of a program.
        stages: Tiles in flight.
        dtype: What vectors are rounded to: ``"float16"``, ``"bfloat16"`` or ``"float32"``. The
            first two take the same time on tensor cores, and the first is eight times finer.
        gathered: Numbers that a program of stage 2 gathers at once.
        gathering_warps: Its warps.
    """

    users: int = 128
    items: int = 64
    chunk: int = 32
    fold: int = 32
    columns: int = 1
    warps: int = 4
    stages: int = 3
    dtype: str = "float16"
    gathered: int = 8192
    gathering_warps: int = 4

    def __post_init__(self) -> None:
        if self.chunk % self.fold or self.items % self.columns:
            raise InputError(
                f"Expected fold to divide chunk and columns to divide items; found {self}."
            )
        if self.dtype not in ("float16", "bfloat16", "float32"):
            raise InputError(
                f"Expected dtype float16, bfloat16 or float32; found {self.dtype!r}. "
                f"Only for these is the error of a score known."
            )

    @classmethod
    def default(cls, dim: int, cuda: bool, exact_products: bool) -> Tiling:
        """Default tiling for vectors of this width.

        Args:
            dim: Columns of the vectors.
            cuda: Whether the work is done on CUDA.
            exact_products: Whether matrix products of 32-bit floats are computed as such.
        """
        if cuda:
            return cls() if dim <= 128 else cls(stages=2)
        if exact_products:  # scores are nearly right, and in memory: a block is one item
            return cls(users=1, items=128, chunk=1, fold=1, columns=1, dtype="float32")
        return cls(users=1, items=512, chunk=1, fold=1, columns=16, dtype="bfloat16")

    @property
    def block(self) -> int:
        """Items of a block."""
        return self.fold * self.columns

    @property
    def chunk_items(self) -> int:
        """Items of a chunk."""
        return self.chunk * self.items

    @property
    def chunk_blocks(self) -> int:
        """Blocks of a chunk."""
        return self.chunk_items // self.block


@dataclass(frozen=True, eq=False)
class RoundedVectors:
    """Vectors times a power of two, rounded, with upper bounds on what that did.

    The power of two puts the largest entry between 1/2 and 1, where 16-bit floats are at their
    best; it moves nothing but the exponent. The norms are those of the scaled vectors, summed in
    64-bit floats, and a little too large rather than too small.

    Attributes:
        values: ``[n, d]``.
        scale: The power of two ``[n, 1]``, or ``[1, 1]`` where all share one.
        square: Squared norms before rounding ``[n]``.
        norm: Norms before rounding ``[n]``.
        rounded_norm: Norms after rounding ``[n]``.
        moved: Norms of the difference ``[n]``.
    """

    values: Tensor
    scale: Tensor
    square: Tensor
    norm: Tensor
    rounded_norm: Tensor
    moved: Tensor

    @classmethod
    def of(cls, x: Tensor, dtype: torch.dtype, *, by_row: bool) -> RoundedVectors:
        """Round the rows of ``x``, scaled one by one or all alike.

        With 32-bit floats nothing is scaled or rounded.
        """
        largest = x.abs().amax(dim=1, keepdim=True) if x.numel() else x.new_zeros(len(x), 1)
        if not by_row:
            largest = largest.amax(dim=0, keepdim=True) if len(x) else x.new_zeros(1, 1)
        exponent = torch.frexp(largest).exponent.clamp(-100, 100)
        scale = torch.ldexp(torch.ones_like(largest), -exponent)
        if dtype == torch.float32:
            scale = torch.ones_like(scale)
        values = torch.empty_like(x, dtype=dtype)
        square, after, moved = torch.empty(3, len(x), dtype=torch.float64, device=x.device)
        for first in range(0, len(x), _ROWS):
            rows = slice(first, first + _ROWS)
            scaled = x[rows] * (scale[rows] if by_row else scale)
            values[rows] = scaled.to(dtype)
            back = values[rows].float()
            square[rows], after[rows] = _square(scaled), _square(back)
            moved[rows] = _square(scaled - back)
        return cls(
            values, scale.double(), square, *(_root(part) for part in (square, after, moved))
        )


def _square(x: Tensor) -> Tensor:
    return x.double().square().sum(dim=1)


def _root(square: Tensor) -> Tensor:
    """A root rounded up by more than sum and root can have lost."""
    return square.sqrt() * (1 + 2.0**-30) + 2.0**-120


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
        """Make items ready.

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


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Bounds for a batch of queries ``[q]``, in 64-bit floats.

    Attributes:
        stage_one: No number of stage 1 plus ``offset`` is farther than this from the true score.
        stage_two: No number of stage 2 is farther than this from the true score.
        offset: What stage 1 left out because it is the same for all items.
        factor: A number of stage 2 is ``factor * score + shift``.
        shift: See ``factor``.
    """

    stage_one: Tensor
    stage_two: Tensor
    offset: Tensor
    factor: Tensor
    shift: Tensor

    @classmethod
    def of(cls, queries: RoundedVectors, blocks: ItemBlocks) -> ErrorBound:
        """Bounds for these queries against these items."""
        dim = blocks.dim
        ratio, unit = queries.scale[:, 0] / blocks.scale, queries.scale[:, 0] * blocks.scale
        largest_bias = 0.5 * blocks.norm**2 * ratio if blocks.metric == "l2" else 0 * ratio
        addition = TENSOR_CORE_ADDITION if queries.values.is_cuda else ADDITION
        stage_one = (
            queries.moved * blocks.norm
            + queries.rounded_norm * blocks.moved
            + (dim + 8) * addition * (queries.rounded_norm * blocks.rounded_norm + largest_bias)
            + ratio * blocks.spread
            + (dim + 8) * _SMALLEST
        )
        if blocks.metric == "ip":
            stage_two = queries.norm * blocks.norm
            factor, shift = unit, torch.zeros_like(unit)
        else:
            norms = queries.norm / queries.scale[:, 0] + blocks.norm / blocks.scale
            stage_two = norms.square() * unit
            factor = unit / 2
            shift = queries.square / queries.scale[:, 0].square() * factor
        stage_two = (dim + 8) * (ADDITION * stage_two + _SMALLEST * unit)
        size = len(queries.values)
        return cls(
            stage_one,
            stage_two.expand(size),
            (ratio * blocks.offset).expand(size),
            factor.expand(size),
            shift.expand(size),
        )

    def __getitem__(self, rows: Tensor) -> ErrorBound:
        """The bounds of some queries."""
        parts = (self.stage_one, self.stage_two, self.offset, self.factor, self.shift)
        return ErrorBound(*(part[rows] for part in parts))

    def ceiling(self, maxima: Tensor) -> Tensor:
        """Upper bound of stage-2 numbers, for items with at most these stage-1 numbers."""
        return maxima.double() + self.offset + self.stage_one + self.stage_two

    def floor(self, maxima: Tensor) -> Tensor:
        """The least score, as stage 2 gives it, of an item with at least this stage-1 number."""
        low = maxima.double() + self.offset - self.stage_one - self.stage_two
        low = (low - self.shift) / self.factor
        return (low - low.abs() * 2.0**-23).float()

    def in_stage_one(self, scores: Tensor) -> Tensor:
        """Scores of stage 2 in the unit of stage 1."""
        return self.factor * scores.double() + self.shift
