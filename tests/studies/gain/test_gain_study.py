from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pages.gain import (
    cell_table,
    claim_words,
    control_words,
    correlation_table,
    gain_figure,
    low_k_disc_words,
    low_k_words,
    size_words,
    stuck_words,
)
from scipy import stats

from drgcn.errors import InputError
from drgcn.studies.advice.evidence import GainEvidence, of_folder, packaged
from drgcn.studies.advice.feature_numbers import (
    FILE,
    FeatureMeasures,
    FeatureNumbers,
    load_measures,
)
from drgcn.studies.advice.gain import study
from drgcn.studies.records import load_records

RESULTS = Path(__file__).parents[3] / "results"
NUMBERS = FeatureNumbers(100, 10, 0, 1.0, 2.0, 0.5, 0.6, 0.4, 1.2, 0.0)
WORDS = (size_words, claim_words, low_k_words, low_k_disc_words, stuck_words, control_words)


@pytest.fixture
def make_setting(make_record):
    """Plain, Dr and static records of one dataset, whose Dr gains so many points, and measures."""

    def make(
        name, points, *, k=1.0, split="full", normalize="row", source="published", seeds=6, **given
    ):
        content = f"{name}-{split}-{normalize}"
        draw = np.random.default_rng(sum(map(ord, content)))
        base = 0.7 + 0.01 * draw.standard_normal(seeds)
        noise = 0.001 * draw.standard_normal(seeds)
        shift = {None: 0.0, "dr": points / 100 + noise - noise.mean(), "static": 0.01}
        records = []
        for gate, difference in shift.items():
            record = make_record(base + difference, content_hash=content, reweight=gate)
            record.data.update(
                name=name,
                split=split,
                normalize=normalize,
                feature_source=source,
            )
            for seed, result in record.seeds.items():
                learnt = [k, 1.1] if gate else []
                record.seeds[seed] = replace(
                    result, k=learnt, saturation=[0.25, 0.0] if gate else []
                )
            records.append(record)
        numbers = replace(NUMBERS, **given)
        return records, FeatureMeasures(name, split, normalize, source, content, numbers)

    return make


def joined(settings):
    return [r for records, _ in settings for r in records], [entry for _, entry in settings]


@pytest.fixture
def falling(make_setting):
    """The gain falls with the learnt K and rises with the spread; K_disc has no part in it."""
    draw = np.random.default_rng(0)
    return [
        make_setting(f"set-{i}", 3 - i / 2, k=0.1 * (i + 1), spread=9.0 - i, k_disc=draw.random())
        for i in range(12)
    ]


def test_a_cell_is_what_the_records_say(make_setting):
    settings = [make_setting(n, g, k=0.4) for n, g in (("a", 2.0), ("b", -1.0), ("c", 0.05))]
    found = study(*joined(settings), draws=50)
    first = found.cells[0]
    assert first.over_plain.mean == pytest.approx(2.0)
    assert first.over_static.mean == pytest.approx(1.0)
    assert (first.k_1, first.k_2, first.saturation) == pytest.approx((0.4, 1.1, 0.25))
    assert first.numbers == NUMBERS
    assert (found.gained, found.lost) == (("a",), ("b",))
    assert found.sign_p == pytest.approx(stats.binomtest(2, 3).pvalue)


def test_a_built_in_correlation_is_found(falling):
    found = {f.predictor.name: f for f in study(*joined(falling), draws=2000).findings}
    assert found["k_1"].correlation.spearman == pytest.approx(-1)
    assert found["spread"].correlation.spearman == pytest.approx(1)
    assert found["k_1"].sure
    assert not found["k_disc"].sure
    assert found["k_1"].p_holm == pytest.approx(min(1, 3 * found["k_1"].correlation.p))
    assert found.keys() == {"k_1", "k_disc", "spread"}  # the others are the same everywhere


def test_datasets_are_clusters_and_made_up_data_does_not_count(falling, make_setting):
    twice = [make_setting("set-0", -3, k=2.0, split="public")]
    made_up = [make_setting("planted", 50, k=9.0, source="generated", normalize="none")]
    found = study(*joined(falling + twice + made_up), draws=50)
    correlation = found.findings[0].correlation
    assert (len(found.cells), correlation.observations, correlation.clusters) == (14, 13, 12)
    assert found.mean_gains["set-0"] == pytest.approx(0.0, abs=1e-9)
    assert "planted" not in found.mean_gains
    without = study(*joined(falling + twice), draws=50).findings[0].correlation
    assert correlation == without


