"""How items are cut into blocks, and how the kernel of the first stage is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.errors import InputError

NARROWEST = 16  #: columns that a tensor core takes at least
WIDEST = 256  #: columns of the widest vectors that the kernel takes


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
        """What serves well for vectors of this width.

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
