"""The paper's tables, filled from run records: ours first, the printed number in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.comparison import summarize
from drgcn.studies.paper.all_tables import paper_table_of
from drgcn.studies.paper.printed_number import PrintedNumber
from drgcn.studies.recipes import unusual
from drgcn.studies.report.tables import Row, data_name, data_remarks, merge, scaled_as_published
from drgcn.studies.run_record import RunRecord


def paper_table(records: Sequence[RunRecord], name: str) -> str:
    """The accuracies of one of the paper's tables in Markdown: models down, datasets across.

    Only records of the usual training count, and one per cell: where features can be scaled in
    several ways, the one whose plain GCN has the highest validation accuracy. A model that was
    published on features scaled in another way says so in its cell.

    Args:
        records: All records at hand.
        name: One of :data:`drgcn.studies.paper.published.RESULTS`.
    """
    rows: dict[str, dict[tuple[str, str], PrintedNumber | None]] = {}
    for cell in paper_table_of(name).cells:
        if cell.quantity == "test" and cell.label and cell.dataset and cell.split:
            rows.setdefault(cell.label, {})[cell.dataset, cell.split] = cell.printed
    columns = list(next(iter(rows.values())))
    ours, names = _cells(records)
    heads = [", ".join((names.get(place, place[0]), place[1])) for place in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(columns) + 1) + "|"]
    for label, printed in rows.items():
        cells = [_cell(ours.get((*place, label)), number) for place, number in printed.items()]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
