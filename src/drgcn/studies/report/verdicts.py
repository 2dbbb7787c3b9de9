"""Printed numbers judged by records: the seeds behind a cell, and what may be said of it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from drgcn.errors import InputError, warn
from drgcn.records import BaselineRecord, BaselineResult
from drgcn.reporting.charts import IntervalRow, Mark, interval_pictures, interval_rows
from drgcn.reporting.tables import Table
from drgcn.stats import Interval, Summary, printed_difference
from drgcn.studies.comparison import differences
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.page import printed_deviation
from drgcn.studies.paper.table import CellRecipe, PaperTable, TableCell
from drgcn.studies.records import RunRecord
from drgcn.studies.report.measurements import seconds_per_epoch
from drgcn.studies.report.tables import TWO_BUILDS, Row, one_build, rebuilt, rows_by_build
from drgcn.studies.reproduce.jobs import Failure

# Facts of data on record, by the word that the heads of the paper's tables begin with.
_COUNTS = {
    "nodes": "nodes",
    "edges": "edges",
    "classes": "classes",
    "features": "features",
    "training": "train",
    "validation": "val",
    "test": "test",
}
#: "All of our methods and compared baseline methods are run 20 times".
PAPER_RUNS: Final = 20
Verdict = Literal[
    "reproduced",
    "above",
    "below",
    "not comparable",
    "not run",
    "none printed",
]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_HEADS = ("row", "column", "published", "ours", "difference [95 %]", "seeds", "verdict")
_COUNT_WORDS = (0, 1, 2, 3, 6)  # places of the heads that are left where data is counted
_MISSING = ("row", "column", "published", "why")


class FailedJobs:
    """Jobs that failed, as the reason why cells of a table have no record.

    Args:
        folder: Where the records lie; nothing failed if not given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._errors: dict[tuple[str, str | None], str] = {}
        for path in sorted((folder / "failures").glob("*.json")) if folder is not None else []:
            try:
                failure = Failure.read(path)
                experiment = Experiment(**failure.experiment)
            except (InputError, TypeError) as error:
                warn(f"left out a damaged failure. {error}")
                continue
            self._errors[experiment.identity(""), failure.normalize] = failure.error

    def error(self, job: CellRecipe) -> str | None:
        """Return what went wrong with a recipe, in one line; ``None`` if nothing did."""
        name = job.experiment.identity("")
        return self._errors.get((name, job.normalize), self._errors.get((name, None)))


BaselineRow = tuple[BaselineRecord, dict[int, BaselineResult]]


