"""Vectors with their ids as a parquet table that other tools read."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError

_GROUP = 1 << 14  # rows read together: a few megabytes
_WRITTEN = 1 << 18  # rows handed over at a time


def write_vectors(path: Path, ids: Any | None, vectors: Tensor) -> None:
    """Writes columns ``id`` and ``vector``, a list of fixed size.

    Args:
        path: The file.
        ids: The id of each row, a pyarrow array. (default: 0, 1, 2, ...)
        vectors: ``[rows, d]``, float32 or float16.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kind = pa.float16() if vectors.dtype == torch.float16 else pa.float32()
    element = pa.field("element", kind, nullable=False)
    listed = pa.list_(element, vectors.size(1))
    id_kind = pa.int64() if ids is None else ids.type
    schema = pa.schema([
        pa.field("id", id_kind, nullable=False), pa.field("vector", listed, nullable=False)
    ])  # fmt: skip
    # Floats do not compress; ids do.
    packing: dict[str, Any] = {"use_dictionary": False, "compression": {"id": "zstd"}}
    with parquet.ParquetWriter(path, schema, **packing) as writer:
        for begin in range(0, len(vectors), _WRITTEN):
            piece = vectors[begin : begin + _WRITTEN].cpu().contiguous().numpy()
            values = pa.FixedSizeListArray.from_arrays(pa.array(piece.ravel(), kind), type=listed)
            rows = (
                pa.array(np.arange(begin, begin + len(piece), dtype=np.int64))
                if ids is None
                else ids.slice(begin, len(piece))
            )
            writer.write_table(pa.table([rows, values], schema=schema), row_group_size=_GROUP)


class VectorTable:
    """A table of vectors, of which only what is asked for is read.

    Args:
        path: A file that :func:`write_vectors` wrote.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.path = path
        self._held: Tensor | None = None
        try:
            self.file = parquet.ParquetFile(path)
            self.dim = int(self.file.schema_arrow.field("vector").type.list_size)
        except (pa.ArrowInvalid, OSError, KeyError, AttributeError) as error:
            raise InputError(
                f"Expected a whole table of vectors in {path}; {error}. Export again."
            ) from None

    def __len__(self) -> int:
        return int(self.file.metadata.num_rows)

    @cached_property
    def ids(self) -> Any:
        """The id of each row, a pyarrow array."""
        return self.file.read(columns=["id"])["id"].combine_chunks()

    def vectors(self) -> Tensor:
        """All vectors, in the type they are stored in."""
        return self._read(range(self.file.num_row_groups))

    def hold(self) -> None:
        """Keeps all vectors in memory from now on: for who asks for few of them, and often."""
        self._held = self.vectors()

    def rows(self, index: Tensor) -> Tensor:
        """The vectors of some rows, as 32-bit floats; whole groups are read for them."""
        if self._held is not None:
            return self._held[index].float()
        group = torch.searchsorted(self._ends, index, right=True)
        needed, place = group.unique(return_inverse=True)
        sizes = self._ends.diff(prepend=self._ends.new_zeros(1))
        within = index - (self._ends - sizes)[group]
        before = sizes[needed].cumsum(0) - sizes[needed]
        return self._read(needed.tolist())[before[place] + within].float()

    @cached_property
    def _ends(self) -> Tensor:
        facts = self.file.metadata
        sizes = [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]
        return torch.tensor(sizes, dtype=torch.int64).cumsum(0)

    def _read(self, groups: Any) -> Tensor:
        column = self.file.read_row_groups(list(groups), columns=["vector"])["vector"]
        pieces = [chunk.flatten().to_numpy().reshape(-1, self.dim) for chunk in column.chunks]
        # A copy, since arrow's memory must not be written to.
        return torch.from_numpy(np.concatenate([*pieces, np.empty((0, self.dim), _first(pieces))]))


def _first(pieces: list[Any]) -> Any:
    return pieces[0].dtype if pieces else np.float32
