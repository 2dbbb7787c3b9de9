"""One self-contained page from run records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment

from drgcn.studies.comparison import Results, gain, k_words, summarize, verdict
from drgcn.studies.experiment import Experiment
from drgcn.studies.recipes import unusual
from drgcn.studies.report.figures import comparison_figure, to_svg
from drgcn.studies.report.k_table import HEADS, k_rows, mean_saturation, share_words
from drgcn.studies.report.tables import Row, data_name, gate_groups, published_cell, row_name
from drgcn.studies.run_record import RunRecord


def write_report(
    records: Sequence[RunRecord], path: Path, *, title: str, caveat: str = ""
) -> Path:
    """Writes a page with a section per dataset and split, then learnt K; returns its path.

    A ``caveat`` stands below every verdict.
    """
    sections = [_section(rows) for rows in gate_groups(records)]
    gates = [row.cells for row in k_rows(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    template = (resources.files(__package__) / "report.html.jinja").read_text("utf-8")
    page = (
        Environment(autoescape=True)
        .from_string(template)
        .render(title=title, sections=sections, gates=gates, gate_heads=HEADS, caveat=caveat)
    )
    path.write_text(page, encoding="utf-8")
    return path


def _section(gates: dict[str | None, Row]) -> dict[str, Any]:
    rows = list(gates.values())
    record = rows[0][0]
    data, where, experiment = record.data, record.environment, record.experiment
    results = {gate: seeds for gate, (_, seeds) in gates.items()}
    complete = {None, "dr", "static", "constant"} <= gates.keys()
    counts = "{nodes:,} nodes, {edges:,} edges, {features:,} features, {classes} classes"
    parts = "{train:,} / {val:,} / {test:,} nodes to train, validate, test"
    plain = replace(record, experiment=replace(experiment, reweight=None))
    title = f"{data_name(record)}, split {data['split']}: {row_name(plain)}"
    return {
        "title": title,
        "metric": data.get("metric", "accuracy"),
        "facts": f"{counts}; {parts}.{_training(experiment)}".format_map(data),
        "rows": [_cells(row, seeds, results.get(None)) for row, seeds in rows],
        "verdict": verdict(results) if complete else None,
        "figure": to_svg(comparison_figure({title: rows})),
        "provenance": f"Data {data['content_hash']}; {where['device']}, torch {where['torch']}, "
        f"PyG {where['torch_geometric']}, drgcn {where['drgcn']} ({where['source']}).",
    }


def _training(experiment: Experiment) -> str:
    return f" Departing from the usual training: {unusual(experiment)}." * bool(
        unusual(experiment)
    )


def _cells(record: RunRecord, seeds: Results, plain: Results | None) -> list[str | int]:
    summary = summarize(seeds)
    return [
        record.experiment.label,
        f"{summary.mean:.2f}" + (f" ± {summary.std:.2f}" if summary.seeds > 1 else ""),
        published_cell(record),
        "" if plain is None or plain is seeds or summary.seeds < 2 else str(gain(seeds, plain)),
        k_words(summary.k),
        share_words(mean_saturation(seeds)),
        round(summary.best_epoch),
        summary.seeds,
    ]
