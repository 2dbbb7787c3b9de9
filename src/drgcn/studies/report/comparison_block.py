"""One comparison of gates: its rows, its verdict, and pictures of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drgcn.studies.comparison import Results, gain, k_words, summarize, verdict
from drgcn.studies.recipes import unusual
from drgcn.studies.report.k_table import mean_saturation, share_words
from drgcn.studies.report.row_charts import row_charts
from drgcn.studies.report.tables import GATES, Row, data_name, published_cell, row_name
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.run_record import RunRecord


@dataclass(frozen=True)
class ComparisonBlock:
    """Rows that differ in their gate alone, ready for a page.

    Attributes:
        title: Dataset, split and model.
        short: What came out, in a few words.
        facts: What the data is, and what departs from the usual training.
        table: The rows.
        verdict: What follows; empty unless plain, Dr and both controls are there.
        charts: Pictures.
        provenance: Where the numbers come from.
    """

    title: str
    short: str
    facts: str
    table: TextTable
    verdict: str
    charts: tuple[str, ...]
    provenance: str


def comparison_block(gates: Mapping[str | None, Row], number: int) -> ComparisonBlock:
    """The block of some rows.

    Args:
        gates: Rows by their gate.
        number: Tells its table from those of other blocks.
    """
    shown = {gate: gates[gate] for gate in GATES if gate in gates}
    record = next(iter(shown.values()))[0]
    data, where = record.data, record.environment
    results = {gate: seeds for gate, (_, seeds) in shown.items()}
    plain = replace(record, experiment=replace(record.experiment, reweight=None))
    counts = "{nodes:,} nodes, {edges:,} edges, {features:,} features, {classes} classes"
    parts = "{train:,} / {val:,} / {test:,} nodes to train, validate, test."
    departs = unusual(record.experiment)
    return ComparisonBlock(
        title=f"{data_name(record)}, split {data['split']}: {row_name(plain)}",
        short=_short(results),
        facts=f"{counts}; {parts}".format_map(data)
        + (f" Departing from the usual training: {departs}." if departs else ""),
        table=_table(shown, f"comparison-{number}", str(data.get("metric") or "accuracy")),
        verdict=verdict(results) if set(GATES) <= gates.keys() else "",
        charts=tuple(row_charts(shown)),
        provenance=f"Data {data['content_hash']}; {where['device']}, torch {where['torch']}, "
        f"PyG {where['torch_geometric']}, drgcn {where['drgcn']} ({where['source']}).",
    )


def _short(results: Mapping[str | None, Results]) -> str:
    if {None, "dr"} <= results.keys() and len(results["dr"].keys() & results[None].keys()) > 1:
        return f"Dr - plain {gain(results['dr'], results[None])}"
    return ", ".join(f"{summarize(seeds).mean:.1f}" for seeds in results.values()) + " %"


def _table(shown: Mapping[str | None, Row], name: str, metric: str) -> TextTable:
    plain = shown[None][1] if None in shown else None
    heads = ("model", f"test {metric} %", "published", "gain over plain [95 %]", "K per layer")
    rows = tuple(_cells(record, seeds, plain) for record, seeds in shown.values())
    return TextTable(name, name, (*heads, "stuck per layer", "best epoch", "seeds"), rows)


def _cells(record: RunRecord, seeds: Results, plain: Results | None) -> tuple[str, ...]:
    summary = summarize(seeds)
    return (
        record.experiment.label,
        summary.words(2),
        published_cell(record),
        "" if plain is None or plain is seeds or summary.seeds < 2 else str(gain(seeds, plain)),
        k_words(summary.k),
        share_words(mean_saturation(seeds)),
        str(round(summary.best_epoch)),
        str(summary.seeds),
    )
