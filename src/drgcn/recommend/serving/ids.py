"""Ids of any kind as rows and back, lists of users to serve, and tables of what they get."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn._format import plural
from drgcn._io import replacing
from drgcn.errors import InputError
from drgcn.recommend.retrieval.ranking import TopItems

_FEW = 1 << 12  # ids up to which looking one by one is cheaper than a hash table of all
_WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
_LONG = r"[0-9]{19}"  # may be more than 64 bits hold
_Rows = npt.NDArray[np.int64]
_NAMED = 5


class IdLookup:
    """The rows of ids.

    Args:
        ids: The id of each row, a pyarrow array of whole numbers or texts, each once.
    """

    def __init__(self, ids: Any) -> None:
        import pyarrow as pa

        self.array = ids
        self.whole = pa.types.is_integer(ids.type)

    def __len__(self) -> int:
        return len(self.array)

    def rows(self, wanted: Any) -> _Rows:
        """The row of each id, -1 for an id that is not there.

        Args:
            wanted: Ids as a pyarrow array or a list; numbers and texts mean the same if they are
                written alike.
        """
        if self.whole and isinstance(wanted, Sequence):
            numbers = [_whole(value) for value in wanted]
            valid = np.array([number is not None for number in numbers], dtype=bool)
            return self._search(np.array([number or 0 for number in numbers], np.int64), valid)
        found = self._as_kind(wanted)
        if self.whole:
            return self._search(np.asarray(found.fill_null(0)), np.asarray(found.is_valid()))
        if len(found) > _FEW:
            import pyarrow.compute as pc

            places = pc.index_in(found, value_set=self.array)
            return np.asarray(places.fill_null(-1)).astype(np.int64)
        return np.array([self._row(text) for text in found.to_pylist()], dtype=np.int64)

    def ids(self, rows: _Rows) -> Any:
        """The ids of rows, a pyarrow array."""
        import pyarrow as pa

        return self.array.take(pa.array(rows))

    def listed(self, rows: _Rows) -> list[Any]:
        """The ids of a few rows, plain numbers or texts."""
        return self._numbers[rows].tolist() if self.whole else self.ids(rows).to_pylist()

    @cached_property
    def _order(self) -> _Rows | None:
        """Rows by ascending id; ``None`` if they are in that order."""
        import pyarrow.compute as pc

        ids = self.array
        if len(ids) < 2 or pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py():
            return None
        return np.asarray(pc.array_sort_indices(ids)).astype(np.int64)

    @cached_property
    def _numbers(self) -> _Rows:
        return np.asarray(self.array).astype(np.int64, copy=False)

    @cached_property
    def _sorted(self) -> _Rows:
        return self._numbers if self._order is None else self._numbers[self._order]

    def _search(self, numbers: _Rows, valid: npt.NDArray[np.bool_]) -> _Rows:
        if not len(self.array):
            return np.full(len(numbers), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._sorted, numbers), len(self.array) - 1)
        there = valid & (self._sorted[place] == numbers)
        row = place if self._order is None else self._order[place]
        return np.where(there, row, -1).astype(np.int64)

    def _row(self, text: str) -> int:
        order = self._order
        size, wanted = len(self.array), text.encode()

        def at(place: int) -> bytes:
            row = place if order is None else int(order[place])
            return str(self.array[row].as_py()).encode()

        # Arrow and DuckDB both order texts byte by byte.
        place = bisect_left(range(size), wanted, key=at)
        if place == size or at(place) != wanted:
            return -1
        return place if order is None else int(order[place])

    def _as_kind(self, wanted: Any) -> Any:
        """Ids in the type of the lookup; null where they cannot be."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(wanted, Sequence):
            wanted = as_texts(wanted)
        if isinstance(wanted, pa.ChunkedArray):
            wanted = wanted.combine_chunks()
        if pa.types.is_dictionary(wanted.type):
            wanted = wanted.dictionary_decode()
        number = pa.types.is_integer(wanted.type)
        text = pa.types.is_string(wanted.type) or pa.types.is_large_string(wanted.type)
        if not number and not text:
            raise InputError(
                f"Expected ids that are whole numbers or text; found {wanted.type}. Cast them."
            )
        if wanted.null_count:
            raise InputError(
                f"Expected an id in every row; {wanted.null_count:,} of {len(wanted):,} have none."
            )
        if not self.whole:
            return wanted.cast(self.array.type)
        if number:
            return wanted.cast(pa.int64(), safe=not pa.types.is_uint64(wanted.type))
        if pc.any(pc.match_substring_regex(wanted, _LONG)).as_py():
            return pa.array([_whole(text) for text in wanted.to_pylist()], pa.int64())
        fits = pc.match_substring_regex(wanted, _WHOLE)
        return pc.if_else(fits, wanted, pa.scalar(None, wanted.type)).cast(pa.int64())


