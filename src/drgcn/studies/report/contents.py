"""Everything a report says, and the page and Markdown that it is written as."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drgcn._format import duration, plural
from drgcn._io import write_whole
from drgcn.errors import DrgcnWarning, InputError
from drgcn.records import BaselineRecord
from drgcn.reporting.page import write_html
from drgcn.reporting.tables import Table, without_tags
from drgcn.stats import LEVEL
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.paper.table import PaperTable
from drgcn.studies.records import RunRecord
from drgcn.studies.report.comparisons import (
    ComparisonBlock,
    comparison_block,
    correlation_words,
    gain_chart,
    with_k,
)
from drgcn.studies.report.gate_tests import (
    BASELINES,
    GateTest,
    count_words,
    decide_groups,
    gate_test_table,
    gate_tests,
    uncompared,
    uncompared_words,
)
from drgcn.studies.report.measurements import MISSING, epoch_time_table, k_table, spectrum_table
from drgcn.studies.report.tables import (
    RECORD_HEADS,
    gate_groups,
    merge,
    record_rows,
    rows_by_build,
)
from drgcn.studies.report.verdicts import (
    PAPER_RUNS,
    CellRows,
    CellVerdict,
    FailedJobs,
    JudgedTable,
    count_verdicts,
    judged_tables,
    overview,
)
from drgcn.studies.reproduce.jobs import SuiteRecord

READING: Final = (
    "Means with standard deviations (n - 1) over seeds, in percent. Every seed was tested once, "
    "at the epoch its stopping rule kept.",
    f"Difference to the paper: ours less the printed number, with a 95 % interval by Welch's "
    f"method. Both sides have a deviation of their own; what the paper prints behind ± is taken "
    f"as the standard deviation over {PAPER_RUNS} runs, which it says all its methods were given. "
    f"Where a table prints no deviation and another one prints it for the same number, that one "
    f"holds; where none does, the number is taken as it stands and only ours vary: such numbers "
    f"are mostly quoted from others.",
    f"Verdict: reproduced, if zero lies in the interval, widened on both sides by half a unit of "
    f"the last printed digit; above or below, if not; not comparable on other features, on "
    f"made-up data, on another machine, with fewer than {PAPER_RUNS} seeds, or of a difference "
    f"between rows of two builds. Many seeds make a small difference a sure one: look at its "
    f"size, too. A method that draws nothing has one number, which is compared as it stands. The "
    f"pictures of a table share one "
    f"scale; an arrow means further out.",
    f"Sure, of Dr against another row: the p-value of the paired t-test over the seeds that both "
    f"rows have, corrected by Holm's method over the family of comparisons that stand together "
    f"(these two gates, in all settings), lies below {LEVEL}. Intervals are not corrected, and "
    f"may leave out zero where nothing is sure. A sign-flip test is a check.",
)
_VERSIONS: Final = ("drgcn", "torch", "torch_geometric", "python")
_DEVICE_HEADS: Final = ("device", "records", "seeds trained", "training time", "first", "last")
_SUITE_HEADS: Final = (
    "tables",
    "started",
    "wall time",
    "cells",
    "seeds trained",
    "on record before",
    "jobs",
    "at once",
    "device",
    "ended",
)
_NOTES: Final = (
    "From the start of the command to its end, with loading, start-up and writing. A suite that "
    "found seeds on record did not train them: compare those that found none, and "
    "of which others did no jobs.",
)
# Few comparisons are shown at once; of many a reader opens those of interest.
_OPEN = 4


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        name: Its anchor.
        title: Its heading.
        words: What stands above its tables.
        tables: Its tables.
        charts: Its pictures, as SVG.
        blocks: Comparisons with pictures of their own.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[str, ...] = ()
    blocks: tuple[ComparisonBlock, ...] = ()


@dataclass(frozen=True)
class Contents:
    """A report.

    Attributes:
        findings: The main findings, one sentence each.
        sections: All parts, in order.
    """

    findings: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def tables(self) -> list[Table]:
        """All tables, in order."""
        return [table for section in self.sections for table in section.tables]


def contents(
    records: Sequence[RunRecord], tables: Sequence[PaperTable], folder: Path | None = None
) -> Contents:
    """Gather everything a report says about some records.

    Args:
        records: Run records.
        tables: Tables of the paper to hold them against.
        folder: Where the records lie, to look for suites, for jobs that failed and for baselines.
    """
    suites = readable_suites(folder)
    baselines = {} if folder is None else BaselineRecord.read_folder(folder / "baselines")
    rows = CellRows(records, FailedJobs(folder), baselines.values())
    judged = judged_tables(tables, rows)
    families = {against: gate_tests(records, against) for against in BASELINES}
    apart = {against: uncompared(records, against) for against in BASELINES}
    sections = [
        _where(records, suites),
        _paper(judged),
        _tests(families, apart),
        _gates(records),
        _gain(families[None]),
        _blocks(records),
        _time(records, suites),
        _all_records(records),
        Section("reading", "How to read this", READING),
    ]
    return Contents(
        findings=tuple(findings(records, judged, families, apart)),
        sections=tuple(section for section in sections if section is not None),
    )


def _time(records: Sequence[RunRecord], suites: Sequence[SuiteRecord]) -> Section:
    table = epoch_time_table(records, suites)
    return Section("time", "Time of an epoch", tables=(table,))


def _where(records: Sequence[RunRecord], suites: Sequence[SuiteRecord]) -> Section:
    whole = suite_table(suites)
    tables = (device_table(records), *([] if whole is None else [whole]))
    words = (f"Versions: {version_words(records)}",)
    return Section("where", "Hardware, versions, wall time", words, tables)


def _paper(judged: Sequence[JudgedTable]) -> Section | None:
    if not any(one.trained for one in judged):
        return None  # nobody who trained on something else wants to read what was not run
    tables = [table for one in judged for table in one.tables]
    about = overview(judged)
    return Section(
        "paper",
        "The paper's tables",
        tables=(*([about] if len(about.rows) > 1 else []), *tables),
    )


def _tests(
    families: Mapping[str | None, Sequence[GateTest]], apart: Mapping[str | None, Sequence[str]]
) -> Section | None:
    tables = []
    for against, tests in families.items():
        if tests:
            ordered = sorted(tests, key=lambda one: -one.test.gain.mean)
            table = gate_test_table(ordered, against)
            tables.append(replace(table, folded=against is not None and len(tests) > 10))
    words = (
        "Same data, same training, same seeds, same build: rows that differ in their gate alone. "
        "What Dr gains over the plain model may be due to gating as such; what it gains over a "
        "gate that sees no data is not. The tests speak of other seeds on the same split, not of "
        "other splits or other data.",
        *(uncompared_words(found, against) for against, found in apart.items() if found),
    )
    any_pair = tables or any(apart.values())
    return Section("dr", "What Dr does", words, tuple(tables)) if any_pair else None


def _gates(records: Sequence[RunRecord]) -> Section | None:
    table = k_table(records)
    if table is None:
        return None
    spectrum = spectrum_table(records)
    words = (MISSING,) if spectrum is None else ()
    tables = (replace(table, folded=len(table.rows) > 20),)
    return Section(
        "gates", "Learnt gates", words, tables if spectrum is None else (*tables, spectrum)
    )


def _gain(tests: Sequence[GateTest]) -> Section | None:
    points = with_k(tests)
    if len(points) < 3:
        return None
    words = (
        correlation_words(points),
        "Blue: Dr surely up after correction; orange: surely down; grey: no sure difference. "
        "Hollow: made-up data. Lines are 95 % intervals, cut at the edges; dotted lines mark no "
        "gain, and K = 1. Names stand at the greatest gains and losses.",
    )
    return Section("gain", "Gain against K", words, charts=(gain_chart(points),))


def _blocks(records: Sequence[RunRecord]) -> Section:
    groups = gate_groups(records)
    words = (
        "Curves are means over seeds, as far as every seed was trained; bands leave out the "
        "tenth of the seeds at either end.",
    )
    blocks = tuple(
        comparison_block(rows, decided, number)
        for number, (rows, decided) in enumerate(
            zip(groups, decide_groups(groups), strict=True), 1
        )
    )
    return Section("curves", "Seeds and learning curves", words, blocks=blocks)


def _all_records(records: Sequence[RunRecord]) -> Section:
    title = f"All {len(records)} records"
    rows = tuple(record_rows(records))
    notes = ("A published number in brackets was reached on other features.",)
    table = Table(RECORD_HEADS, rows, "records-table", title, notes, left=3, folded=True)
    return Section("records", "All records", tables=(table,))


def findings(
    records: Sequence[RunRecord],
    judged: Sequence[JudgedTable],
    families: Mapping[str | None, Sequence[GateTest]],
    apart: Mapping[str | None, Sequence[str]],
) -> list[str]:
    """Return the main findings: runs, the paper's numbers, and the effect of Dr."""
    found = [size_words(records)]
    if any(one.trained for one in judged):
        found += paper_words(judged)
    found += [count_words(tests, against) for against, tests in families.items() if tests]
    if names := {against: len(settings) for against, settings in apart.items() if settings}:
        each = ", ".join(
            f"{count} with the {BASELINES[against]}" for against, count in names.items()
        )
        found.append(
            f"Not compared, as the two rows are of two builds (source, torch, PyG or machine "
            f"differ): {each}."
        )
    return found


