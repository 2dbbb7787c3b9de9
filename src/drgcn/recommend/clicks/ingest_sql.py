"""Tables on disk as DuckDB reads them, under a memory limit, and rows that are left out."""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any, Final

from drgcn._format import plural
from drgcn._io import DISK_FULL
from drgcn.errors import InputError, how_to_install

TIME_UNITS: Final = ("auto", "day", "second", "millisecond", "microsecond", "nanosecond", "date")
_SHARE = 0.5
_BATCH = 2**20
_DELIMITERS = ",\t;|"
_LONGEST_HEADER = 1 << 16  # bytes; the csv module takes fields of twice that
_PIECE = 1 << 20
_MOST_PACKED = 100  # bytes of text in one of a .gz file, once there are more than the next
_UNPACKED = 1 << 30
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True)
class IngestSettings:
    """Names of columns, meaning of times, kinds of attributes, and what the work may use.

    Attributes:
        user: Column of users in the table of clicks.
        item: Column of items.
        time: Column of times; ``None`` for clicks without days.
        user_key: Column of ids in the table of user attributes. (default: as ``user``)
        item_key: Column of ids in the table of item attributes. (default: as ``item``)
        time_unit: What a number in the time column counts since 1970, or ``"date"`` for dates and
            times in words. ``"auto"`` goes by size: numbers below 1e5 are days as they are, below
            1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds. If
            all read as dates without hyphens, such as 20240531, they are dates.
        day_zero: The day that is called 0, in UTC. (default: that of the first click; days given
            as days are kept as they are)
        numeric: Attributes that are numbers whatever they look like.
        category: Attributes that are categories whatever they look like.
        ignore: Attributes to leave out.
        several: Attributes with several values in one text, or lists; each value becomes a column
            of zeros and ones.
        separator: Text between the values of these.
        rating: Column of ratings in the table of clicks. (default: every row is a click)
        min_rating: The least rating that is a click.
        core: Keep only users and items with at least so many clicks among those that are kept,
            the k-core. (default: 0, all)
        missing: Texts in CSV files that stand for no value.
        memory: What DuckDB may hold in memory, such as ``"4GB"``; the rest is spilled to disk.
            (default: half of the machine's)
        threads: Threads. (default: all)
    """

    user: str = "user"
    item: str = "item"
    time: str | None = "time"
    user_key: str | None = None
    item_key: str | None = None
    time_unit: str = "auto"
    day_zero: date | None = None
    numeric: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    separator: str = "|"
    rating: str | None = None
    min_rating: float | None = None
    core: int = 0
    missing: tuple[str, ...] = ("",)
    memory: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.time_unit not in TIME_UNITS:
            raise InputError(
                f"Expected a time unit of {', '.join(TIME_UNITS)}; found {self.time_unit!r}."
            )
        if self.memory is not None and not re.fullmatch(
            r"\d{1,9}(\.\d{1,9})?\s*[KMGT]i?B", self.memory, re.IGNORECASE | re.ASCII
        ):
            raise InputError(f"Expected memory such as 4GB or 500MB; found {self.memory!r}.")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"Expected at least one thread; found {self.threads}.")
        named = [self.user, self.item, *([] if self.time is None else [self.time])]
        if len(set(named)) < len(named):
            raise InputError(f"Expected different columns for user, item and time; found {named}.")
        kinds = [*set(self.numeric), *set(self.category), *set(self.several)]
        if both := {name for name in kinds if kinds.count(name) > 1}:
            raise InputError(
                f"Expected each attribute to be a number, a category or several; found more than "
                f"one for {', '.join(sorted(both))}."
            )
        if (self.rating is None) != (self.min_rating is None):
            raise InputError(
                f"Expected the column of ratings and the least one together; found "
                f"{self.rating!r} and {self.min_rating}."
            )
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise InputError(f"Expected a finite least rating; found {self.min_rating}.")
        if self.core < 0 or not self.separator:
            raise InputError(
                f"Expected a core from 0 on and a separator of at least one character; found "
                f"{self.core} and {self.separator!r}."
            )


