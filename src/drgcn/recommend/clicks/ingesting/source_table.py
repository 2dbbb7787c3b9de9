"""A table on disk, parquet or CSV, in one file or in parts, as DuckDB reads it."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TextIO

from drgcn.errors import InputError
from drgcn.recommend.clicks.ingesting.workshop import Workshop

_DELIMITERS = ",\t;|"
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True)
class SourceTable:
    """A table that DuckDB knows under a name.

    Attributes:
        name: Its name there.
        source: Where it came from, for messages.
        columns: Type of each column, by name.
        is_text: Whether it came from CSV: then every column holds text or NULL.
    """

    name: str
    source: str
    columns: dict[str, str]
    is_text: bool

    @classmethod
    def open(
        cls, shop: Workshop, paths: Paths, name: str, missing: Sequence[str] = ("",)
    ) -> SourceTable:
        """Makes a table known; parquet stays where it is, CSV is taken in once.

        Args:
            shop: Where to make it known.
            paths: A file, a folder of parts, or several of them.
            name: The name it gets.
            missing: Texts in CSV that stand for no value.
        """
        files, is_text = _files(paths)
        source = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
        listed = ", ".join(literal(str(file)) for file in files)
        if is_text:
            header, delimiter = _header(files[0])
            for file in files[1:]:
                if _header(file) != (header, delimiter):
                    raise InputError(f"Expected the columns of {files[0]} in {file} too.")
            columns = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in header)
            empty = ", ".join(map(literal, missing))
            shop.do(
                f"CREATE TABLE {name} AS SELECT * FROM read_csv([{listed}], auto_detect = false, "
                f"header = true, delim = {literal(delimiter)}, quote = '\"', escape = '\"', "
                f"columns = {{{columns}}}, nullstr = [{empty}], allow_quoted_nulls = true)"
            )
        else:
            _check_parquet(files)
            shop.do(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{listed}])")
        described = shop.rows(f"DESCRIBE {name}")
        return cls(name, source, {row[0]: row[1] for row in described}, is_text)

    def require(self, column: str, option: str) -> None:
        """Refuses a table without a column."""
        if column not in self.columns:
            raise InputError(
                f"Expected a column {column!r} in {self.source}; found "
                f"{', '.join(map(repr, self.columns)) or 'none'}. Name it with {option}."
            )


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _files(paths: Paths) -> tuple[list[Path], bool]:
    several = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files: list[Path] = []
    for path in map(Path, several):
        if path.is_dir():
            parts = sorted(part for part in path.iterdir() if _kind(part) is not None)
            if not parts:
                raise InputError(f"Expected parquet or CSV files in {path}; found none.")
            files += parts
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(f"Expected a table at {path}; there is none. Check the path.")
    kinds = {_kind(file) for file in files}
    if kinds not in ({"parquet"}, {"csv"}):
        raise InputError(
            f"Expected tables that are all .parquet or all .csv, .tsv (.gz); found "
            f"{', '.join(sorted({file.name for file in files})[:5])}."
        )
    return files, kinds == {"csv"}


def _kind(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return "parquet"
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return "csv" if suffixes[-1:] in ([".csv"], [".tsv"]) else None


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what stands between them."""
    try:
        with _opened(path) as file:
            line = file.readline().removeprefix("\ufeff")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"Expected UTF-8 text in {path}; {error}.") from None
    if not line.strip():
        raise InputError(f"Expected a line of column names in {path}; it is empty.")
    delimiter = max(_DELIMITERS, key=line.count)
    names = next(csv.reader([line], delimiter=delimiter))
    if len({name.lower() for name in names}) < len(names):
        raise InputError(f"Expected different column names in {path}; found {', '.join(names)}.")
    return names, delimiter


def _opened(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _check_parquet(files: Sequence[Path]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for file in files:
        try:
            parquet.ParquetFile(file).close()
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(
                f"Expected a whole parquet file; {file} is cut off or damaged "
                f"({str(error).partition('.')[0]}). Write it again."
            ) from None
