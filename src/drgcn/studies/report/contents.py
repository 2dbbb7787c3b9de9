"""Everything a report says, before it is set as a page, as Markdown or as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.report.cell_rows import CellRows
from drgcn.studies.report.comparison_block import ComparisonBlock, comparison_block
from drgcn.studies.report.epoch_time import epoch_time_table
from drgcn.studies.report.failed_jobs import FailedJobs
from drgcn.studies.report.findings import findings
from drgcn.studies.report.gain_chart import correlation_words, gain_chart, with_k
from drgcn.studies.report.gate_test_table import gate_test_table
from drgcn.studies.report.gate_tests import BASELINES, GateTest, gate_tests
from drgcn.studies.report.k_table import k_table
from drgcn.studies.report.paper_section import JudgedTable, judged_tables, overview
from drgcn.studies.report.provenance import device_table, version_words
from drgcn.studies.report.reading import READING
from drgcn.studies.report.spectrum import MISSING, spectrum_table
from drgcn.studies.report.suite_table import readable_suites, suite_table
from drgcn.studies.report.tables import RECORD_HEADS, gate_groups, record_rows
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.reproduce.suite_record import SuiteRecord
from drgcn.studies.run_record import RunRecord


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
    tables: tuple[TextTable, ...] = ()
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
    def tables(self) -> list[TextTable]:
        """All tables, in order."""
        return [table for section in self.sections for table in section.tables]


def contents(
    records: Sequence[RunRecord], tables: Sequence[PaperTable], folder: Path | None = None
) -> Contents:
    """What some records say.

    Args:
        records: Run records.
        tables: Tables of the paper to hold them against.
        folder: Where the records lie, to look for suites and for jobs that failed.
    """
    suites = readable_suites(folder)
    judged = judged_tables(tables, CellRows(records, FailedJobs(folder)))
    families = {against: gate_tests(records, against) for against in BASELINES}
    sections = [
        _where(records, suites),
        _paper(judged),
        _tests(families),
        _gates(records),
        _gain(families[None]),
        _blocks(records),
        _time(records, suites),
        _all_records(records),
        Section("reading", "How to read this", READING),
    ]
    return Contents(
        findings=tuple(findings(records, judged, families)),
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


def _tests(families: dict[str | None, list[GateTest]]) -> Section | None:
    tables = []
    for against, tests in families.items():
        if tests:
            ordered = sorted(tests, key=lambda one: -one.test.gain.mean)
            table = gate_test_table(ordered, against)
            tables.append(replace(table, folded=against is not None and len(tests) > 10))
    words = (
        "Same data, same training, same seeds: rows that differ in their gate alone. What Dr "
        "gains over the plain model may be due to gating as such; what it gains over a gate that "
        "sees no data is not. The tests speak of other seeds on the same split, not of other "
        "splits or other data.",
    )
    return Section("dr", "What Dr does", words, tuple(tables)) if tables else None


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
    blocks = tuple(comparison_block(rows, number) for number, rows in enumerate(groups, 1))
    return Section("curves", "Seeds and learning curves", words, blocks=blocks)


def _all_records(records: Sequence[RunRecord]) -> Section:
    title = f"All {len(records)} records"
    rows = tuple(record_rows(records))
    notes = ("A published number in brackets was reached on other features.",)
    table = TextTable("records-table", title, RECORD_HEADS, rows, notes, left=3, folded=True)
    return Section("records", "All records", tables=(table,))
