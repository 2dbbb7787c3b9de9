"""Tables from run records: the only way a number gets into the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from drgcn.studies.comparison import gain, summarize
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
            _accuracy(seeds),
            "" if printed is None else str(printed),
            k,
            str(summary.seeds),
            str(record.environment["device"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gate_table(records: Sequence[RunRecord]) -> str:
    """One line per dataset: plain, Dr and the control gates, beside what the paper printed."""
    lines = [
        "| dataset | split | plain | Dr | static gate | constant gate | Dr - plain [95 %] "
        "| paper: plain | paper: Dr |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], dict[str | None, tuple[RunRecord, dict[int, SeedResult]]]] = {}
    for record, seeds in merge(records):
        experiment = record.experiment
        if experiment.norm is None and not experiment.pre_activation:
            rows = groups.setdefault((record.data["name"], record.data["split"]), {})
            rows.setdefault(experiment.reweight, (record, seeds))  # the widest model comes first
    for (name, split), rows in groups.items():
        if {None, "dr", "static", "constant"} <= rows.keys():
            means = [_accuracy(rows[gate][1]) for gate in (None, "dr", "static", "constant")]
            printed = [published(rows[gate][0].experiment) for gate in (None, "dr")]
            cells = [name, split, *means, str(gain(rows["dr"][1], rows[None][1]))]
            cells += ["" if number is None else str(number) for number in printed]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _accuracy(seeds: dict[int, SeedResult]) -> str:
    summary = summarize(seeds)
    return f"{summary.mean:.1f} ± {summary.std:.1f}"


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