def _whole(value: Any) -> int | None:
    """A number of 64 bits, or a text that is written like one; ``None`` for others."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch(_WHOLE, value) else None
    fits = type(value) is int and -(2**63) <= value < 2**63
    return value if fits else None


def as_texts(values: Sequence[Any], what: str = "ids") -> Any:
    """Values as a pyarrow array of texts; ``what`` is what a message calls them."""
    import pyarrow as pa

    try:
        return pa.array([str(value) for value in values], pa.large_string())
    except UnicodeEncodeError as error:
        raise InputError(
            f"Expected {what} that are text; found {error.object!r}, with half a character."
        ) from None


def read_ids(path: Path, column: str | None = None) -> Any:
    """A column of ids from a parquet or CSV file.

    Args:
        path: The file; CSV with a line of names.
        column: Name of the column. (default: ``user``, ``id``, or the only one)
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            names = parquet.ParquetFile(path).schema_arrow.names
            column = _column(names, column, path)
            found = parquet.read_table(path, columns=[column])[column]
            found.validate(full=True)
        elif path.suffix.lower() in (".csv", ".tsv"):
            parsing = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            with csv.open_csv(path, parse_options=parsing) as reader:
                names = reader.schema.names
            column = _column(names, column, path)
            # As text: 007 is not 7, and an empty field is no id.
            converting = csv.ConvertOptions(
                include_columns=[column],
                column_types={column: pa.large_string()},
                strings_can_be_null=True,
                null_values=[""],
            )
            found = csv.read_csv(path, parse_options=parsing, convert_options=converting)[column]
        else:
            raise InputError(f"Expected ids in .parquet, .csv or .tsv; found {path.name}.")
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition(". ")[0]
        raise InputError(
            f"Expected a whole table of ids in {path}; it is missing, cut off or damaged "
            f"({reason})."
        ) from None
    if not len(found):
        raise InputError(f"Expected at least one id in {path}; it has no rows.")
    return found


def known_rows(
    lookup: IdLookup,
    ids: Any,
    skip_unknown: bool = False,
    option: str = "skip_unknown",
    what: str = "users",
) -> tuple[Tensor, int]:
    """The rows of ids, and how many unknown ids were left out.

    Args:
        lookup: The ids that are known.
        ids: The ids wanted, a list or a pyarrow array.
        skip_unknown: Leave out unknown ids instead of refusing them.
        option: What the caller calls that, for the message.
        what: What has these ids, for the message.
    """
    rows = lookup.rows(ids)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown) and not skip_unknown:
        named = [repr(_plain(ids[int(place)])) for place in unknown[:_NAMED]]
        more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        raise InputError(
            f"Expected ids of {what} that the export knows; found "
            f"{plural(len(unknown), 'other')}: {', '.join(named)}{more}. Correct them, "
            f"or skip them ({option})."
        )
    return torch.from_numpy(rows[rows >= 0]), len(unknown)


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value


def _column(names: Sequence[str], wanted: str | None, path: Path) -> str:
    if wanted is not None:
        if wanted in names:
            return wanted
    elif "user" in names or "id" in names:
        return "user" if "user" in names else "id"
    elif len(names) == 1:
        return names[0]
    raise InputError(
        f"Expected a column {wanted or 'user'!r} in {path}; found {', '.join(names)}. Name it "
        f"with --column."
    )


def list_table(owners: Any, items: IdLookup, top: TopItems, owner: str = "user") -> Any:
    """Columns ``user``, ``rank`` (from 1), ``item`` and ``score``, with the ids of the data.

    Lists that say so have a column ``fallback`` too.

    Args:
        owners: The id of each list, a pyarrow array.
        items: Ids of items.
        top: The lists.
        owner: Name of the first column.
    """
    import pyarrow as pa

    found = top.items.numpy()
    real = found >= 0
    row, place = np.nonzero(real)
    table = pa.table({
        owner: owners.take(pa.array(row)),
        "rank": pa.array((place + 1).astype(np.int32)),
        "similar" if owner == "item" else "item": items.ids(found[real]),
        "score": pa.array(top.scores.numpy()[real]),
    })  # fmt: skip
    fallback = getattr(top, "fallback", None)
    return table if fallback is None else table.append_column("fallback", [fallback.numpy()[row]])


class ListWriter:
    """Takes tables of lists one after another."""

    def __init__(self, path: Path, final: Path) -> None:
        self.path, self.is_csv = path, final.suffix.lower() == ".csv"
        self.writer: Any = None
        self.rows = 0

    def add(self, table: Any) -> None:
        """Write a table."""
        if self.writer is None:
            from pyarrow import csv, parquet

            kind = csv.CSVWriter if self.is_csv else parquet.ParquetWriter
            self.writer = kind(self.path, table.schema)
        self.writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """End the file."""
        if self.writer is not None:
            self.writer.close()


@contextmanager
def list_writer(path: Path) -> Iterator[ListWriter]:
    """A writer to a .parquet or .csv file that is there as a whole or not at all."""
    if path.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InputError(f"Expected --out to end in .parquet or .csv; found {path.name}.")
    with replacing(path) as partial, closing(ListWriter(partial, path)) as writer:
        yield writer
