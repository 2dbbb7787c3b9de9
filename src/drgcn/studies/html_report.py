"""One self-contained page from run records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment

from drgcn.studies.comparison import gain, summarize, verdict
from drgcn.studies.figures import Rows, comparison_figure, to_svg
from drgcn.studies.run_record import RunRecord
from drgcn.studies.tables import merge

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child { text-align: left } .verdict { font-weight: 600 } .small { color: #666; font-size: .85rem } svg { max-width: 100%; height: auto }
</style></head><body>
<h1>{{ title }}</h1>
{% for section in sections %}
<h2>{{ section.title }}</h2>
<p>{{ section.facts }}</p>
<table><tr><th>model</th><th>test accuracy %</th><th>gain over plain [95 %]</th><th>K per layer</th><th>best epoch</th><th>seeds</th></tr>
{% for row in section.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% if section.verdict %}<p class="verdict">{{ section.verdict }}</p>{% endif %}
{{ section.figure }}
<p class="small">{{ section.provenance }}</p>
{% endfor %}
<p class="small">Means with standard deviations (n - 1) over seeds. Intervals are 95 % t-intervals of the
difference paired by seed. Every seed was tested once, at its best validation epoch.
K is the variance across feature dimensions after reweighting, relative to before.</p>
</body></html>
"""


def write_report(records: Sequence[RunRecord], path: Path, *, title: str) -> Path:
    """Writes a page with a section per dataset and split; returns its path."""
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for record, seeds in merge(records):
        groups[record.data["name"], record.data["split"]].append((record, seeds))
    sections = [_section(name, split, rows) for (name, split), rows in groups.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    page = Environment(autoescape=True).from_string(_PAGE).render(title=title, sections=sections)
    path.write_text(page, encoding="utf-8")
    return path


def _section(name: str, split: str, rows: Rows) -> dict[str, Any]:
    from markupsafe import Markup

    data, where = rows[0][0].data, rows[0][0].environment
    plain = next((seeds for record, seeds in rows if _is_plain(record)), None)
    cells = []
    for record, seeds in rows:
        summary = summarize(seeds)
        over = "" if plain is None or seeds is plain else str(gain(seeds, plain))
        k = " ".join(f"{value:.2f}" for value in summary.k)
        accuracy = f"{summary.mean:.2f} ± {summary.std:.2f}"
        cells.append([record.experiment.label, accuracy, over, k, round(summary.best_epoch), len(seeds)])
    gates = {r.experiment.reweight: s for r, s in rows if _is_gate_row(r)}
    complete = {None, "dr", "static", "constant"} <= gates.keys()
    gate_rows = [(r, s) for r, s in rows if _is_gate_row(r)]
    figure = Markup(to_svg(comparison_figure({f"{name}, {split}": gate_rows}))) if gate_rows else ""  # noqa: S704
    return {
        "title": f"{name} ({split} split)",
        "facts": f"{data['nodes']:,} nodes, {data['edges']:,} edges, {data['features']:,} features, "
        f"{data['classes']} classes; {data['train']:,} / {data['val']:,} / {data['test']:,} nodes "
        f"to train, validate, test.",
        "rows": cells,
        "verdict": verdict(gates) if complete else None,
        "figure": figure,
        "provenance": f"data {data['content_hash']}; {where['device']}, torch {where['torch']}, "
        f"PyG {where['torch_geometric']}, drgcn {where['drgcn']} ({where['source']}).",
    }


def _is_gate_row(record: RunRecord) -> bool:
    return record.experiment.norm is None and not record.experiment.pre_activation


def _is_plain(record: RunRecord) -> bool:
    return _is_gate_row(record) and record.experiment.reweight is None
