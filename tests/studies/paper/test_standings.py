"""The paper's tables filled from records, and which of its numbers are reached."""

from dataclasses import replace

import pytest
from pages.asgcn_quirks import quirk_table, variance_words
from pages.paper_tables import (
    paper_k_table,
    paper_table,
    reached_words,
    rules_table,
    standings,
)

from drgcn.studies.experiment import recipe, usual_scaling


@pytest.fixture
def make(make_record):
    """A record of a recipe."""

    def record(accuracies, dataset="cora", model="gcn", *, content="abc", facts=None, **changes):
        made = make_record(accuracies, content_hash=content, reweight=changes.get("reweight"))
        return replace(
            made,
            experiment=recipe(dataset, "full", model, **changes),
            data={**made.data, "name": dataset, **(facts or {})},
        )

    return record


def test_a_number_is_reached_by_the_rule_of_the_report(make):
    spread = [-0.002, 0.002, -0.001, 0.001, 0.0]
    within, below, above = (
        standings([make([mean + by for by in spread], model="asgcn")])[0]
        for mean in (0.8710, 0.8660, 0.8790)
    )
    verdicts = [one.verdict for one in (within, below, above)]
    assert verdicts == ["reproduced", "below", "above"]
    assert standings([make([0.8689, 0.8689], model="asgcn", lr=0.1)]) == []  # nothing is printed
    assert str(below) == "asgcn on cora (full) has 86.60 where 87.2 ± 0.2 is printed"
    words = reached_words([within, below, above, within], "ASGCN")
    assert words.startswith(
        "Of 4 numbers the paper prints for ASGCN, on data at hand, 3 are reached or exceeded: "
        "2 are within"
    )
    assert words.endswith(f"and 1 above; 1 is below. Below: {below}.")
    assert "Below:" not in reached_words([below], "ASGCN", names=False)


def test_three_rules_stand_side_by_side_and_two_say_that_they_read_test_labels(make):
    made = make([0.81, 0.83], model="lgcn")
    rules = {"best_renewed_test": 0.84, "best_test": 0.85}
    seeds = {seed: replace(result, **rules) for seed, result in made.seeds.items()}
    public = replace(made.experiment, split="public")
    table = rules_table([make([0.9, 0.9]), replace(made, experiment=public, seeds=seeds)])
    head, _, row = table.splitlines()
    assert head.count("reads test labels") == 2
    assert row == "| cora, public | lgcn | 82.0 ± 1.4 | 84.0 ± 0.0 | 85.0 ± 0.0 | 83.3 | 2 |"
    assert rules_table([make([0.9, 0.9])]) == "Not run yet."


def test_rebuilt_and_synthetic_data_stand_for_nothing(make):
    rebuilt = make([0.9, 0.9], "corar", facts={"feature_source": "rebuilt"})
    synthetic = make([0.9, 0.9], "reddit-like", "asgcn", facts={"feature_source": "generated: x"})
    assert standings([rebuilt, synthetic]) == []


def test_reddit_is_a_dash_beside_its_number_whatever_is_known_of_reddit_like(make):
    records = [make([0.9, 0.9], "reddit-like", "asgcn", reweight=gate) for gate in (None, "dr")]
    for table in ("main", "reddit-norms"):
        text = paper_table(records, table)
        assert "reddit-like" not in text
        assert "90.0" not in text
    assert "| asgcn + dr | - (97.95 ± 0.13) |" in paper_table(records, "reddit-norms")
    assert "| reddit | full | - (0.32) | - (1.14) | - (+1.58) |" in paper_k_table(records)


def test_a_cell_says_where_its_features_are_not_those_of_the_column(make):
    records = [
        make([0.88, 0.88], "pubmed", facts={"normalize": "row"}),
        make([0.84, 0.84], "pubmed", "graphsage", content="raw", facts={"normalize": "none"}),
        make([0.71, 0.71], "pubmed", "graphsage", facts={"normalize": "row"}),
    ]
    text = paper_table(records, "main")
    assert "| pubmed, full |" in text
    assert "84.0 ± 0.0 [scaled: none] (84.2 ± 0.3)" in text
    assert "71.0" not in text


def test_of_two_scalings_the_one_best_on_validation_for_gcn_fills_the_column(make):
    raw = {"feature_source": "rebuilt", "normalize": "none"}
    standard = {"feature_source": "rebuilt", "normalize": "standard"}
    better = make([0.8, 0.8], "corar", content="b", facts=standard)
    seeds = {s: replace(result, val_accuracy=0.9) for s, result in better.seeds.items()}
    records = [
        *(make([0.9, 0.9], "corar", content="a", facts=raw), replace(better, seeds=seeds)),
        make([0.91, 0.91], "corar", "gat", content="a", facts=raw),
        make([0.81, 0.81], "corar", "gat", content="b", facts=standard),
    ]
    text = paper_table(records, "main")
    assert "corar (rebuilt features, scaled: standard), full" in text
    assert "| gcn | 80.0 ± 0.0 (85.9 ± 0.5) |" in text
    assert "| gat | 81.0 ± 0.0 (86.9 ± 0.4) |" in text


def test_the_full_table_has_the_rows_of_the_paper(make):
    text = paper_table([make([0.87, 0.87], model="asgcn", reweight="dr")], "full")
    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == [
        f"| {label}{gate}"
        for gate in ("", " + dr")
        for label in ("gcn", "gat", "fastgcn", "asgcn")
    ]
    assert "| asgcn + dr | 87.0 ± 0.0 (87.1 ± 0.2) | - (79.1 ± 0.4) |" in text


def test_k_stands_beside_the_papers(make):
    records = [make([0.8, 0.9], model="asgcn"), make([0.81, 0.91], model="asgcn", reweight="dr")]
    first = paper_k_table(records).splitlines()[2]
    assert first == "| cora | full | 0.50 (1.04) | 1.00 (1.00) | +1.00 [+1.00, +1.00] (-0.16) |"


def test_quirks_stand_against_none(make):
    usual = recipe("cora", "full", "asgcn").options
    records = [
        make([0.82, 0.92], model="asgcn"),
        make([0.81, 0.91], model="asgcn", options={"divide_variance": True}),
        make([0.8, 0.9], model="asgcn", options={}),
        make([0.7, 0.8], model="gcn"),
    ]
    none, one, all_ = quirk_table(records).splitlines()[2:]
    assert "| none | 80.00 | 85.00 ± 7.07 |  |" in none
    assert "| divide variance | 80.00 | 86.00 ± 7.07 | +1.00 [+1.00, +1.00] |" in one
    assert "(as the code) | 80.00 | 87.00 ± 7.07 | +2.00 [+2.00, +2.00] |" in all_
    assert all(name.replace("_", " ") in all_ for name in usual)
    words = variance_words(records)
    assert "asgcn on cora: +1.00 [+1.00, +1.00] points on test, +0.00 on validation." in words


@pytest.mark.parametrize(
    ("dataset", "model", "scaling"),
    [
        *(("pubmed", "gcn", "row"), ("pubmed", "graphsage", "none"), ("corar", "gcn", "none")),
        *(("corar", "graphsage", "none"), ("reddit", "graphsage", "standard")),
        *(("reddit", "asgcn", "row"), ("digits", "graphsage", "none"), ("my/graph", "gcn", None)),
    ],
)
def test_graphsage_alone_has_a_scaling_of_its_own(dataset, model, scaling):
    assert usual_scaling(dataset, model) == scaling
