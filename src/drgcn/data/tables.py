"""Graphs as a folder with a table of nodes and a table of edges, CSV or Parquet."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn._io import file_digest
from drgcn.data.checks import Columns, Parts, from_texts, masks_from_words, with_values
from drgcn.data.readers import require_memory
from drgcn.errors import InputError, warn
from drgcn.records import expect_types, load_sealed

_NOT_FEATURES: Final = ("id", "label", "split")
# Names that others give to the column of classes.
_LABELS: Final = ("y", "class", "target", "labels", "category")
_NUMBER: Final = re.compile(r"[-+]?\d+\.?\d*(e[-+]?\d+)?", re.IGNORECASE)
#: Account of a refined dataset, with a digest of each of its files.
ACCOUNT: Final = "refined.json"
# A row must fit into a block, and a row can have many thousand columns.
_BLOCK: Final = 1 << 24
_NO_COLUMNS: Final = Columns()
# Columns that a warning names.
_FEW: Final = 8


def read_folder(folder: Path, columns: Columns = _NO_COLUMNS) -> Parts:
    """Read ``nodes.csv`` and ``edges.csv`` (or ``.parquet``) of a folder.

    ``nodes`` has a column ``id``, any number of numeric feature columns, and if known ``label``
    (numbers or words, empty where unknown) and ``split`` (train, val, test or empty); columns of
    words alone are left out with a warning. ``edges`` has ``source`` and ``target``, which are
    ids; either direction, or both, may be listed. If it has ``weight``, edges have weights. The
    column ``columns.target`` holds measured values to predict, ``columns.identity`` what thing a
    node is (both empty where unknown); neither is a feature.
    """
    target, identity = columns.target, columns.identity
    _expect_as_refined(folder)
    nodes = _Table(_find_table(folder, "nodes", "id, feature columns, label, split"))
    features = _feature_columns(nodes, columns)
    ids = _ids(nodes)
    x = _features(nodes, features)
    labelled = "label" in nodes.names and target is None
    words = nodes.text("label").to_pylist() if labelled else [""] * nodes.rows
    y, class_names = from_texts(words, str(nodes.path))
    known = ids.to_pylist()
    splits = {}
    if "split" in nodes.names:
        parts = nodes.text("split").to_pylist()
        # A column of empty cells is the same as no column.
        if any(parts):
            splits["given"] = masks_from_words(parts, str(nodes.path), known)
    edges = _Table(_find_table(folder, "edges", "source, target, weight (if there are any)"))
    found = Parts(
        source=str(nodes.path),
        x=x,
        pairs=_pairs(edges, ids),
        y=y,
        class_names=class_names,
        splits=splits,
        ids=known,
        weight=edges.numbers("weight") if "weight" in edges.names else None,
        edge_source=str(edges.path),
        identity=None
        if identity is None
        else np.array(nodes.text(identity).to_pylist(), dtype=np.str_),
    )
    return found if target is None else with_values(found, nodes.values(target), target)


def _feature_columns(nodes: _Table, columns: Columns) -> list[str]:
    """Return the names of the feature columns of a table of nodes, which has some, and rows;
    columns without a number are left out with a warning."""
    nodes.require("id")
    nodes.require(*(name for _, name in columns.named))
    if columns.identity is not None and columns.identity in (*_NOT_FEATURES, columns.target):
        raise InputError(
            f"{nodes.path}: expected a column of its own that says what thing a node is; found "
            f"{columns.identity!r}, which has another meaning. Name another."
        )
    _refuse_misspelt(nodes, columns)
    if not nodes.rows:
        raise InputError(f"{nodes.path} has a header but no rows: write one row per node")
    others = (*_NOT_FEATURES, columns.target, columns.identity)
    names = [name for name in nodes.names if name not in others]
    words = {name: first for name in names if (first := nodes.words_alone(name)) is not None}
    features = [name for name in names if name not in words]
    if not features:
        raise InputError(
            f"{nodes.path} has no feature columns: add at least one numeric column beside "
            f"{', '.join(nodes.names)}"
        )
    if words:
        found = [f"{n} ({repr(w) if w else 'empty'})" for n, w in list(words.items())[:_FEW]]
        found += [f"{len(words) - _FEW:,} more"] if len(words) > _FEW else []
        warn(f"{nodes.path}: left out of the features, as no cell is a number: {', '.join(found)}")
    for name in features:
        if name.strip().lower() in _LABELS[1:]:
            warn(
                f"{nodes.path}: the column {name!r} is taken for a feature, 'label' for the class"
            )
        if name.startswith("Unnamed:"):
            warn(
                f"{nodes.path}: the column {name!r}, which looks like row numbers, is taken for "
                "a feature"
            )
    return features


def _features(nodes: _Table, names: list[str]) -> npt.NDArray[np.float32]:
    x = np.empty((nodes.rows, len(names)), dtype=np.float32)
    for column, name in enumerate(names):
        try:
            x[:, column] = nodes.numbers(name)
        except InputError as error:
            raise InputError(f"{error}{_also_wrong(nodes, names[column + 1 :])}") from None
    return x


def _also_wrong(nodes: _Table, names: list[str]) -> str:
    """Name the columns that cannot be read either: one message for all, not one a column."""
    wrong = []
    for name in names:
        try:
            nodes.numbers(name)
        except InputError:
            wrong.append(name)
    return f" (so in the columns {', '.join(wrong)})" if wrong else ""


def _expect_as_refined(folder: Path) -> None:
    """Refuse a folder of ``drgcn refine`` with other files than were written."""
    path = folder / ACCOUNT
    if not path.is_file():
        return
    try:
        files = load_sealed(path).get("files", {})  # which earlier versions did not list
        expect_types({"files": dict[str, str]}, {"files": files}, "it")
        for name, digest in files.items():
            if Path(name).name != name or file_digest(folder / name) != digest:
                raise ValueError(f"{name} is not what was written")
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {folder} as `drgcn refine` wrote it; found otherwise ({error}). Refine "
            f"again, or remove {ACCOUNT} if the tables were changed on purpose."
        ) from None


def _refuse_misspelt(nodes: _Table, columns: Columns) -> None:
    """Refuse columns such as ``Split`` or ``class``, which would be taken for features."""
    target = columns.target
    for name in nodes.names:
        if name in (target, columns.identity):
            continue
        meant = name.strip().lower()
        if meant in _NOT_FEATURES and name != meant:
            raise InputError(
                f"{nodes.path} has a column {name!r}: write {meant!r} if that is what it holds, "
                "or rename it if it is a feature"
            )
        if meant in _LABELS and "label" not in nodes.names and target is None:
            raise InputError(
                f"{nodes.path}: expected the classes in a column 'label'; found none, but a "
                f"column {name!r}. Name it 'label' if it holds the classes, say --target {name} "
                f"if it holds measured values to predict, else name it otherwise."
            )


def _find_table(folder: Path, stem: str, columns: str) -> Path:
    found = [
        path for path in (folder / f"{stem}.csv", folder / f"{stem}.parquet") if path.is_file()
    ]
    if not found:
        raise InputError(
            f"{folder} has no {stem}.csv or {stem}.parquet: write one with the columns {columns}"
        )
    if len(found) > 1:
        raise InputError(
            f"{folder} has both {found[0].name} and {found[1].name}: keep one of them"
        )
    return found[0]


def _ids(nodes: _Table) -> Any:
    import pyarrow.compute as pc

    ids = nodes.text("id")
    empty = pc.index(ids, "").as_py()
    if empty >= 0:
        raise InputError(f"{nodes.path}: {nodes.place(empty)} has no id: give every node one")
    if pc.count_distinct(ids).as_py() < nodes.rows:
        seen: dict[str, int] = {}
        for row, name in enumerate(ids.to_pylist()):
            if name in seen:
                raise InputError(
                    f"{nodes.path}: the id {name!r} is in {nodes.place(seen[name])} and again in "
                    f"{nodes.place(row)}: ids must be unique"
                )
            seen[name] = row
    return ids


def _pairs(edges: _Table, ids: Any) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc

    edges.require("source", "target")
    unused = [name for name in edges.names if name not in ("source", "target", "weight")]
    if unused:
        hint = "" if "weight" in edges.names else "; weights of edges would be named 'weight'"
        warn(f"{edges.path}: the columns {', '.join(unused)} are not used{hint}")
    if not edges.rows:
        warn(f"{edges.path} lists no edges")
    ends = []
    for column in ("source", "target"):
        names = edges.text(column)
        places = pc.index_in(names, value_set=ids)
        if places.null_count:
            row = int(places.is_null().to_numpy(zero_copy_only=False).argmax())
            raise InputError(
                f"{edges.path}: {edges.place(row)} has the {column} {names[row].as_py()!r}, but "
                "no node has this id: add the node or remove the edge"
            )
        ends.append(places.to_numpy(zero_copy_only=False).astype(np.int64))
    return np.stack(ends)


class _Table:
    """Columns of a table, checked when they are asked for.

    Args:
        path: A ``.csv`` file (comma, UTF-8, one header line) or a ``.parquet`` file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
        self.names: list[str] = list(self._columns.column_names)
        self.rows: int = self._columns.num_rows
        for name in self.names:
            if not name.strip() or name == "__index_level_0__":
                raise InputError(
                    f"{path}: column {self.names.index(name) + 1} has no name, as when a table is "
                    "saved with its row index: save it without (index=False)"
                )
            if self.names.count(name) > 1:
                raise InputError(f"{path}: the column {name!r} is there twice: keep one")

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, in words for messages."""
        return _place(self.path, row)

    def text(self, name: str) -> Any:
        """Return a column as pyarrow strings without outer blanks; empty cells are ``""``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(name)
        if pa.types.is_floating(column.type):
            # Whole numbers with gaps are often stored as floats: 7.0 is meant to be 7.
            floats = column.to_numpy().astype(np.float64)
            gaps = np.isnan(floats)
            if (np.floor(floats[~gaps]) == floats[~gaps]).all():
                self._require_exact(name, floats, column.type)
                whole = np.where(gaps, 0, floats).astype(np.int64)
                column = pa.chunked_array([pa.array(whole, mask=gaps)])
        try:
            words = column.cast(pa.string())
        except pa.ArrowException:
            raise InputError(
                f"{self.path}: the column {name!r} must hold words or whole numbers, not "
                f"{column.type}"
            ) from None
        return pc.utf8_trim_whitespace(pc.fill_null(words, "")).combine_chunks()

    def _require_exact(self, name: str, floats: npt.NDArray[np.float64], kind: Any) -> None:
        """Refuse floats so large that several whole numbers share one of them."""
        largest = 1 << {16: 11, 32: 24, 64: 53}[kind.bit_width]
        wrong = np.flatnonzero(np.abs(floats) >= largest)
        if len(wrong):
            raise InputError(
                f"{self.path}: {self.place(wrong[0])} has {floats[wrong[0]]:.0f} in the column "
                f"{name!r}, which as {kind} may have been another whole number: save the column "
                "as whole numbers or as text"
            )

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column as finite numbers."""
        import pyarrow as pa

        column = self._column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise InputError(
                f"{self.path}: {self.place(row)} has no value in the column {name!r}: fill it"
            )
        words = self.text(name) if _is_text(column.type) else column.combine_chunks()
        try:
            values = words.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowException:
            if not _is_text(column.type):
                raise InputError(
                    f"{self.path}: the column {name!r} must hold numbers, not {column.type}: drop "
                    "it if it is no feature"
                ) from None
            values = self._floats(name, words.to_pylist())
        with np.errstate(over="ignore"):
            wrong = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
        if len(wrong):
            raise InputError(
                f"{self.path}: {self.place(wrong[0])} has {values[wrong[0]]} in the column "
                f"{name!r}, which is not a finite float32 number: replace it"
            )
        return values

    def values(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column as numbers, NaN where a cell is empty."""
        return self._floats(name, [word or "nan" for word in self.text(name).to_pylist()])

    def words_alone(self, name: str) -> str | None:
        """Return the first word of a column of text, or of days and times, without any number."""
        import pyarrow as pa

        column, first = self._column(name), ""
        if not (_is_text(column.type) or pa.types.is_temporal(column.type)):
            return None
        for cell in column:
            word = str(cell.as_py() or "").strip()
            with suppress(ValueError):
                _number(word)
                return None
            first = first or word
        return first

    def require(self, *names: str) -> None:
        """Refuse a table without one of these columns."""
        for name in names:
            if name not in self.names:
                raise InputError(
                    f"{self.path} needs a column {name!r}, but its columns are "
                    f"{', '.join(self.names[:8])}{', ...' if len(self.names) > 8 else ''}"
                )

    def _column(self, name: str) -> Any:
        import pyarrow as pa

        column = self._columns.column(name)
        return (
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        )

    def _floats(self, name: str, words: list[str]) -> npt.NDArray[np.float64]:
        """Parse word by word: Arrow does not know forms such as +1.5, nor which cell is wrong."""
        values = np.empty(len(words))
        for row, word in enumerate(words):
            try:
                values[row] = _number(word)
            except ValueError:
                found = repr(word) if word else "an empty cell"
                raise InputError(
                    f"{self.path}: {self.place(row)} has {found} in the column {name!r}, which "
                    "must hold numbers: correct it, or drop the column if it is no feature"
                ) from None
        return values


