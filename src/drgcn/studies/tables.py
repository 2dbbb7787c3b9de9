"""Tables from run records: the only way a number gets into the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from drgcn.studies.comparison import summarize
from drgcn.studies.experiment import Experiment
from drgcn.studies.published import published
from drgcn.studies.run_record import RunRecord, SeedResult


def merge(records: Sequence[RunRecord]) -> list[tuple[RunRecord, dict[int, SeedResult]]]:
    """The records of each experiment as one: a representative, and the results of all seeds."""
    groups: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        groups[record.identity].append(record)
    merged = []
    for group in groups.values():
        seeds = {seed: result for record in group for seed, result in record.seeds.items()}
        merged.append((group[0], dict(sorted(seeds.items()))))
    return sorted(merged, key=lambda pair: _order(pair[0]))


def markdown_table(records: Sequence[RunRecord]) -> str:
    """Test accuracy beside the published number, one line per experiment."""
    lines = [
        "| dataset | split | model | test accuracy % | published | K per layer | seeds | device |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for record, seeds in merge(records):
        summary = summarize(seeds)
        printed = published(record.experiment)
        k = " ".join("-" if value != value else f"{value:.2f}" for value in summary.k)
        cells = [
            record.data["name"],
            record.data["split"],
            _row_name(record),
            f"{summary.mean:.1f} ± {summary.std:.1f}",
            "" if printed is None else str(printed),
            k,
            str(summary.seeds),
            str(record.environment["device"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _row_name(record: RunRecord) -> str:
    width = record.experiment.hidden_channels
    usual = Experiment.__dataclass_fields__["hidden_channels"].default
    return record.experiment.label + ("" if width == usual else f" ({width} hidden)")


def _order(record: RunRecord) -> tuple[str, str, bool, str, int, str]:
    experiment = record.experiment
    gate = {None: "0", "dr": "1", "static": "2", "constant": "3"}[experiment.reweight]
    return (
        record.data["split"],
        record.data["name"],
        experiment.pre_activation,
        experiment.norm or "",
        -experiment.hidden_channels,
        gate,
    )