class CellRows:
    """Records, found by the recipe of a cell.

    Args:
        records: All records at hand.
        failed: Jobs that have none because they failed.
        baselines: Records of methods that are run apart.
    """

    def __init__(
        self,
        records: Sequence[RunRecord],
        failed: FailedJobs | None = None,
        baselines: Iterable[BaselineRecord] = (),
    ) -> None:
        self.failed = failed or FailedJobs()
        groups: dict[str, list[BaselineRecord]] = defaultdict(list)
        for one in baselines:
            groups[one.identity].append(one)
        self._baselines: list[BaselineRow] = [
            (group[0], {seed: result for one in group for seed, result in one.seeds.items()})
            for group in groups.values()
        ]
        self._rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for builds in rows_by_build(records).values():
            for record, seeds in builds.values():
                key = (record.experiment.identity(""), str(record.data.get("normalize")))
                self._rows[key].append((record, seeds))
        self._data = {(r.data["name"], r.data["split"]): r.data for r in records}

    def find(self, job: CellRecipe) -> Row | None:
        """The row of a recipe: trained so, on features scaled so.

        Of several, of other builds or of other content under one name, the one with most seeds,
        and of these the latest.
        """
        return max(self._all(job), key=lambda row: (len(row[1]), row[0].started), default=None)

    def _all(self, job: CellRecipe) -> list[Row]:
        found = self._rows.get((job.experiment.identity(""), job.normalize), [])
        return [row for row in found if not row[0].data.get("options")]

    def baselines(self, cell: TableCell) -> list[BaselineRow]:
        """Rows of a cell's method with the cell's settings, that with most seeds first.

        More than one if other settings or contents were run, too, and nothing tells which is
        meant.
        """
        place = (cell.baseline, cell.dataset, cell.split)
        found = [
            (record, seeds)
            for record, seeds in self._baselines
            if (record.method, record.data["name"], record.data["split"]) == place
            and cell.baseline_settings.items() <= record.settings.items()
        ]
        return sorted(found, key=lambda row: -len(row[1]))

    def values(self, cell: TableCell) -> list[float]:
        """Return what each seed measured of a cell's quantity; empty if nothing is on record."""
        if cell.baseline is not None:
            seeds_of = next((seeds for _, seeds in self.baselines(cell)), {})
            return [100 * result.test_accuracy for result in seeds_of.values()]
        row = None if cell.job is None else self.find(cell.job)
        if cell.job is None or row is None:
            return []
        record, seeds = row
        match cell.quantity:
            case "test":
                return [100 * result.test_accuracy for result in seeds.values()]
            case "gain":
                return self._gains(cell.job)
            case "k1" | "k2":
                layer = int(cell.quantity[1]) - 1
                found = [result.k[layer] for result in seeds.values() if len(result.k) > layer]
                return [value for value in found if value is not None]
            case "seconds":
                return [seconds_per_epoch(record)]
            case _:
                return []

    def count(self, cell: TableCell) -> int | None:
        """Return the size of the data that a cell counts, from records; ``None`` if unknown."""
        facts = self._data.get((cell.dataset, cell.split), {})
        found = re.match(r"[a-z]+", cell.row.lower())
        value = facts.get(_COUNTS.get(found[0], "")) if found else None
        return value if isinstance(value, int) else None

    def of_two_builds(self, cell: TableCell) -> bool:
        """Return whether a gain has both its rows on record, but none of one build."""
        if cell.job is None or cell.quantity != "gain" or self._gains(cell.job):
            return False
        return bool(self._all(cell.job) and self._all(_without_gate(cell.job)))

    def _gains(self, job: CellRecipe) -> list[float]:
        """Points that Dr adds, seed by seed, of the build and data with most seeds."""
        plain = self._all(_without_gate(job))
        found = [
            differences(row[1], other[1])
            for row in sorted(self._all(job), key=lambda row: row[0].started)
            for other in plain
            if one_build(row, other)
            and row[0].data["content_hash"] == other[0].data["content_hash"]
        ]
        return max(reversed(found), key=len, default=[])


def _without_gate(job: CellRecipe) -> CellRecipe:
    return replace(job, experiment=replace(job.experiment, reweight=None))


def records_of_table(records: Sequence[RunRecord], table: PaperTable) -> list[RunRecord]:
    """Records of a table's cells, and those that differ from them in the gate alone.

    Raises:
        InputError: If there are none.
    """
    rows = CellRows(records)
    cells = [rows.find(cell.job) for cell in table.cells if cell.job is not None]
    wanted = {_family(row[0]) for row in cells if row is not None}
    found = [record for record in records if _family(record) in wanted]
    if not found:
        why = next((cell.reason for cell in table.cells if cell.reason), "")
        raise InputError(
            f"Expected records of the table {table.name}; found none"
            f"{'' if table.runnable or not why else f' ({why})'}. See what there is to run: "
            f"drgcn studies show {table.name}"
        )
    return found


def _family(record: RunRecord) -> str:
    plain = replace(record.experiment, reweight=None)
    return plain.identity(record.data["content_hash"])


@dataclass(frozen=True)
class CellVerdict:
    """A cell of a table with our values beside the printed number.

    Attributes:
        cell: The cell.
        values: Our values, one for each seed; empty where nothing is on record.
        difference: Ours less the printed one; ``None`` where one of them is missing.
        verdict: What follows.
        reason: Why it is not comparable, or was not run; empty otherwise.
    """

    cell: TableCell
    values: tuple[float, ...]
    difference: Interval | None
    verdict: Verdict
    reason: str = ""

    @property
    def words(self) -> str:
        """The verdict, with its reason."""
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


def judge_table(table: PaperTable, rows: CellRows) -> list[CellVerdict]:
    """Every cell of a table that prints a number or was run, in the table's order."""
    found = [judge(table, cell, rows) for cell in table.cells]
    return [one for one in found if one.cell.printed is not None or one.values]


