"""The paper's table of K, filled from run records: ours first, the printed number in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.comparison import gain, summarize
from drgcn.studies.paper.published_k import PublishedK, paper_k
from drgcn.studies.paper.tables import usual_rows
from drgcn.studies.report.tables import Row, data_name
from drgcn.studies.run_record import RunRecord

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
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    for place, printed in paper_k().items():
        plain, dr = (rows.get((*place, label)) for label in ("asgcn", "asgcn + dr"))
        name = place[0] if dr is None else data_name(dr[0])
        lines.append("| " + " | ".join([name, place[1], *_cells(plain, dr, printed)]) + " |")
    return "\n".join(lines)


def _cells(plain: Row | None, dr: Row | None, printed: PublishedK) -> list[str]:
    ours = ["-", "-"] if dr is None else [f"{k:.2f}" for k in summarize(dr[1]).k]
    over = "-" if plain is None or dr is None else str(gain(dr[1], plain[1]))
    words = [f"{mine} ({theirs:.2f})" for mine, theirs in zip(ours, printed.k, strict=True)]
    return [*words, f"{over} ({printed.gain:+.2f})"]
