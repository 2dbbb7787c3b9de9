import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader

from drgcn import advise, insert_reweighting, load, stability_k
from drgcn.errors import InputError, NonFiniteError, UndefinedStability
from drgcn.nn import GCN
from drgcn.stability import discriminative_k, minimal_k_in_range, standardizing_k, variance_spread
from drgcn.studies.advice import evidence
from drgcn.studies.advice import evidence as evidence_words
from drgcn.studies.advice.evidence import Comparison

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def planted():
    return load("planted", nodes=200, labels_per_class=6, val_per_class=12)


def test_numbers_are_those_of_the_functions(planted):
    advice = advise(planted)
    x = planted.x
    assert advice.spread == pytest.approx(variance_spread(x))
    assert advice.k_std == pytest.approx(standardizing_k(x))
    assert advice.k_range_2 == pytest.approx(minimal_k_in_range(x, 2).value)
    assert advice.k_range_4 == pytest.approx(minimal_k_in_range(x, 4).value)
    after = GCN.prepare(planted)[1] @ x
    wanted = discriminative_k(x, planted.y, planted.train_mask, propagated=after)
    assert advice.k_disc == pytest.approx(wanted, rel=1e-5)
    assert (advice.rows, advice.features, advice.constant) == (200, 64, 0)
    assert json.loads(json.dumps(advice.to_dict()))["k_std"] == advice.k_std


def test_classes_are_told_from_several_training_nodes_each(planted):
    data = planted.clone()
    data.y = planted.y[:, None]  # as some sets of PyG have it
    assert advise(data).k_disc == advise(planted).k_disc
    data.train_mask = torch.zeros(200, dtype=torch.bool)
    data.train_mask[[int((planted.y == label).nonzero()[0]) for label in range(4)]] = True
    assert advise(data).k_disc is None
    assert "training classes" not in advise(data).paragraph
    data.train_mask = torch.arange(50)
    with pytest.raises(InputError, match="index_to_mask"):
        advise(data)


def test_constant_features_are_left_out_and_named(planted):
    x = torch.cat([planted.x, torch.ones(200, 2)], 1)
    advice, without = advise(x), advise(planted.x)
    assert advice.k_std == pytest.approx(without.k_std)
    assert "2 of 66 features are constant" in advice.warnings[0]


def test_loaders_are_read_like_the_whole(planted):
    graphs = [Data(x=part, edge_index=torch.zeros(2, 0).long()) for part in planted.x.split(30)]
    found, whole = advise(DataLoader(graphs, batch_size=3)), advise(planted.x)
    assert found.k_range_2 == pytest.approx(whole.k_range_2)
    assert found.k_disc is None


@pytest.mark.parametrize("own", [True, False])
def test_a_model_adds_k_of_its_blocks(planted, own):
    if own:
        model = GCN(64, 8, 4, reweight="dr")
        s = next(model.eval().layers(planted.x, planted.edge_index))[1]
    else:
        model = insert_reweighting(pyg.GCN(64, 8, num_layers=2, out_channels=4))
        s = model.convs[0].reweighting.vector(planted.x)
    advice = advise(model, planted)
    assert advice.layer_k[0] == pytest.approx(stability_k(planted.x, s), rel=1e-6)
    assert len(advice.layer_k) == len(advice.layer_saturation) == 2
    assert "blocks of the model have K" in advice.paragraph


@pytest.mark.parametrize(
    ("variances", "loudest"), [((1, 9), 9), ((1, 2, 9), 6), ((1, 2, 4, 9), 4.5)]
)
def test_the_largest_variance_is_held_against_the_median_of_the_others(variances, loudest):
    rows = torch.tensor(variances).double().sqrt()
    assert advise(torch.stack([rows, -rows])).loudest == pytest.approx(loudest)


def test_odd_features_are_warned_of(planted):
    loud = torch.ones(64)
    loud[3] = 1e3
    advice = advise(planted.x[:40] * loud + loud)
    words = " ".join(advice.warnings)
    assert "wildly different scales" in words
    assert "fewer rows (40) than features (64)" in words
    assert "stuck at 0 or 1" in words
    with pytest.warns(UserWarning, match="row"):
        by_row = load("planted", normalize="row", nodes=200, labels_per_class=6, val_per_class=12)
    assert "negative values" in " ".join(advise(by_row).warnings)
    by_row.x = by_row.x.abs()
    assert "negative values" not in " ".join(advise(by_row).warnings)
    assert not advise(planted).warnings


def test_telling_features_that_are_quiet_are_told_from_loud_ones(planted):
    assert "quieter ones" in advise(planted).paragraph
    loud = planted.clone()
    loud.x = planted.x / planted.x.var(0)  # the other way round
    assert "louder ones already" in advise(loud).paragraph
    even = load("planted", normalize="standard", nodes=200, labels_per_class=6, val_per_class=12)
    assert "on one scale already" in advise(even).paragraph
    assert "quieter ones" in advise(planted).lines[1]
    assert "louder ones already" in advise(loud).lines[1]
    assert "about as much" in advise(even).lines[1]
    assert "Without labels" in advise(planted.x).lines[1]


def test_records_of_the_same_kind_of_features_are_counted(planted):
    def comparison(normalize, gain):
        return Comparison("d", "s", normalize, "published", "gcn", 5, gain, 0.0, 0.0, None, 0.01)

    found = [comparison("none", -1.0), comparison("none", -2.0), comparison("row", 1.0)]
    assert "gained in 0 and surely lost in 2 of 2 comparisons" in evidence.counted(found, False)
    assert "gained in 1 and surely lost in 0 of 1 comparison on" in evidence.counted(found, True)
    even = load("planted", normalize="standard", nodes=200, labels_per_class=6, val_per_class=12)
    assert "left as they were" in advise(planted).lines[2]
    assert "features scaled" in advise(even).lines[2]


