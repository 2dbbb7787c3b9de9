"""What the quirks of AS-GCN's code do to its accuracy, one by one and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drgcn.studies.comparison import Gain, gain, summarize
from drgcn.studies.recipes import recipe
from drgcn.studies.report.tables import Row, data_name, merge
from drgcn.studies.run_record import RunRecord

HEADS: Final = (
    *("dataset", "model", "options", "validation accuracy %", "test accuracy %"),
    "over no quirk [95 %]",
)
_VARIANCE: Final = "divide_variance"


def quirk_table(records: Sequence[RunRecord]) -> str:
    """One line for every choice of options, against the model without any of them.

    Args:
        records: What was tried; those of other models than ASGCN are left out.
    """
    rows = _rows(records)
    plain = {_family(row): row for row in rows if not row[0].experiment.options}
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    for row in sorted(rows, key=lambda row: (*_family(row), len(row[0].experiment.options))):
        record, seeds = row
        summary, base = summarize(seeds), plain.get(_family(row), row)
        cells = [data_name(record), record.experiment.label, _words(record)]
        cells += [f"{summary.val_mean:.2f}", summary.words(2)]
        cells += ["" if base is row else str(gain(seeds, base[1]))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def variance_words(records: Sequence[RunRecord]) -> str:
    """What the term of the code adds that is called a variance and is none."""
    sentences = []
    rows = {(*_family(row), _words(row[0])): row for row in _rows(records)}
    for (dataset, label, options), (_, seeds) in rows.items():
        if options != _VARIANCE.replace("_", " "):
            continue
        true = rows[dataset, label, "none"][1]
        over: Gain = gain(seeds, true)
        val = summarize(seeds).val_mean - summarize(true).val_mean
        sentences.append(f"{label} on {dataset}: {over} points on test, {val:+.2f} on validation")
    return "The code's term against the true variance, nothing else changed: " + (
        "; ".join(sentences) + "."
    )


def _rows(records: Sequence[RunRecord]) -> list[Row]:
    return [row for row in merge(records) if row[0].experiment.model == "asgcn"]


def _family(row: Row) -> tuple[str, str]:
    return row[0].data["name"], row[0].experiment.label


def _words(record: RunRecord) -> str:
    ran = record.experiment
    if not ran.options:
        return "none"
    names = ", ".join(
        name.replace("_", " ") + ("" if value is True else f" {value}")
        for name, value in ran.options.items()
    )
    usual = recipe(ran.dataset, ran.split, ran.model).options
    return f"{names} (as the code)" if ran.options == usual else names