def judge(table: PaperTable, cell: TableCell, rows: CellRows) -> CellVerdict:
    """One cell: by :func:`judge_number`, where the numbers can be compared."""
    if cell.quantity == "count":
        return _judge_count(table, cell, rows)
    values = tuple(rows.values(cell))
    if cell.baseline is not None and values:
        return _judge_baseline(cell, values, len(rows.baselines(cell)))
    row = None if cell.job is None else rows.find(cell.job)
    if rows.of_two_builds(cell):
        return CellVerdict(cell, (), None, "not comparable", TWO_BUILDS)
    if not values or row is None:
        return CellVerdict(cell, (), None, "not run", _missing(table, cell, rows))
    if cell.printed is None:
        return CellVerdict(cell, values, None, "none printed")
    printed = cell.printed
    std = printed_deviation(cell)
    # Over what K was averaged the paper does not say: without a deviation it may be of one run.
    runs = 1 if cell.quantity in ("k1", "k2") and std is None else PAPER_RUNS
    difference, verdict = judge_number(values, printed.mean, std, printed.decimals, runs)
    if reason := _incomparable(cell, row, values):
        return CellVerdict(cell, values, difference, "not comparable", reason)
    return CellVerdict(cell, values, difference, verdict)


def judge_number(
    values: Sequence[float],
    mean: float,
    std: float | None,
    decimals: int,
    runs: int = PAPER_RUNS,
) -> tuple[Interval, Verdict]:
    """Return our difference from a printed number, and whether the number is reproduced.

    It is reproduced if zero lies in the 95 % interval of the difference, widened on both sides by
    half a unit of the last printed digit: the number that was rounded may be any of these. Else
    ours lies above or below. One value, or one that is no number, is not comparable.

    Args:
        values: Our values, one for each seed.
        mean: The printed mean.
        std: The printed standard deviation over its runs; ``None`` if none is.
        decimals: Printed digits after the point.
        runs: Number of runs behind the printed number, see
            :func:`drgcn.stats.printed_difference`.
    """
    difference = printed_difference(values, mean, std, runs)
    if not math.isfinite(difference.low):
        return difference, "not comparable"
    rounding = 0.5 * 10**-decimals + 1e-9
    if difference.low > rounding:
        return difference, "above"
    return difference, "below" if difference.high < -rounding else "reproduced"


def _judge_baseline(cell: TableCell, values: tuple[float, ...], rows: int) -> CellVerdict:
    """A method that is run apart: by :func:`judge_number`, or as it stands if it draws nothing."""
    printed = cell.printed
    if printed is None:
        return CellVerdict(cell, values, None, "none printed")
    difference, verdict = judge_number(values, printed.mean, printed.std, printed.decimals)
    if rows > 1:
        reason = f"{rows} kinds of records of {cell.baseline}, with other settings or data"
        return CellVerdict(cell, values, difference, "not comparable", reason)
    if cell.exact:
        over = values[0] - printed.mean
        lost_in_rounding = abs(over) <= 0.5 * 10**-printed.decimals + 1e-9
        exact: Verdict = "reproduced" if lost_in_rounding else "above" if over > 0 else "below"
        return CellVerdict(cell, values, Interval(over, over, over), exact)
    if len(values) < PAPER_RUNS:
        few = f"{len(values)} of {PAPER_RUNS} seeds"
        return CellVerdict(cell, values, difference, "not comparable", few)
    return CellVerdict(cell, values, difference, verdict)


def _judge_count(table: PaperTable, cell: TableCell, rows: CellRows) -> CellVerdict:
    """A count of data has no spread: it is the printed one, or it is not."""
    count = rows.count(cell)
    if count is None or cell.printed is None:
        return CellVerdict(cell, (), None, "not run", _missing(table, cell, rows))
    over = count - cell.printed.mean
    verdict: Verdict = "reproduced" if over == 0 else "above" if over > 0 else "below"
    return CellVerdict(cell, (float(count),), Interval(over, over, over), verdict)


def count_verdicts(found: Sequence[CellVerdict]) -> dict[Verdict, int]:
    """Count the cells of every verdict, also of those that no cell has."""
    return {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}