def _is_text(kind: Any) -> bool:
    """Return whether a type of Arrow is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _number(word: str) -> float:
    if not word.isascii() or "_" in word:
        raise ValueError("digits that only Python reads as a number")
    return float(word)


def _place(path: Path, row: int) -> str:
    """Return the line of a CSV file at which a row begins, as an editor counts; of another table
    the row, counted from 1."""
    if path.suffix == ".csv":
        with suppress(csv.Error), path.open(newline="", encoding="utf-8-sig") as file:
            reader, rows, begin = csv.reader(file), -1, 1
            for cells in reader:
                rows += bool(cells)  # lines without anything are no rows
                if rows == row + 1:
                    return f"line {begin}"
                begin = reader.line_num + 1
    return f"row {row + 1}"


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = _header(path)
    broken: list[Any] = []

    def set_aside(row: Any) -> str:
        broken.append(row)
        return "skip"

    try:
        table = arrow_csv.read_csv(
            path,
            # Row numbers are known only when rows are read in order.
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=set_aside),
            # Everything is text first: ids such as 007 stay as they are.
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise InputError(
            f"{path} is not a CSV file in UTF-8 with commas ({_first_line(error)})"
        ) from None
    if broken:
        row = broken[0]
        # Arrow counts the header as row 1.
        raise InputError(
            f"{path}: {_place(path, row.number - 2)} has {row.actual_columns} cells, but the "
            f"header has {row.expected_columns}: the row is cut off, or a comma is missing or too "
            f"many"
        )
    return table


def _header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), [])
            # Arrow stumbles over a broken row that is no text either: see to the end first.
            while file.read(_BLOCK):
                pass
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} is not a text file in UTF-8: save it as CSV in UTF-8") from None
    if not any(name.strip() for name in header):
        raise InputError(f"{path} is empty: its first line must name the columns")
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(header) == 1 and mark in header[0]:
            raise InputError(f"{path} has {word} between its columns: save it with commas")
    if all(_NUMBER.fullmatch(name.strip()) for name in header):
        raise InputError(
            f"{path}: expected the names of the columns in the first line; found the numbers "
            f"{', '.join(header[:4])}. Write a line of names above them."
        )
    return header


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        _require_table(file.metadata, path)
        table = file.read()
        table.validate(full=True)  # reading alone lets bytes that are not UTF-8 pass as text
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{path} is damaged or no Parquet file ({_first_line(error)}): save it again"
        ) from None
    return table


def _require_table(metadata: Any, path: Path) -> None:
    """Refuse a table that takes more memory than there is; a few bytes can repeat for ever."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    require_memory(unpacked + 8 * metadata.num_rows * metadata.num_columns, path)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
