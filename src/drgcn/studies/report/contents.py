"""Everything a report says, and the page and Markdown that it is written as."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drgcn._format import duration, plural
from drgcn._io import write_whole
from drgcn.errors import InputError, warn
from drgcn.records import BaselineRecord
from drgcn.reporting.charts import count_bars
from drgcn.reporting.page import write_html
from drgcn.reporting.tables import Table, without_tags
from drgcn.stats import LEVEL, Correlation, Sign
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.paper.table import PaperTable
from drgcn.studies.records import RunRecord
from drgcn.studies.report.comparisons import (
    ComparisonBlock,
    comparison_block,
    correlation,
    gain_chart,
    with_k,
)
from drgcn.studies.report.gate_tests import (
    Family,
    apart_table,
    decide_groups,
    families,
    gain_rows,
    gain_rows_chart,
    gate_test_table,
    panel_sizes,
    words,
)
from drgcn.studies.report.measurements import MISSING, epoch_time_table, k_table, spectrum_table
from drgcn.studies.report.tables import (
    RECORD_HEADS,
    above_guess,
    gate_groups,
    merge,
    record_rows,
    rows_by_build,
    setting_name,
)
from drgcn.studies.report.verdicts import (
    PAPER_RUNS,
    CellRows,
    CellVerdict,
    FailedJobs,
    JudgedTable,
    Verdict,
    compared,
    count_verdicts,
    judged_tables,
    overview,
    published_chart,
)
from drgcn.studies.reproduce.jobs import SuiteRecord

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
#: Few comparisons are told one by one and shown at once; many are counted and folded.
FEW: Final = 4


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        name: Its anchor.
        title: Its heading.
        words: What stands above its tables.
        tables: Its tables.
        charts: Its pictures, as SVG; a part with pictures is not folded.
        on_phone: The same pictures for a narrow screen; none if they fit as they are.
        blocks: Comparisons with pictures of their own.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[str, ...] = ()
    on_phone: tuple[str, ...] = ()
    blocks: tuple[ComparisonBlock, ...] = ()


@dataclass(frozen=True)
class ResultCounts:
    """The paper's printed results, counted.

    Attributes:
        printed: How many there are, each as often as it is printed.
        of: How many have each verdict.
        lacking: How many of those not run need data that is not at hand, or is private.
    """

    printed: int
    of: Mapping[Verdict, int]
    lacking: int = 0

    @property
    def comparable(self) -> int:
        """Results that can be compared with ours."""
        return self.of["reproduced"] + self.of["above"] + self.of["below"]


@dataclass(frozen=True)
class Facts:
    """Counts and tests that the first lines of a report are made from.

    Attributes:
        networks: Number of trained networks.
        experiments: Number of experiments.
        models: Number of models.
        datasets: Number of datasets.
        families: Dr against each other row.
        results: The paper's results; ``None`` if nothing of it was trained.
        counted: Counts of data that records have.
        printed_counts: Number of the counts of data that the paper prints.
        correlation: Of the gain over plain and K.
        guesses: Settings in which no row is better than a guess.
    """

    networks: int
    experiments: int
    models: int
    datasets: int
    families: tuple[Family, ...] = ()
    results: ResultCounts | None = None
    counted: tuple[CellVerdict, ...] = ()
    printed_counts: int = 0
    correlation: Correlation | None = None
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contents:
    """A report.

    Attributes:
        headline: The verdict on many settings in one sentence; empty for a few.
        verdicts: Setting and verdict of each of a few comparisons; none of many.
        findings: What stands beside it, one sentence each: a name, a colon and the rest.
        picture: The counts of the verdict, as SVG; empty if there are none.
        sections: All parts, in order.
    """

    headline: str
    verdicts: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]
    picture: str
    sections: tuple[Section, ...]

    @property
    def lines(self) -> list[str]:
        """All it says first, for a form without pictures."""
        verdicts = [f"{setting}. {verdict}" for setting, verdict in self.verdicts]
        return [*filter(None, [self.headline]), *verdicts, *self.findings]

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
    every = families(records)
    facts = gather_facts(records, judged, every)
    blocks = _blocks(records)
    verdicts = tuple((block.title, block.verdict[0]) for block in blocks if block.verdict)
    plain = every[None]
    few = bool(verdicts) and len(blocks) <= FEW and len(verdicts) >= len(plain.tests)
    sections = [
        _gains(records),
        _published(judged),
        _gain_and_k(plain, facts),
        _tests(every),
        _paper(judged),
        Section("curves", "Seeds and learning curves", tuple(words("curves")), blocks=blocks),
        _gates(records),
        _time(records, suites),
        _where(records, suites),
        _all_records(records),
        Section(
            "reading", "How to read this", tuple(words("reading", runs=PAPER_RUNS, level=LEVEL))
        ),
    ]
    counted = not few and bool(plain.tests)
    return Contents(
        headline=words("headline", plain=plain)[0] if counted else "",
        verdicts=verdicts if few else (),
        findings=tuple(words("findings", facts=facts, counted=counted, few=few)),
        picture=_count_picture(every) if counted else "",
        sections=tuple(section for section in sections if section is not None),
    )


def gather_facts(
    records: Sequence[RunRecord],
    judged: Sequence[JudgedTable],
    every: Mapping[str | None, Family],
) -> Facts:
    """Count what was trained, what it says about Dr, and what of the paper it reproduces."""
    rows = merge(records)
    trained = [one for table in judged if not table.counts_data for one in table.found]
    printed = [one for one in trained if one.cell.printed is not None]
    data = [one for table in judged if table.counts_data for one in table.found]
    of_paper = any(one.trained for one in judged)
    return Facts(
        networks=sum(len(seeds) for _, seeds in rows),
        experiments=len(rows),
        models=len({record.experiment.model for record, _ in rows}),
        datasets=len({str(record.data["name"]) for record, _ in rows}),
        families=tuple(every.values()),
        results=_result_counts(printed) if of_paper else None,
        counted=tuple(one for one in data if one.values) if of_paper else (),
        printed_counts=len(data),
        correlation=correlation(with_k(every[None].tests)),
        guesses=tuple(
            setting_name(next(iter(group.values()))[0])
            for group in gate_groups(records)
            if not any(map(above_guess, group.values()))
        ),
    )


def _result_counts(printed: Sequence[CellVerdict]) -> ResultCounts:
    lacking = [one for one in printed if one.cell.state in ("needs data", "private")]
    missing = sum(one.verdict == "not run" for one in lacking)
    return ResultCounts(len(printed), count_verdicts(printed), missing)


def _count_picture(every: Mapping[str | None, Family]) -> str:
    shown = [family for family in every.values() if family.tests]
    signs: tuple[Sign, ...] = ("down", "unsure", "up")
    counts: list[Mapping[str, int]] = [{s: family.count(s) for s in signs} for family in shown]
    names = [f"Dr against the {family.other}" for family in shown]
    alt = "; ".join(
        f"{name}: {each['down']} surely worse, {each['unsure']} not sure, "
        f"{each['up']} surely better"
        for name, each in zip(names, counts, strict=True)
    )
    return count_bars(names, counts, alt)


def _gains(records: Sequence[RunRecord]) -> Section | None:
    rows = gain_rows(records)
    if not rows:
        return None
    return Section(
        "gains",
        "What Dr gains, setting by setting",
        tuple(words("gains", sizes=panel_sizes(rows), level=LEVEL)),
        charts=(gain_rows_chart(rows),),
        on_phone=(gain_rows_chart(rows, phone=True),),
    )


def _published(judged: Sequence[JudgedTable]) -> Section | None:
    found = compared(judged)
    if not found or not any(one.trained for one in judged):
        return None
    return Section(
        "published",
        "Published against ours",
        tuple(words("published")),
        charts=(published_chart(found),),
        on_phone=(published_chart(found, phone=True),),
    )


def _gain_and_k(plain: Family, facts: Facts) -> Section | None:
    points = with_k(plain.tests)
    if len(points) < 3:
        return None
    told = tuple(words("k", found=facts.correlation))
    wide, small = gain_chart(points), gain_chart(points, phone=True)
    return Section("gain", "Gain against K", told, charts=(wide,), on_phone=(small,))


def _time(records: Sequence[RunRecord], suites: Sequence[SuiteRecord]) -> Section:
    table = epoch_time_table(records, suites)
    return Section("time", "Time of an epoch", tables=(table,))


def _where(records: Sequence[RunRecord], suites: Sequence[SuiteRecord]) -> Section:
    whole = suite_table(suites)
    tables = (device_table(records), *([] if whole is None else [whole]))
    versions = (f"Versions: {version_words(records)}",)
    return Section("where", "Hardware, versions, wall time", versions, tables)


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


def _tests(every: Mapping[str | None, Family]) -> Section | None:
    tables = [gate_test_table(family) for family in every.values() if family.tests]
    if (apart := apart_table(list(every.values()))) is not None:
        tables.append(apart)
    if not tables:
        return None
    return Section("dr", "Dr against each other gate", tuple(words("dr")), tuple(tables))


def _gates(records: Sequence[RunRecord]) -> Section | None:
    table = k_table(records)
    if table is None:
        return None
    spectrum = spectrum_table(records)
    if spectrum is None:
        return Section("gates", "Learnt gates", (MISSING,), (table,))
    return Section("gates", "Learnt gates", tables=(table, spectrum))


def _blocks(records: Sequence[RunRecord]) -> tuple[ComparisonBlock, ...]:
    groups = gate_groups(records)
    decided = decide_groups(groups)
    return tuple(
        comparison_block(rows, found, number)
        for number, (rows, found) in enumerate(zip(groups, decided, strict=True), 1)
    )


def _all_records(records: Sequence[RunRecord]) -> Section:
    title = f"All {len(records)} records"
    rows = tuple(record_rows(records))
    notes = ("A published number in brackets was reached on other features.",)
    table = Table(RECORD_HEADS, rows, "records-table", title, notes, left=3)
    return Section("records", title, tables=(table,))


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
            warn(f"left out a damaged suite. {error}")
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
    return write_html(
        path,
        __package__,
        "report.html.jinja",
        title=title,
        caveat=caveat,
        report=found,
        few=sum(len(section.blocks) for section in found.sections) <= FEW,
    )


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Write a report as Markdown, without its pictures; return its path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.lines)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [table.markdown_section() for table in section.tables]
    return write_whole(path, without_tags("\n\n".join(parts)) + "\n")