def test_the_usual_training_is_chosen_and_other_models_are_left_out(falling, make_setting):
    records, entry = make_setting("set-0", -7.0)
    for record in records:
        object.__setattr__(record, "experiment", replace(record.experiment, hidden_channels=16))
    gat = [replace(r, experiment=replace(r.experiment, model="gat")) for r in records]
    normed = [replace(r, experiment=replace(r.experiment, norm="layer")) for r in records]
    known, measures = joined(falling)
    for order in (records + known, known + records + gat + normed):
        cells = study(order, measures, draws=10).cells
        assert len(cells) == 12
        assert cells[0].over_plain.mean == pytest.approx(3.0)
    alone = study(records + known[3:], [entry, *measures[1:]], draws=10)
    assert alone.cells[0].over_plain.mean == pytest.approx(-7.0)


def test_measures_of_other_content_are_refused(falling):
    records, measures = joined(falling)
    other = replace(measures[2], content_hash="beef")
    with pytest.raises(InputError, match=r"set-2.*found beef"):
        study(records, [*measures[:2], other, *measures[3:]], draws=10)


def test_data_that_was_not_measured_is_named(falling):
    records, measures = joined(falling)
    found = study(records, measures[1:], draws=10)
    assert found.unmeasured == ("set-0, split full, normalize row",)
    assert len(found.cells) == 11
    assert "left out: set-0" in size_words(found)


def test_a_measure_that_is_undefined_leaves_its_cell_out_of_that_row_alone(make_setting):
    settings = [
        make_setting(n, g, k_disc=None if n == "a" else g, k=g + 2)
        for n, g in (("a", 1.0), ("b", 2.0), ("c", 0.5), ("d", 0.0))
    ]
    found = {f.predictor.name: f.correlation for f in study(*joined(settings), draws=20).findings}
    assert (found["k_disc"].observations, found["k_1"].observations) == (3, 4)


def test_tables_words_and_picture_are_the_same_again_and_name_everything(falling, make_setting):
    made_up = make_setting("planted", 2, source="generated", normalize="none")
    records, measures = joined([*falling, made_up])
    one = study(records, measures, draws=300)
    two = study(records[::-1], measures[::-1], draws=300)
    for show in (cell_table, correlation_table, *WORDS):
        assert show(one) == show(two)
    assert cell_table(one).count("\n") == 14
    assert "+3.00 [" in cell_table(one)
    assert correlation_table(one).count("\n") == 4
    assert "-1.00 [-1.00, -1.00]" in correlation_table(one)
    assert "12 settings" in size_words(one)
    assert "nothing is sure (paired t-test, Holm over 13 comparisons" in size_words(one)
    assert "sure are: learnt K, layer 1, spread of variances" in claim_words(one)
    assert low_k_words(one).startswith("In 8 of 12 settings the first gate learnt a K below 0.90")
    assert "run in 12 settings, Dr is surely above in 4" in control_words(one)
    figure = gain_figure(one)
    assert "learnt K, layer 1" in [axes.get_xlabel() for axes in figure.axes]
    assert "synthetic, not counted" in [text.get_text() for text in figure.legends[0].texts]


def test_the_sentence_of_the_package_names_what_is_sure(falling):
    found = GainEvidence.of(study(*joined(falling), draws=2000))
    assert "Over 12 settings of GCN on 12 datasets, the gain of Dr is surely" in found.words
    assert "correlated with learnt K, layer 1 (-1.00 [-1.00, -1.00]) and spread of" in found.words
    calm = replace(
        found, correlations={n: {**c, "p_holm": 0.4} for n, c in found.correlations.items()}
    )
    assert "surely correlated with none of learnt K, layer 1; K of weights" in calm.words
    assert "lie between -1.00 and +1.00" in calm.words
    assert GainEvidence(0, 0, 0, 0, {}).words == ""


# The study of the records


def test_the_records_are_measured():
    found = study(load_records(RESULTS), load_measures(RESULTS / FILE), draws=10)
    assert found.unmeasured == ()
    assert len(found.real) >= 28
    assert len(found.mean_gains) >= 15


def test_the_packaged_study_is_that_of_the_records():
    assert of_folder(RESULTS).study == packaged().study, "run `make tables`"
