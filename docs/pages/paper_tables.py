"""The paper's tables filled from run records, and which of its numbers are reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drgcn.records import BaselineRecord
from drgcn.reporting.tables import Table
from drgcn.stats import Summary
from drgcn.studies.comparison import summarize
from drgcn.studies.experiment import unusual
from drgcn.studies.paper.page import Published, PublishedK, paper_k, paper_table_of, published
from drgcn.studies.paper.table import PaperTable, PrintedNumber
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import (
    Row,
    data_name,
    data_remarks,
    gain_words,
    merge,
    rebuilt,
    scaled_as_published,
)
from drgcn.studies.report.verdicts import CellRows, Verdict, judge_number


def paper_table(
    records: Sequence[RunRecord], name: str, baselines: Iterable[BaselineRecord] = ()
) -> str:
    """The accuracies of one of the paper's tables in Markdown: models down, datasets across.

    Only records of the usual training count, and one per cell: where features can be scaled in
    several ways, the one whose plain GCN has the highest validation accuracy. A model that was
    published on features scaled in another way says so in its cell.

    Args:
        records: All records at hand.
        name: One of :data:`drgcn.studies.paper.page.RESULTS`.
        baselines: Records of methods that are run apart; fewer than 20 seeds are said.
    """
    rows: dict[str, dict[tuple[str, str], PrintedNumber | None]] = {}
    for cell in paper_table_of(name).cells:
        if cell.quantity == "test" and cell.label and cell.dataset and cell.split:
            rows.setdefault(cell.label, {})[cell.dataset, cell.split] = cell.printed
    columns = list(next(iter(rows.values())))
    ours, names = _cells(records)
    ours |= _baseline_cells(paper_table_of(name), baselines)
    heads = [", ".join((names.get(place, place[0]), place[1])) for place in columns]
    lines = []
    for label, printed in rows.items():
        cells = [_cell(ours.get((*place, label)), number) for place, number in printed.items()]
        lines.append([label, *cells])
    return Table(["", *heads], lines).markdown("cells")


def rules_table(records: Sequence[RunRecord]) -> str:
    """Records with a test curve under three rules of reporting, of which the first is the result.

    Args:
        records: All records at hand.
    """
    lines = []
    for record, seeds in merge(records):
        if not record.experiment.test_curve:
            continue
        rules = [
            [getattr(result, name) for result in seeds.values()]
            for name in ("test_accuracy", "best_renewed_test", "best_test")
        ]
        shown = [Summary.of([100 * value for value in values]).words(1) for values in rules]
        printed = published(record.experiment)
        number = "" if printed is None else f"{printed.mean}"
        row = ", ".join((data_name(record), record.experiment.split))
        lines.append([row, record.experiment.label, *shown, number, str(len(seeds))])
    heads = (
        "",
        "model",
        "**by validation: the result**",
        "best test among renewals of validation (reads test labels)",
        "best test of all epochs (reads test labels)",
        "printed",
        "seeds",
    )
    return Table(heads, lines, left=2).markdown() if lines else "Not run yet."


def _baseline_cells(
    table: PaperTable, records: Iterable[BaselineRecord]
) -> dict[tuple[str, str, str], str]:
    """Accuracies of methods that are run apart, by dataset, split and row."""
    rows = CellRows([], baselines=records)
    found = {}
    for cell in table.cells:
        if cell.baseline is not None and (values := rows.values(cell)):
            few = not cell.exact and len(values) < table.seeds
            words = Summary.of(values).words(1) + (f" [seeds: {len(values)}]" if few else "")
            found[str(cell.dataset), str(cell.split), str(cell.label)] = words
    return found


def usual_rows(records: Sequence[RunRecord]) -> list[Row]:
    """Records of the usual training, on features scaled as published."""
    return [
        (record, seeds)
        for record, seeds in merge(records)
        if not unusual(record.experiment) and scaled_as_published(record)
    ]


def _cells(
    records: Sequence[RunRecord],
) -> tuple[dict[tuple[str, str, str], str], dict[tuple[str, str], str]]:
    """Accuracies by dataset, split and row, and what to call each dataset."""
    rows = usual_rows(records)
    content: dict[tuple[str, str], tuple[float, str]] = {}
    names: dict[tuple[str, str], str] = {}
    for record, seeds in rows:
        if record.experiment.label == "gcn":
            place = (record.data["name"], record.data["split"])
            found = (summarize(seeds).val_mean, record.data["content_hash"])
            if found > content.get(place, (0.0, "")):
                content[place], names[place] = found, data_name(record)
    ours: dict[tuple[str, str, str], str] = {}
    # Those on the column's own data come last, and so are the ones that stay.
    rows.sort(key=lambda row: row[0].data["content_hash"] in [c for _, c in content.values()])
    for record, seeds in rows:
        place = (record.data["name"], record.data["split"])
        name = names.setdefault(place, data_name(record))
        summary = summarize(seeds)
        words = summary.words(1)
        if data_name(record) != name:
            words += f" [{', '.join(data_remarks(record))}]"
        ours[*place, record.experiment.label] = words
    return ours, names


def _cell(ours: str | None, printed: PrintedNumber | None) -> str:
    if printed is None:
        return ours or ""
    return f"{ours or '-'} ({printed})"


HEADS = ("dataset", "split", "K, layer 1", "K, layer 2", "Dr - plain [95 %]")


def paper_k_table(records: Sequence[RunRecord]) -> str:
    """Table 5 in Markdown, one line per dataset: learnt K of Dr-ASGCN, and what Dr added.

    Args:
        records: All records at hand; those of ASGCN in its usual training count.
    """
    rows: dict[tuple[str, str, str], Row] = {}
    for record, seeds in usual_rows(records):
        key = (record.data["name"], record.data["split"], record.experiment.label)
        rows[key] = (record, seeds)
    lines = []
    for place, printed in paper_k().items():
        plain, dr = (rows.get((*place, label)) for label in ("asgcn", "asgcn + dr"))
        name = place[0] if dr is None else data_name(dr[0])
        lines.append([name, place[1], *_k_cells(plain, dr, printed)])
    return Table(HEADS, lines).markdown("cells")


def _k_cells(plain: Row | None, dr: Row | None, printed: PublishedK) -> list[str]:
    ours = ["-", "-"] if dr is None else [f"{k:.2f}" for k in summarize(dr[1]).k]
    over = "-" if plain is None or dr is None else gain_words(dr, plain)
    words = [f"{mine} ({theirs:.2f})" for mine, theirs in zip(ours, printed.k, strict=True)]
    return [*words, f"{over} ({printed.gain:+.2f})"]


@dataclass(frozen=True)
class Standing:
    """A row of ours beside its published number.

    Attributes:
        dataset: Name of the dataset.
        split: Its split.
        model: The model, by the name of its recipe.
        label: The row's name.
        mean: Our test accuracy in percent.
        printed: What the paper prints.
        verdict: By :func:`drgcn.studies.report.verdicts.judge_number`.
    """

    dataset: str
    split: str
    model: str
    label: str
    mean: float
    printed: Published
    verdict: Verdict

    def __str__(self) -> str:
        return (
            f"{self.label} on {self.dataset} ({self.split}) has {self.mean:.2f} where "
            f"{self.printed} is printed"
        )


def standings(records: Sequence[RunRecord]) -> list[Standing]:
    """All rows that have a published number for the very same features."""
    found = []
    for record, seeds in usual_rows(records):
        printed = published(record.experiment)
        if printed is None or rebuilt(record):
            continue
        values = [100 * result.test_accuracy for result in seeds.values()]
        _, verdict = judge_number(values, printed.mean, printed.std, printed.decimals)
        ran, mean = record.experiment, summarize(seeds).mean
        found.append(
            Standing(ran.dataset, ran.split, ran.model, ran.label, mean, printed, verdict)
        )
    return found


def reached_words(found: Sequence[Standing], what: str, *, names: bool = True) -> str:
    """How many are reached or exceeded, how many are within, and which are not reached.

    Args:
        found: The rows to speak of.
        what: What they are, in words.
        names: Whether to list those that are not reached.
    """
    verdicts = [row.verdict for row in found]
    within, above = verdicts.count("reproduced"), verdicts.count("above")
    short = [str(row) for row in found if row.verdict == "below"]
    missed = f" Below: {'; '.join(short)}." if short and names else ""
    return (
        f"Of {len(found)} numbers the paper prints for {what}, on data at hand, "
        f"{within + above} are reached or exceeded: {within} are within (the 95 % interval of the "
        f"difference, widened by what rounding to the printed digits hides, holds zero) and "
        f"{above} above; {len(short)} {'is' if len(short) == 1 else 'are'} below.{missed}"
    )
