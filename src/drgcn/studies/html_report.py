"""One self-contained page from run records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment

from drgcn.studies.comparison import Results, gain, summarize, verdict
from drgcn.studies.figures import Rows, comparison_figure, to_svg
from drgcn.studies.run_record import RunRecord
from drgcn.studies.tables import merge


def write_report(records: Sequence[RunRecord], path: Path, *, title: str) -> Path:
    """Writes a page with a section per dataset and split; returns its path."""
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for record, seeds in merge(records):
        groups[record.data["name"], record.data["split"]].append((record, seeds))
    sections = [_section(name, split, rows) for (name, split), rows in groups.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    template = resources.files("drgcn.studies").joinpath("report.html.jinja").read_text("utf-8")
    page = (
        Environment(autoescape=True).from_string(template).render(title=title, sections=sections)
    )
    path.write_text(page, encoding="utf-8")
    return path


def _section(name: str, split: str, rows: Rows) -> dict[str, Any]:
    data, where = rows[0][0].data, rows[0][0].environment
    gate_rows = [(record, seeds) for record, seeds in rows if _is_gate_row(record)]
    gates = {record.experiment.reweight: seeds for record, seeds in gate_rows}
    complete = {None, "dr", "static", "constant"} <= gates.keys()
    counts = "{nodes:,} nodes, {edges:,} edges, {features:,} features, {classes} classes"
    parts = "{train:,} / {val:,} / {test:,} nodes to train, validate, test"
    return {
        "title": f"{name} ({split} split)",
        "facts": f"{counts}; {parts}.".format_map(data),
        "rows": [_cells(record, seeds, gates.get(None)) for record, seeds in rows],
        "verdict": verdict(gates) if complete else None,
        "figure": to_svg(comparison_figure({f"{name}, {split}": gate_rows})) if gate_rows else "",
        "provenance": f"Data {data['content_hash']}; {where['device']}, torch {where['torch']}, "
        f"PyG {where['torch_geometric']}, drgcn {where['drgcn']} ({where['source']}).",
    }


def _cells(record: RunRecord, seeds: Results, plain: Results | None) -> list[str | int]:
    summary = summarize(seeds)
    return [
        record.experiment.label,
        f"{summary.mean:.2f} ± {summary.std:.2f}",
        "" if plain is None or plain is seeds else str(gain(seeds, plain)),
        " ".join(f"{value:.2f}" for value in summary.k),
        round(summary.best_epoch),
        summary.seeds,
    ]


def _is_gate_row(record: RunRecord) -> bool:
    return record.experiment.norm is None and not record.experiment.pre_activation
