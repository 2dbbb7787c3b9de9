"""Sentences of the pages that records fill: counts, sure differences, single settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drgcn.studies.comparison import k_words, summarize
from drgcn.studies.experiment import unusual
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import RunRecord, SeedResult
from drgcn.studies.report.contents import contents
from drgcn.studies.report.gate_tests import GateTest, gate_tests
from drgcn.studies.report.tables import (
    Row,
    gain_words,
    gate_groups,
    merge,
    one_build,
    row_name,
)

GATE_WORDS = {None: "plain", "dr": "Dr", "static": "a static gate", "constant": "a constant one"}
SIGNS = {"up": "surely gains", "down": "surely loses", "unsure": "makes no sure difference"}
CITATION = ("cora", "citeseer", "pubmed")


def findings_list(records: Sequence[RunRecord], folder: Path) -> str:
    """The first lines of ``drgcn report``."""
    found = contents(records, list(paper_tables().values()), folder).lines
    return "\n".join(f"- {line}" for line in found)


def sure_words(records: Sequence[RunRecord]) -> str:
    """The settings in which Dr surely differs from plain, after the correction."""
    tests = gate_tests(records, None)
    correction = tests[0].decision.correction
    heads = {"up": f"Dr is surely above plain ({correction})", "down": "Surely below"}
    return "\n\n".join(
        f"{words}: " + "; ".join(_words(one) for one in tests if one.sign == sign) + "."
        for sign, words in heads.items()
    )


def _words(one: GateTest) -> str:
    made = ", synthetic" if one.synthetic else ""
    return f"{one.model} on {one.dataset}, {one.split}{made} ({one.test.gain.mean:+.2f})"


def citation_words(records: Sequence[RunRecord], models: Sequence[str] = ("gcn", "gat")) -> str:
    """Count the signs of Dr against plain on the citation sets, model by model."""
    tests = gate_tests(records, None)
    parts = []
    for model in models:
        signs = [one.sign for one in tests if one.model == model and one.name in CITATION]
        parts.append(
            f"for {model.upper()} it surely gains in {signs.count('up')} and surely loses in "
            f"{signs.count('down')} of {len(signs)} settings"
        )
    return (
        f"On Cora, Citeseer and Pubmed, with identical training, {' and '.join(parts)} "
        f"({tests[0].decision.correction})."
    )


def raw_words(
    records: Sequence[RunRecord], names: Sequence[str] = ("breast-cancer", "wine")
) -> str:
    """Dr against plain GCN on raw features and on the same ones standardised."""
    tests = [one for one in gate_tests(records, None) if one.name in names]
    each = [f"on {one.dataset} Dr {SIGNS[one.sign]} ({one.test.gain})" for one in tests]
    return f"Points with 95 % intervals: {'; '.join(each)}."


def corar_words(records: Sequence[RunRecord]) -> str:
    """GCN with every gate on CoraR, with features as they are and standardised."""
    raw, scaled = (_group(records, normalize) for normalize in ("none", "standard"))
    k = k_words(summarize(raw["dr"][1]).k[:1])
    longer = [
        row for row in merge(records) if _is_corar(row[0], "none") and unusual(row[0].experiment)
    ]
    long = "; ".join(f"{row_name(record)} has {_mean(seeds)}" for record, seeds in longer)
    return (
        f"GCN on CoraR (rebuilt features): {_gates(raw)}; Dr over plain "
        f"{gain_words(raw['dr'], raw[None])}, with K = {k} in the first layer"
        + (f"; {long}" if long else "")
        + f". With the same features standardised: {_gates(scaled)}; Dr over plain "
        f"{gain_words(scaled['dr'], scaled[None])}."
    )


def stopping_words(records: Sequence[RunRecord]) -> str:
    """GAT as its code stops it, beside the rule of the recipe."""
    rows = {(*_place(row[0]), unusual(row[0].experiment)): row for row in merge(records)}
    each = [
        f"{label} on {dataset} ({split}) {_mean(seeds)} by the code's rule, "
        f"{_mean(rows[dataset, split, label, ''][1])} by ours"
        for (dataset, split, label, settings), (_, seeds) in rows.items()
        if settings == "watch both"
    ]
    return f"Test accuracy: {'; '.join(each)}."


def _place(record: RunRecord) -> tuple[str, str, str]:
    return record.data["name"], record.data["split"], record.experiment.label


def _group(records: Sequence[RunRecord], normalize: str) -> dict[str | None, Row]:
    whole = [rows for rows in gate_groups(records) if rows.keys() >= GATE_WORDS.keys()]
    (found,) = (rows for rows in whole if _is_corar(rows[None][0], normalize))
    return found


def _is_corar(record: RunRecord, normalize: str) -> bool:
    ran = record.experiment
    plain = ran.model == "gcn" and ran.norm is None and not ran.pre_activation
    return plain and ran.dataset == "corar" and record.data["normalize"] == normalize


def _gates(rows: dict[str | None, Row]) -> str:
    return ", ".join(
        f"{words} {_mean(rows[gate][1])}"
        + ("" if one_build(rows[gate], rows["dr"]) else " (of another build)")
        for gate, words in GATE_WORDS.items()
    )


def _mean(seeds: dict[int, SeedResult]) -> str:
    return summarize(seeds).words(2)