def size_words(records: Sequence[RunRecord]) -> str:
    """Describe how much was trained."""
    rows = merge(records)
    sets = {str(record.data["name"]) for record, _ in rows}
    models = {record.experiment.model for record, _ in rows}
    seeds = sum(len(seeds) for _, seeds in rows)
    return (
        f"{plural(seeds, 'trained network')}: {plural(len(rows), 'experiment')} with "
        f"{plural(len(models), 'model')} on {plural(len(sets), 'dataset')}."
    )


def paper_words(judged: Sequence[JudgedTable]) -> list[str]:
    """Count the paper's numbers that were reproduced, and say why others were not tried."""
    trained = [one for table in judged if not table.counts_data for one in table.found]
    printed = [one for one in trained if one.cell.printed is not None]
    count = count_verdicts(printed)
    comparable = count["reproduced"] + count["above"] + count["below"]
    verbs = {name: "was" if number == 1 else "were" for name, number in count.items()}
    words = [
        f"Of {len(printed)} results that the paper prints, each as often as it is printed, "
        f"{comparable} can be compared: {count['reproduced']} "
        f"{'is' if count['reproduced'] == 1 else 'are'} reproduced, {count['above']} of "
        f"ours {'lies' if count['above'] == 1 else 'lie'} above and {count['below']} below. "
        f"{count['not comparable']} {verbs['not comparable']} run on other "
        f"data, on another machine, with fewer seeds or by two builds, "
        f"and {count['not run']} {verbs['not run']} not run. If "
        f"every number were equal in truth, one interval in twenty would still miss it."
    ]
    data = [one for table in judged if table.counts_data for one in table.found]
    if counted := [one for one in data if one.values]:
        words.append(_data_words(counted, len(data)))
    return words


