"""A ``.npy`` file written piece by piece, its length known at the end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy


class NpyStream:
    """Appends one-dimensional pieces to a file that ``np.load`` reads when it is closed.

    Args:
        path: The file.
        dtype: Type of its entries.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("w+b")
        self._write_header()

    def append(self, piece: npt.NDArray[Any]) -> None:
        """Adds entries at the end."""
        self._file.write(np.ascontiguousarray(piece, dtype=self.dtype).data)
        self.length += len(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # NumPy leaves room in the header for a longer first axis: it is written over in place.
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        npy.write_array_header_1_0(self._file, header)