def default_memory() -> str:
    """Half of the machine's memory, or of what its control group allows, for DuckDB."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max", or no control groups
        limit = min(limit, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{int(limit * _SHARE / 2**20)}MiB"


class DuckDBSession:
    """A connection to DuckDB: run statements, fetch rows and batches of rows.

    Args:
        connection: A connection of DuckDB.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, sql: str) -> None:
        """Run a statement."""
        self.connection.execute(sql)

    def row(self, sql: str) -> tuple[Any, ...]:
        """Return the only row of an answer."""
        # Fetched to its end: DuckDB starts nothing else before that.
        (row,) = self.connection.execute(sql).fetchall()
        return row

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a short answer."""
        return self.connection.execute(sql).fetchall()

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield a long answer as record batches of pyarrow, one at a time."""
        relation = self.connection.sql(sql)
        # Named otherwise before DuckDB 2.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from read(_BATCH)


@contextmanager
def duckdb_session(
    folder: Path, memory: str | None, threads: int | None
) -> Iterator[DuckDBSession]:
    """Open a session whose tables and spilled memory lie in a new folder, removed at the end.

    Whatever DuckDB has to say comes as an :class:`InputError` of one sentence, but for a full
    disk, which is the system's.
    """
    try:
        import duckdb
    except ImportError:
        raise InputError(
            f"Expected DuckDB to read tables of clicks; found none. {how_to_install('recommend')}"
        ) from None
    memory = memory or default_memory()
    folder.mkdir()
    config: dict[str, Any] = {
        "memory_limit": memory,
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": False,  # rows are sorted where their order matters
        "autoinstall_known_extensions": False,  # never reach for the network
    }
    if threads is not None:
        config["threads"] = threads
    try:
        with duckdb.connect(str(folder / "tables.duckdb"), config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            yield DuckDBSession(connection)
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"Expected the work to fit {memory} of memory and the free disk beside the result; "
            f"DuckDB says: {_first_line(error)} Give more with --memory, or use fewer --threads."
        ) from None
    except duckdb.Error as error:
        for number in DISK_FULL:
            if os.strerror(number) in str(error):
                raise OSError(number, os.strerror(number)) from None
        raise InputError(f"The tables cannot be read: {_first_line(error)}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


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
        cls, session: DuckDBSession, paths: Paths, name: str, missing: Sequence[str] = ("",)
    ) -> SourceTable:
        """Make a table known; parquet stays where it is, CSV is taken in once.

        Args:
            session: Where to make it known.
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
            session.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_csv([{listed}], auto_detect = false, "
                f"header = true, delim = {literal(delimiter)}, quote = '\"', escape = '\"', "
                f"columns = {{{columns}}}, nullstr = [{empty}], allow_quoted_nulls = true)"
            )
        else:
            _check_parquet(files)
            session.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{listed}])")
        described = session.rows(f"DESCRIBE {name}")
        return cls(name, source, {row[0]: row[1] for row in described}, is_text)

    def require(self, column: str, option: str) -> None:
        """Refuse a table without a column."""
        if column not in self.columns:
            raise InputError(
                f"Expected a column {column!r} in {self.source}; found "
                f"{', '.join(map(repr, self.columns)) or 'none'}. Name it with {option}."
            )


#: For ``"user"`` and ``"item"`` the table of attributes and its column of ids, if there is one.
Attributes = dict[str, tuple[SourceTable, str] | None]


@dataclass(frozen=True)
class LeftOut:
    """Rows of the table of clicks that became none.

    Attributes:
        rating: Column of ratings; empty if none was asked for.
        min_rating: The least rating that is a click.
        below: Rows below it.
        core: Clicks that each user and item has at least among those kept; 0 if not asked for.
        events: Rows outside the core.
        users: Users outside the core.
        items: Items outside it.
    """

    rating: str = ""
    min_rating: float | None = None
    below: int = 0
    core: int = 0
    events: int = 0
    users: int = 0
    items: int = 0

    def lines(self) -> Iterator[str]:
        """The report as sentences."""
        if self.rating:
            yield (
                f"{plural(self.below, 'event')} with {self.rating} below {self.min_rating:g} "
                f"left out"
            )
        if self.core:
            yield (
                f"{self.core}-core: {plural(self.events, 'event')}, {plural(self.users, 'user')} "
                f"and {plural(self.items, 'item')} left out, so that each of the others has "
                f"{plural(self.core, 'click')}"
            )


def keep_rated(
    session: DuckDBSession, events: SourceTable, settings: IngestSettings
) -> tuple[SourceTable, LeftOut]:
    """Leave out rows below the least rating."""
    assert settings.rating is not None
    value = number_sql(settings.rating, events.columns[settings.rating])
    unreadable, below, kept = session.row(
        f"SELECT count(*) FILTER ({value} IS NULL OR NOT isfinite({value})), "
        f"count(*) FILTER ({value} < {settings.min_rating}), "
        f"count(*) FILTER ({value} >= {settings.min_rating}) FROM {events.name}"
    )
    if unreadable or not kept:
        raise InputError(
            f"Expected a number in every row of {settings.rating!r} in {events.source}, and some "
            f"from {settings.min_rating:g} on; found {unreadable:,} rows without one and {kept:,} "
            f"such ratings."
        )
    session.execute(
        f"CREATE VIEW rated AS SELECT * FROM {events.name} WHERE {value} >= {settings.min_rating}"
    )
    return replace(events, name="rated"), LeftOut(settings.rating, settings.min_rating, below)


def keep_core(
    session: DuckDBSession,
    events: SourceTable,
    tables: Attributes,
    settings: IngestSettings,
    left_out: LeftOut,
) -> tuple[SourceTable, LeftOut]:
    """Leave out users and items with few clicks until none is left; attributes go with them."""
    texts = {side: f"CAST({quoted(getattr(settings, side))} AS VARCHAR)" for side in tables}
    session.execute(
        f"CREATE TABLE core AS SELECT DISTINCT {texts['user']} AS user_id, "
        f"{texts['item']} AS item_id FROM {events.name}"
    )
    sizes = "SELECT count(*), count(DISTINCT user_id), count(DISTINCT item_id) FROM core"
    before = now = session.row(sizes)
    while True:
        for side in tables:
            session.execute(
                f"DELETE FROM core WHERE {side}_id IN (SELECT {side}_id FROM core "
                f"GROUP BY {side}_id HAVING count(*) < {settings.core})"
            )
        if (then := session.row(sizes)) == now:
            break
        now = then
    if not now[0]:
        raise InputError(
            f"Expected users and items with {settings.core} clicks each among themselves in "
            f"{events.source}; found none. Give a smaller --core."
        )
    (count,) = session.row(f"SELECT count(*) FROM {events.name}")
    kept = " AND ".join(f"{texts[side]} IN (SELECT {side}_id FROM core)" for side in tables)
    session.execute(f"CREATE VIEW in_core AS SELECT * FROM {events.name} WHERE {kept}")
    (inside,) = session.row("SELECT count(*) FROM in_core")
    for side, own in tables.items():
        if own is not None:
            table, key = own
            session.execute(
                f"CREATE VIEW {table.name}_in_core AS SELECT * FROM {table.name} "
                f"WHERE CAST({quoted(key)} AS VARCHAR) IN (SELECT {side}_id FROM core)"
            )
            tables[side] = (replace(table, name=f"{table.name}_in_core"), key)
    return replace(events, name="in_core"), replace(
        left_out,
        core=settings.core,
        events=count - inside,
        users=before[1] - now[1],
        items=before[2] - now[2],
    )


def number_sql(name: str, kind: str) -> str:
    """A column as DOUBLE, and NULL where it is no number."""
    number = f"TRY_CAST({quoted(name)} AS DOUBLE)"
    if kind != "VARCHAR":
        return number
    # As in its own language, DuckDB reads 1_000 as a number.
    return f"CASE WHEN NOT contains({quoted(name)}, '_') THEN {number} END"


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text for SQL."""
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
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
            # DuckDB does not compare the checksum at the end, which only a whole read reaches.
            while packed and file.read(_PIECE):
                _expect_no_bomb(path, file.tell())
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        what = "a whole gzip file of UTF-8 text" if packed else "UTF-8 text"
        raise InputError(f"Expected {what} in {path}; {error}. Write it again.") from None
    if not line.strip():
        raise InputError(f"Expected a line of column names in {path}; it is empty.")
    if len(line) >= _LONGEST_HEADER:
        raise InputError(
            f"Expected a line of column names in {path}; found none in {_LONGEST_HEADER} bytes."
        )
    line = re.split(r"[\r\n]", line)[0]
    delimiter = max(_DELIMITERS, key=line.count)
    names = next(csv.reader([line], delimiter=delimiter))
    if len({name.lower() for name in names}) < len(names):
        raise InputError(f"Expected different column names in {path}; found {', '.join(names)}.")
    return names, delimiter


def _expect_no_bomb(path: Path, unpacked: int) -> None:
    most = max(_UNPACKED, _MOST_PACKED * path.stat().st_size)
    if unpacked > most:
        raise InputError(
            f"Expected at most {most:,} bytes of text in {path}, {_MOST_PACKED} times its packed "
            f"size; found more. Unpack it yourself if it is what you want to read."
        )


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
