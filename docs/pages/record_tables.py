"""Tables of run records that only pages have: gates, variants, and settings that were tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drgcn.reporting.tables import Table
from drgcn.studies.comparison import GATES, k_words, summarize
from drgcn.studies.experiment import MODELS
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import (
    RECORD_HEADS,
    Row,
    data_name,
    gain_words,
    gate_groups,
    merge,
    one_build,
    published_cell,
    record_rows,
    row_name,
)

#: Mark of a number of another build than the others beside it.
OTHER = " †"


def markdown_table(records: Sequence[RunRecord]) -> str:
    """:func:`record_rows` in Markdown."""
    return Table(RECORD_HEADS, record_rows(records)).markdown("cells")


def gate_table(records: Sequence[RunRecord]) -> str:
    """One line per dataset: plain, Dr and the control gates, beside what the paper printed."""
    heads = ["data", "model", "plain", "Dr", "static", "constant"]
    heads += ["Dr over plain [95 %]", "paper: plain", "paper: Dr"]
    lines = []
    for rows in gate_groups(records):
        if set(GATES) <= rows.keys():
            plain = rows[None][0]
            cells = [f"{data_name(plain)}, {plain.data['split']}", row_name(plain)]
            cells += [
                summarize(rows[gate][1]).words(1)
                + ("" if one_build(rows[gate], rows["dr"]) else OTHER)
                for gate in GATES
            ]
            cells += [gain_words(rows["dr"], rows[None])]
            cells += [published_cell(rows[gate][0]) for gate in (None, "dr")]
            lines.append(cells)
    return _with_note(Table(heads, lines), "Another build than that of Dr.")


def variant_table(records: Sequence[RunRecord]) -> str:
    """Models with what can stand in front of their layers, each against the same one plain."""
    heads = ("dataset", "model", "test accuracy %", "over plain [95 %]", "K per layer", "seeds")
    lines = []
    rows = merge(records)
    plain = {_bare(row[0]): row for row in rows if _is_plain(row[0])}
    for record, seeds in rows:
        base = plain.get(_bare(record))
        over = ""
        if base is not None and not _is_plain(record):
            over = gain_words((record, seeds), base)
        cells = [data_name(record), row_name(record), summarize(seeds).words(2), over]
        cells += [k_words(summarize(seeds).k), str(len(seeds))]
        lines.append(cells)
    return Table(heads, lines).markdown("cells")


def search_table(records: Sequence[RunRecord]) -> str:
    """Table of the settings tried, by dataset and model, the best on validation first.

    Settings tried by another build than that of the first are marked.
    """
    heads = ("dataset", "split", "tried", "validation accuracy %", "test accuracy %")
    lines = []
    rows = [(record, seeds, summarize(seeds)) for record, seeds in merge(records)]
    rows.sort(key=lambda row: (row[0].data["name"], *_model(row[0]), -row[2].val_mean))
    first: dict[tuple[str, int, bool], Row] = {}
    for record, seeds, summary in rows:
        chosen = first.setdefault((data_name(record), *_model(record)), (record, seeds))
        other = "" if one_build((record, seeds), chosen) else OTHER
        cells = [data_name(record), record.data["split"], row_name(record)]
        cells += [f"{summary.val_mean:.2f}{other}", summarize(seeds).words(1)]
        lines.append(cells)
    return _with_note(Table(heads, lines), "Another build than that of the first row of the set.")


def _with_note(table: Table, note: str) -> str:
    """The table in Markdown, with what its mark says if it has one."""
    text = table.markdown("cells")
    return f"{text}\n\n{OTHER.strip()} {note}" if OTHER in text else text


def _is_plain(record: RunRecord) -> bool:
    ran = record.experiment
    return ran.norm is None and ran.reweight is None and not ran.pre_activation


def _bare(record: RunRecord) -> str:
    """The same training on the same data with nothing in front of the layers."""
    ran = replace(record.experiment, norm=None, reweight=None, pre_activation=False)
    return ran.identity(record.data["content_hash"])


def _model(record: RunRecord) -> tuple[int, bool]:
    """Sort key of a row among those of its dataset: models in order, plain ones first."""
    return MODELS.index(record.experiment.model), not _is_plain(record)