def _missing(table: PaperTable, cell: TableCell, rows: CellRows) -> str:
    if cell.job is not None and (error := rows.failed.error(cell.job)):
        return f"it failed ({error})"
    if cell.baseline is not None:
        return f"no record here yet; drgcn baselines {cell.dataset} --method {cell.baseline}"
    if cell.reason:
        return cell.reason.rstrip(".")
    if cell.job is None:
        return "nothing to train for it"
    return f"no record here yet; drgcn reproduce {table.name}"


def _incomparable(cell: TableCell, row: Row, values: Sequence[float]) -> str:
    """Return why a difference says nothing about the printed number; empty if it does."""
    record, _ = row
    if cell.quantity == "seconds":
        return f"other code on another machine ({record.environment['device']})"
    if rebuilt(record):
        return "rebuilt features"
    if str(record.data.get("feature_source", "")).startswith("generated"):
        return "made-up data"
    if len(values) < PAPER_RUNS:
        return f"{len(values)} of {PAPER_RUNS} seeds"
    if not all(map(math.isfinite, values)):
        return "some seeds have no number"
    return ""


@dataclass(frozen=True)
class JudgedTable:
    """A table of the paper, every cell judged.

    Attributes:
        table: The table.
        found: Its cells.
    """

    table: PaperTable
    found: tuple[CellVerdict, ...]

    @property
    def run(self) -> tuple[CellVerdict, ...]:
        """Cells with something of ours."""
        return tuple(one for one in self.found if one.values)

    @property
    def counts_data(self) -> bool:
        """Return whether it counts data, and nothing in it is trained."""
        return all(one.cell.quantity in ("count", "rate") for one in self.found)

    @property
    def trained(self) -> bool:
        """Return whether anything was trained for it."""
        return bool(self.run) and not self.counts_data

    @property
    def tables(self) -> list[Table]:
        """Tables of the cells that were run, and of those that were not."""
        parts = [self._run_table()] if self.run else []
        missing = [one for one in self.found if not one.values]
        return parts + ([self._missing_table(missing)] if missing else [])

    def _run_table(self) -> Table:
        if all(one.cell.printed is None for one in self.run):
            return self._own_table()
        marks = _marks(self.run)
        notes = [] if self.table.about is None else [self.table.about]
        notes += [f"({mark}) {' '.join(note.split())}" for note, mark in marks.items()]
        rows = [_row(one, marks) for one in self.run]
        whole = Table(
            name=self.table.name,
            title=self.table.heading,
            heads=_HEADS,
            rows=tuple(rows),
            notes=tuple(notes),
            left=2,
            kinds=tuple(one.verdict.replace(" ", "-") for one in self.run),
        )
        if self.counts_data:
            return replace(_columns(whole, _COUNT_WORDS), folded=True)
        pictures = interval_pictures([one.difference for one in self.run])
        return replace(whole, pictures=tuple(pictures))

    def _own_table(self) -> Table:
        """A table of our own, with its rows and columns: nothing is printed to stand beside."""
        ours = {(c.cell.row, c.cell.column): Summary.of(c.values).words(2) for c in self.run}
        rows = tuple(
            (row, *(ours.get((row, column), "") for column in self.table.columns))
            for row in self.table.rows
            if any((row, column) in ours for column in self.table.columns)
        )
        seeds = sorted({len(one.values) for one in self.run})
        notes = [] if self.table.about is None else [self.table.about]
        notes.append(f"Mean ± standard deviation over {' or '.join(map(str, seeds))} seeds.")
        heads = ("", *self.table.columns)
        return Table(heads, rows, self.table.name, self.table.heading, tuple(notes), left=1)

    def _missing_table(self, missing: Sequence[CellVerdict]) -> Table:
        rows = [
            (one.cell.row, one.cell.column, str(one.cell.printed), _why(one)) for one in missing
        ]
        count = f"{len(missing)} printed number{'s' * (len(missing) > 1)}"
        title = f"{self.table.heading}: {count} without a result here"
        name = f"{self.table.name}-not-run"
        return Table(_MISSING, tuple(rows), name, title, left=2, folded=True)