def _data_words(counted: Sequence[CellVerdict], printed: int) -> str:
    equal = sum(one.verdict == "reproduced" for one in counted)
    return (
        f"Of {printed} numbers that the paper prints about its data, {len(counted)} stand in "
        f"these records, and {equal} of them are the same."
    )


def device_table(records: Sequence[RunRecord]) -> Table:
    """Table of machines and the seeds trained on each."""
    groups: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        groups[str(record.environment["device"])].append(record)
    rows = [
        (
            device,
            f"{len(group):,}",
            f"{sum(len(record.seeds) for record in group):,}",
            duration(sum(record.seconds for record in group)),
            min(record.started for record in group)[:10],
            max(record.started for record in group)[:10],
        )
        for device, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    notes = (
        "Training time is the sum over records; those of one machine may have run side by side.",
    )
    return Table(_DEVICE_HEADS, tuple(rows), "machines", "Machines", notes, left=1)


def version_words(records: Sequence[RunRecord]) -> str:
    """Versions of what the numbers were made with."""
    parts = []
    for name in _VERSIONS:
        found = sorted({str(r.environment[name]) for r in records if name in r.environment})
        if found:
            parts.append(f"{name.replace('torch_geometric', 'PyG')} {', '.join(found)}")
    sources = {record.environment.get("source") for record in records}
    words = f"{'; '.join(parts)}; {len(sources)} states of this package's code."
    rows = rows_by_build(records).values()
    if several := sum(len(builds) > 1 for builds in rows):
        words += (
            f" {plural(several, 'experiment')} with records of several builds: shown is the one "
            f"with most seeds or, in a comparison, with most of its rows."
        )
    return words


def suite_table(suites: Sequence[SuiteRecord]) -> Table | None:
    """One line per suite that trained something; ``None`` if there is none."""
    rows = tuple(_row(suite) for suite in suites if suite.seeds_trained)
    return Table(_SUITE_HEADS, rows, "suites", "Whole suites", _NOTES, left=1) if rows else None


def readable_suites(folder: Path | None) -> list[SuiteRecord]:
    """All that can be read beside the records of a folder, the oldest first; a damaged one is
    named and keeps no other from being shown."""
    found = []
    for path in sorted((folder / "suites").glob("*.json")) if folder is not None else []:
        try:
            found.append(SuiteRecord.read(path))
        except InputError as error:
            warnings.warn(f"left out a damaged suite. {error}", DrgcnWarning, stacklevel=3)
    return found


def _row(suite: SuiteRecord) -> tuple[str, ...]:
    only = [f"{name} {' '.join(values)}" for name, values in suite.only.items() if values]
    failed = f", {suite.failed} failed" if suite.failed else ""
    failed += f", {suite.jobs_of_others} more by others" if suite.jobs_of_others else ""
    return (
        ", ".join([" ".join(suite.tables), *only]),
        suite.started[:16].replace("T", " "),
        duration(suite.wall_seconds),
        f"{suite.cells:,}",
        f"{suite.seeds_trained:,}",
        f"{suite.seeds_recorded:,}",
        f"{suite.jobs:,}{failed}",
        str(suite.workers),
        str(suite.environment.get("device", "")),
        suite.ending,
    )


def write_report(
    records: Sequence[RunRecord],
    path: Path,
    *,
    title: str,
    caveat: str = "",
    folder: Path | None = None,
) -> Path:
    """Write the page of some records; return its path.

    Args:
        records: Run records.
        path: Where to write.
        title: Its heading.
        caveat: What a reader has to know, below every verdict.
        folder: Where the records lie, to look for suites and for jobs that failed.
    """
    whole = contents(records, list(paper_tables().values()), folder)
    return write_page(whole, path, title=title, caveat=caveat)


def write_page(found: Contents, path: Path, *, title: str, caveat: str = "") -> Path:
    """Write the self-contained page of a report; return its path."""
    comparisons = sum(len(section.blocks) for section in found.sections)
    return write_html(
        path,
        __package__,
        "report.html.jinja",
        title=title,
        caveat=caveat,
        report=found,
        unfolded=comparisons <= _OPEN,
    )


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Write a report as Markdown, without its pictures; return its path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.findings)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [table.markdown_section() for table in section.tables]
    return write_whole(path, without_tags("\n\n".join(parts)) + "\n")
