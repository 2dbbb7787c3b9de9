"""The paper's tables, filled from run records: ours first, the printed number in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.comparison import summarize
from drgcn.studies.published import PAPER_TABLES
from drgcn.studies.recipes import unusual
from drgcn.studies.run_record import RunRecord
from drgcn.studies.tables import data_name, merge


def paper_table(records: Sequence[RunRecord], table: str) -> str:
    """One of the paper's tables, with its rows and columns, in Markdown.

    Only records of the usual training count, and one per cell: where features can be scaled in
    several ways, the one whose plain model has the highest validation accuracy.

    Args:
        records: All records at hand.
        table: A key of :data:`drgcn.studies.published.PAPER_TABLES`.
    """
    columns, rows = PAPER_TABLES[table]
    ours, names = _cells(records)
    heads = [names.get(place, f"{place[0]}, {place[1]}") for place in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(columns) + 1) + "|"]
    for label, printed in rows.items():
        cells = [
            _cell(ours.get((*place, label)), number)
            for place, number in zip(columns, printed, strict=True)
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(
    records: Sequence[RunRecord],
) -> tuple[dict[tuple[str, str, str], str], dict[tuple[str, str], str]]:
    """Accuracies by dataset, split and row, and what to call each dataset and split."""
    merged = [pair for pair in merge(records) if not unusual(pair[0].experiment)]
    chosen: dict[tuple[str, str], tuple[float, str]] = {}
    for record, seeds in merged:
        if record.experiment.label == "gcn":
            place = (record.data["name"], record.data["split"])
            found = (summarize(seeds).val_mean, record.data["content_hash"])
            chosen[place] = max(chosen.get(place, (0.0, "")), found)
    ours, names = {}, {}
    for record, seeds in merged:
        place = (record.data["name"], record.data["split"])
        if chosen.get(place, (0.0, record.data["content_hash"]))[1] != record.data["content_hash"]:
            continue
        summary = summarize(seeds)
        ours[*place, record.experiment.label] = f"{summary.mean:.1f} ± {summary.std:.1f}"
        names[place] = f"{data_name(record)}, {place[1]}"
    return ours, names


def _cell(ours: str | None, printed: float | tuple[float, float] | None) -> str:
    if printed is None:
        return ours or ""
    words = f"{printed[0]} ± {printed[1]}" if isinstance(printed, tuple) else str(printed)
    return f"{ours or '-'} ({words})"
