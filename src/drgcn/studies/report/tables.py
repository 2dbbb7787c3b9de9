"""Tables from run records: the only way a number gets into the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from drgcn.data.catalog import describe, names, remark_of
from drgcn.studies.comparison import Guess, gain, gate_place, k_words, summarize
from drgcn.studies.experiment import MODELS, unusual, usual_scaling
from drgcn.studies.paper.page import published
from drgcn.studies.records import RunRecord, SeedResult

Row = tuple[RunRecord, dict[int, SeedResult]]

RECORD_HEADS = (
    "dataset",
    "split",
    "model",
    "test accuracy %",
    "published",
    "K per layer",
    "seeds",
    "device",
)


#: Said in place of a difference between rows of different builds.
TWO_BUILDS = "records of two builds, not compared"


#: Said of a row that has learnt nothing.
NO_BETTER = ", no better than a guess"


def above_guess(row: Row) -> bool:
    """Return whether a row is better than one answer for all test nodes, or no guess is known."""
    record, seeds = row
    guess = Guess.of_data(record.data)
    return guess is None or guess.is_beaten_by([one.test_accuracy for one in seeds.values()])


def merge(records: Sequence[RunRecord]) -> list[Row]:
    """One row for each experiment: a representative record, and the results of all seeds.

    All are of one build, see :attr:`RunRecord.build`: of several, the one with most seeds, and of
    these the latest.
    """
    found = [max(rows.values(), key=_size) for rows in rows_by_build(records).values()]
    return sorted(found, key=lambda row: _order(row[0]))


def rows_by_build(records: Sequence[RunRecord]) -> dict[str, dict[tuple[str, ...], Row]]:
    """Rows by the identity of their experiment, and then by build."""
    found: dict[str, dict[tuple[str, ...], Row]] = defaultdict(dict)
    for record in records:
        rows = found[record.identity]
        first, seeds = rows.get(record.build, (record, {}))
        rows[record.build] = (first, dict(sorted((seeds | record.seeds).items())))
    return found


def one_build(row: Row, other: Row) -> bool:
    """Return whether two rows may be compared: they were trained by one build."""
    return row[0].build == other[0].build


def gain_words(row: Row, other: Row) -> str:
    """Points of a row above another with their 95 % interval, or why there are none."""
    return str(gain(row[1], other[1])) if one_build(row, other) else TWO_BUILDS


def _size(row: Row) -> tuple[int, str]:
    return len(row[1]), row[0].started


def record_rows(records: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    """Test accuracy beside the published number, one row per experiment."""
    rows: list[tuple[str, ...]] = []
    for record, seeds in merge(records):
        name = (data_name(record), str(record.data["split"]), row_name(record))
        k, device = k_words(summarize(seeds).k), str(record.environment["device"])
        accuracy = summarize(seeds).words(1) + ("" if above_guess((record, seeds)) else NO_BETTER)
        rows.append((*name, accuracy, published_cell(record), k, str(len(seeds)), device))
    return rows


def gate_groups(records: Sequence[RunRecord]) -> list[dict[str | None, Row]]:
    """Rows that differ in their gate alone: the same data, model and training.

    Of several builds, a group has the one in which plain and Dr share most seeds, and of these the
    one with most gates. A gate that was never trained by it has a row of another build: see
    :func:`one_build` before comparing.
    """
    by_build = rows_by_build(records)
    groups: dict[str, dict[str | None, dict[tuple[str, ...], Row]]] = defaultdict(dict)
    for record, _ in merge(records):
        plain = replace(record.experiment, reweight=None)
        family = plain.identity(record.data["content_hash"])
        groups[family][record.experiment.reweight] = by_build[record.identity]
    return [_group(gates) for gates in groups.values()]


def _group(gates: dict[str | None, dict[tuple[str, ...], Row]]) -> dict[str | None, Row]:
    """One row for each gate, as many as can be of one build."""

    def completeness(build: tuple[str, ...]) -> tuple[int, int, int, str]:
        rows = {gate: rows[build] for gate, rows in gates.items() if build in rows}
        seeds = {gate: set(row[1]) for gate, row in rows.items()}
        shared = len(seeds.get(None, set()) & seeds.get("dr", set()))
        latest = max(row[0].started for row in rows.values())
        return shared, len(rows), sum(map(len, seeds.values())), latest

    best = max({build for rows in gates.values() for build in rows}, key=completeness)
    return {gate: rows.get(best) or max(rows.values(), key=_size) for gate, rows in gates.items()}


def setting_name(record: RunRecord) -> str:
    """Name that records share if only their gates differ: dataset, split and model."""
    plain = replace(record, experiment=replace(record.experiment, reweight=None))
    return f"{data_name(record)}, split {record.data['split']}: {row_name(plain)}"


def data_name(record: RunRecord) -> str:
    """The dataset's name, with what sets its data apart from what it is published with."""
    remarks = data_remarks(record)
    name = str(record.data["name"])
    return f"{name} ({', '.join(remarks)})" if remarks else name


def data_remarks(record: RunRecord) -> list[str]:
    """Remarks on a record's data: labels or features rebuilt, or scaled in an unusual way."""
    name = str(record.data["name"])
    remarks = []
    if remark := remark_of(name):
        remarks.append(remark)
    if rebuilt(record):
        remarks.append("rebuilt features")
    if str(record.data.get("feature_source", "")).startswith("generated"):
        remarks.append("synthetic")
    usual = describe(name).normalize if name in names() else None
    if usual is not None and record.data.get("normalize", usual) != usual:
        remarks.append(f"scaled: {record.data['normalize']}")
    return remarks


def published_cell(record: RunRecord) -> str:
    """The published number; in brackets where it was reached on other features."""
    printed = published(record.experiment)
    if printed is None or not scaled_as_published(record):
        return ""
    return f"({printed})" if rebuilt(record) else str(printed)


def rebuilt(record: RunRecord) -> bool:
    """Return whether the features were made again from texts, instead of published."""
    return str(record.data.get("feature_source", "")).startswith("rebuilt")


def scaled_as_published(record: RunRecord) -> bool:
    """Return whether features are scaled as where the model's numbers come from; for rebuilt ones
    that is not known, and any scaling will do."""
    usual = usual_scaling(str(record.data["name"]), record.experiment.model)
    return rebuilt(record) or usual is None or record.data.get("normalize", usual) == usual


def row_name(record: RunRecord) -> str:
    """The row's label, with what departs from its model's usual training in brackets."""
    settings = unusual(record.experiment)
    return record.experiment.label + (f" ({settings})" if settings else "")


def _order(record: RunRecord) -> tuple[str, str, int, bool, str, str, tuple[int, str]]:
    experiment = record.experiment
    return (
        record.data["split"],
        record.data["name"],
        MODELS.index(experiment.model),
        experiment.pre_activation,
        experiment.norm or "",
        unusual(experiment),
        gate_place(experiment.reweight),
    )