@pytest.mark.parametrize(
    "odd", [torch.rand(3), Data(x=["a"]), Data(x=torch.rand(4, 2).numpy()), Data(x=torch.rand(3))]
)
def test_features_of_another_kind_are_refused(odd):
    with pytest.raises(InputError, match=r"tensor of shape \[nodes, d\]"):
        advise(odd)


def test_what_cannot_be_advised_on_is_refused():
    with pytest.raises(UndefinedStability, match="constant"):
        advise(torch.ones(5, 3))
    with pytest.raises(UndefinedStability, match="d = 1"):
        advise(torch.rand(5, 1))
    with pytest.raises(NonFiniteError, match="row 1, column 0"):
        advise(torch.tensor([[1.0, 2.0], [float("nan"), 1.0]]))
    with pytest.raises(InputError, match="beside a model"):
        advise(GCN(3, 4, 2, reweight="dr"))
    with pytest.raises(InputError, match="Dr blocks"):
        advise(GCN(3, 4, 2), Data(x=torch.rand(4, 3), edge_index=torch.zeros(2, 0).long()))
    with pytest.raises(InputError, match="found int"):
        advise(3)
    with pytest.raises(InputError, match="`x`"):
        advise(Data(num_nodes=3))


# Evidence


def test_the_packaged_evidence_is_that_of_the_records():
    made = evidence.dumps(evidence.of_folder(ROOT / "results"))
    packaged = (ROOT / "src" / "drgcn" / "studies" / "advice" / "evidence.json").read_text()
    assert made == packaged, "run `make tables`"


def test_evidence_is_the_paired_gain(make_record):
    plain, dr = make_record([0.7, 0.8, 0.75]), make_record([0.72, 0.81, 0.78], reweight="dr")
    for record in (plain, dr):
        record.data.update(normalize="row", feature_source="published")
    (found,) = evidence.gather([plain, dr])
    assert (found.gain, found.seeds, found.normalize) == (2.0, 3, "row")
    assert found.low < 2 < found.high
    assert found.saturation is None
    assert found.p_holm == pytest.approx(stats.ttest_1samp([2, 1, 3], 0).pvalue, abs=1e-6)
    assert found.sign == "unsure"
    stuck = {s: replace(r, saturation=[0.5 + s / 4, 0.0]) for s, r in dr.seeds.items()}
    (found,) = evidence.gather([plain, replace(dr, seeds=stuck)])
    assert found.saturation == 0.75
    assert evidence.gather([plain]) == ()


def test_the_summary_counts_and_names_the_surest_gain():
    def comparison(normalize, gain, half, p):
        sides = {"low": gain - half, "high": gain + half}
        return Comparison("a", "full", normalize, "own", "gcn", 20, gain, **sides, p_holm=p)

    unscaled, standard = ("none", 3.0, 0.5, 0.001), ("standard", 0.5, 0.4, 0.06)
    row = ("row", -1.0, 0.2, 0.002)
    words = evidence_words.summary([comparison(*each) for each in (unscaled, standard, row)])
    assert "2 comparisons" in words
    assert "in 0 of them Dr surely gained, in 1 it surely lost, in 1 it made no sure" in words
    assert "The surest gain, +3.0 points [+2.5, +3.5], is on a (gcn, own features)" in words
    assert "after standardising it is +0.5 points" in words
    assert "no sure difference (paired t-test, Holm over 3 comparisons)." in words
    assert "no recorded comparisons" in evidence_words.summary([])


def test_raw_features_are_quoted_beside_the_same_standardised():
    raw = Comparison("a", "full", "none", "own", "gcn", 20, -3.0, -4.0, -2.0, 0.85)
    standard = replace(raw, normalize="standard", gain=0.1, low=-0.3, high=0.5, saturation=0.0)
    words = evidence_words.raw_against_standard([standard, raw])
    assert "on a (gcn) with raw features Dr made -3.0 points [-4.0, -2.0] (85 % of its" in words
    assert "after standardising +0.1 points [-0.3, +0.5] (0 % of its first gate stuck" in words
    free = replace(raw, saturation=0.1)
    other = replace(standard, dataset="b")
    assert evidence_words.raw_against_standard([free, standard]) == ""
    assert evidence_words.raw_against_standard([raw, other]) == ""


def test_advice_quotes_the_study_and_where_gates_may_stick_the_raw_sets(planted):
    calm = advise(planted).paragraph
    assert evidence.packaged().study.words in calm
    assert "settings of GCN on" in calm
    assert "on wine" not in calm
    raw = advise(load("wine"))
    assert "on wine (gcn)" in raw.paragraph
    assert "on breast-cancer (gcn)" in raw.paragraph
    assert "or take log(1 + x) of counts first" in " ".join(raw.warnings)
    assert "on wine" not in advise(load("wine", normalize="standard")).paragraph


def test_of_several_node_types_one_is_asked_for():
    data = HeteroData()
    data["paper"].x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    data["author"].x = torch.zeros(5, 2)
    with pytest.raises(InputError, match=r"'paper', 'author'.*advise\(data\[node_type\]\.x\)"):
        advise(data)
    assert advise(data["paper"].x).rows == 20