def judged_tables(tables: Sequence[PaperTable], rows: CellRows) -> list[JudgedTable]:
    """All tables, every cell judged."""
    return [JudgedTable(table, tuple(judge_table(table, rows))) for table in tables]


_SIGNS: Final[dict[Verdict, str]] = {"reproduced": "unsure", "above": "up", "below": "down"}


def compared(judged: Sequence[JudgedTable]) -> dict[str, list[CellVerdict]]:
    """Test results that can be compared, by method: models with and without Dr together, and what
    several tables print once."""
    found: dict[str, dict[tuple[str | None, str | None], CellVerdict]] = defaultdict(dict)
    for one in (each for table in judged for each in table.found):
        cell = one.cell
        if cell.quantity == "test" and one.verdict in _SIGNS and one.difference is not None:
            found[cell.label or cell.row].setdefault((cell.dataset, cell.split), one)
    order = [name.split()[0] for name in found]
    names = sorted(found, key=lambda name: order.index(name.split()[0]))
    return {name: list(found[name].values()) for name in names}


def published_chart(found: dict[str, list[CellVerdict]], *, phone: bool = False) -> str:
    """Draw ours less the printed number, method by method."""
    rows = []
    for name, cells in found.items():
        ordered = sorted(cells, key=lambda one: -_difference(one).mean)
        marks = [
            Mark(
                _difference(one),
                _SIGNS[one.verdict],
                f"{name}, {one.cell.dataset}, {one.cell.split}: published {one.cell.printed}, "
                f"ours {Summary.of(one.values).words(2)}, difference {_difference_words(one)}: "
                f"{one.verdict}",
            )
            for one in ordered
        ]
        rows.append(IntervalRow(name, [marks]))
    count = count_verdicts([one for cells in found.values() for one in cells])
    alt = (
        f"Ours less the published test result, with 95 % intervals, for {len(rows)} methods: "
        f"{count['reproduced']} reproduced, {count['above']} above, {count['below']} below. The "
        f"numbers are in the tables below."
    )
    return interval_rows(rows, ["ours - published, points"], alt, phone=phone)


def _difference(one: CellVerdict) -> Interval:
    assert one.difference is not None
    return one.difference


def overview(judged: Sequence[JudgedTable]) -> Table:
    """Table of verdicts counted for each of the paper's tables."""
    verdicts = ("reproduced", "above", "below", "not comparable", "not run")
    rows = []
    for one in judged:
        counted = count_verdicts(one.found)
        printed = [each for each in one.found if each.cell.printed is not None]
        if printed:
            numbers = [str(counted[name]) for name in verdicts]  # type: ignore[index]
            rows.append((one.table.heading, str(len(printed)), *numbers))
    heads = ("table", "printed numbers", *verdicts)
    return Table(heads, tuple(rows), "overview", "All tables", left=1)


def _columns(table: Table, places: Sequence[int]) -> Table:
    """A table with some of its columns."""
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, heads=tuple(table.heads[place] for place in places), rows=rows)


def _row(one: CellVerdict, marks: dict[str, str]) -> tuple[str, ...]:
    cell, printed = one.cell, one.cell.printed
    digits = 2 if printed is None else max(printed.decimals, 2)
    if cell.quantity == "count":
        ours, difference, seeds = f"{one.values[0]:,.0f}", "", ""
    else:
        ours, seeds = Summary.of(one.values).words(digits), str(len(one.values))
        difference = _difference_words(one)
    published = "" if printed is None else str(printed)
    mark = f" ({marks[cell.note]})" if cell.note else ""
    return (cell.row + mark, cell.column, published, ours, difference, seeds, one.words)


def _difference_words(one: CellVerdict) -> str:
    if one.difference is None:
        return ""
    return str(one.difference) if len(one.values) > 1 else f"{one.difference.mean:+.2f}"


def _marks(run: Sequence[CellVerdict]) -> dict[str, str]:
    """A letter for every remark on a cell, in the order they occur."""
    notes = dict.fromkeys(one.cell.note for one in run if one.cell.note)
    return {note: chr(ord("a") + place) for place, note in enumerate(notes) if note}


def _why(one: CellVerdict) -> str:
    stand_in = one.cell.stand_in
    return one.words + (f". Instead: {stand_in}" if stand_in else "")
