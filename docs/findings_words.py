"""Sentences of the pages that records fill: counts, sure differences, single settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drgcn.studies.comparison import Guess, k_words, summarize
from drgcn.studies.experiment import unusual
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import RunRecord, SeedResult
from drgcn.studies.report.contents import contents
from drgcn.studies.report.gate_tests import GateTest, families
from drgcn.studies.report.tables import (
    TWO_BUILDS,
    Row,
    data_name,
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
    family = families(records)[None]
    heads = {"up": f"Dr is surely above plain ({family.correction})", "down": "Surely below"}
    sure = [
        f"{words}: " + "; ".join(_words(one) for one in family.tests if one.sign == sign) + "."
        for sign, words in heads.items()
    ]
    apart = f"Not compared, as the two rows are of two builds: {'; '.join(family.apart)}."
    return "\n\n".join([*sure, apart] if family.apart else sure)


def _words(one: GateTest) -> str:
    made = ", synthetic" if one.synthetic else ""
    return f"{one.model} on {one.dataset}, {one.split}{made} ({one.test.gain.mean:+.2f})"


def citation_words(records: Sequence[RunRecord], models: Sequence[str] = ("gcn", "gat")) -> str:
    """Count the signs of Dr against plain on the citation sets, model by model."""
    family = families(records)[None]
    tests = family.tests
    parts = []
    for model in models:
        signs = [one.sign for one in tests if one.model == model and one.name in CITATION]
        parts.append(
            f"surely gains in {signs.count('up')} and surely loses in {signs.count('down')} of "
            f"{len(signs)} {model.upper()} settings"
        )
    left = f"; {len(family.apart)} settings with rows of two builds are left out"
    return (
        f"With identical training on Cora, Citeseer and Pubmed, Dr {', and '.join(parts)} "
        f"({family.correction}{left * bool(family.apart)})."
    )


def raw_words(
    records: Sequence[RunRecord], names: Sequence[str] = ("breast-cancer", "wine")
) -> str:
    """Dr against plain GCN on raw features and on the same ones standardised."""
    tests = [one for one in families(records)[None].tests if one.name in names]
    each = [f"on {one.dataset} Dr {SIGNS[one.sign]} ({one.test.gain})" for one in tests]
    return f"Points with 95 % intervals: {'; '.join(each)}."


def learnt_k_words(records: Sequence[RunRecord], about: float = 0.01) -> str:
    """Count the sides of 1 on which K of the first layer lies where Dr was learnt."""
    real = [
        row
        for row in merge(records)
        if row[0].experiment.reweight == "dr"
        and not str(row[0].data.get("feature_source", "")).startswith("generated")
    ]
    found = [(summarize(row[1]).k[0], data_name(row[0])) for row in real]
    below = dict.fromkeys(name for k, name in found if k < 1 - about)
    above = sum(k > 1 + about for k, _ in found)
    near = sum(abs(k - 1) <= about for k, _ in found)
    return (
        f"K of the first layer, in {len(found)} settings of real data: above {1 + about:.2f} in "
        f"{above}, where the block amplifies loud dimensions; within {about:.2f} of 1 in {near}; "
        f"below in {len(found) - above - near}, on {', '.join(below)}."
    )


def corar_words(records: Sequence[RunRecord]) -> str:
    """GCN with every gate on CoraR, with features as they are and standardised."""
    raw, scaled = (_group(records, normalize) for normalize in ("none", "standard"))
    k = k_words(summarize(raw["dr"][1]).k[:1])
    longer = [
        row for row in merge(records) if _is_corar(row[0], "none") and unusual(row[0].experiment)
    ]
    long = "; ".join(
        f"{row_name(row[0])} has {_mean(row[1])}{_other(row, raw[None])}" for row in longer
    )
    return (
        f"GCN on CoraR (rebuilt features): {_gates(raw)}; Dr over plain "
        f"{gain_words(raw['dr'], raw[None])}, with K = {k} in the first layer"
        + (f"; {long}" if long else "")
        + f". With the same features standardised{_other(scaled['dr'], raw['dr'])}: "
        f"{_gates(scaled)}; Dr over plain {gain_words(scaled['dr'], scaled[None])}."
    )


def scaling_words(records: Sequence[RunRecord]) -> str:
    """GCN on CoraR, as it is and standardised, in a sentence."""
    raw, scaled = (_group(records, normalize) for normalize in ("none", "standard"))
    return (
        f"On CoraR, standardised features give {_mean(scaled[None][1])} without a gate where raw "
        f"ones give {_mean(raw[None][1])}{_other(scaled[None], raw[None])}; Dr then adds "
        f"{gain_words(scaled['dr'], scaled[None])}."
    )


def ppi_words(records: Sequence[RunRecord], models: Sequence[str] = ("gat",)) -> str:
    """Models without a gate on PPI with rebuilt labels, divided by tissue and by protein."""
    rows = {
        (row[0].experiment.model, row[0].experiment.split): row
        for row in merge(records)
        if row[0].experiment.dataset == "ppi-rebuilt" and row[0].experiment.reweight is None
    }
    each = []
    for model in models:
        tissues, proteins = (rows[model, split] for split in ("published", "disjoint"))
        name = {"graphsage": "GraphSAGE"}.get(model, model.upper())
        each.append(
            f"{name} {_mean(tissues[1])} by tissue and {_mean(proteins[1])} by protein"
            f"{_other(proteins, tissues)}"
        )
    guess = Guess.of_data(rows[models[0], "disjoint"][0].data)
    return (
        f"Micro-F1 with rebuilt labels, not comparable with Table 3: {'; '.join(each)}. The best "
        f"one answer for all test proteins, chosen by their labels, has {100 * guess.score:.2f}."
    )


def _other(row: Row, than: Row) -> str:
    return "" if one_build(row, than) else " (of another build)"


def stopping_words(records: Sequence[RunRecord]) -> str:
    """GAT as its code stops it, beside the rule of the recipe."""
    rows = {(*_place(row[0]), unusual(row[0].experiment)): row for row in merge(records)}
    each = [
        f"{label} on {dataset} ({split}) {_mean(row[1])} by the code's rule, "
        f"{_mean(ours[1])} by ours{'' if one_build(row, ours) else f' ({TWO_BUILDS})'}"
        for (dataset, split, label, settings), row in rows.items()
        if settings == "watch both"
        for ours in [rows[dataset, split, label, ""]]
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
        f"{words} {_mean(rows[gate][1])}{_other(rows[gate], rows['dr'])}"
        for gate, words in GATE_WORDS.items()
    )


def _mean(seeds: dict[int, SeedResult]) -> str:
    return summarize(seeds).words(2)
