"""Experiments, their identities, and the recipes of the models."""

from dataclasses import fields, replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from drgcn.data.catalog import describe, names
from drgcn.errors import InputError
from drgcn.studies.build import build, stopping_rule
from drgcn.studies.experiment import MODELS, Experiment, departures, recipe, unusual
from drgcn.studies.records import load_records
from drgcn.training import BestValidation, Patience, RisingLoss

BASE = Experiment("cora", "full")


# Another value of every setting; numbers of a run depend on all of them.
CHANGES = {
    **{"dataset": "pubmed", "split": "public", "model": "gat", "reweight": "dr", "norm": "batch"},
    **{"pre_activation": True, "hidden_channels": 16, "num_layers": 3, "dropout": 0.4},
    **{"epochs": 10, "rule": "patience", "lr": 0.02, "weight_decay": 0.0, "options": {"K": 2}},
    **{"optimizer": "sgd", "patience": 50, "watch": "loss", "lr_cut_every": 40},
    **{"graphs_per_step": 2, "inductive": "train", "batch_size": 256, "metric": "R2"},
    "test_curve": True,  # no number, but which of them are recorded
    "precision": "tf32",
}


def test_whatever_changes_numbers_changes_the_identity():
    assert CHANGES.keys() == {field.name for field in fields(Experiment)}
    for name, value in CHANGES.items():
        assert replace(BASE, **{name: value}).identity("h") != BASE.identity("h"), name


def test_other_data_is_another_identity():
    assert BASE.identity("h") != BASE.identity("g")


def test_identity_is_stable_across_versions():
    # A record must be found again by later versions: this value may never change.
    assert BASE.identity("h") == "273a04a99ab9"


def test_labels_name_the_row_of_a_table():
    assert BASE.label == "gcn"
    assert replace(BASE, norm="layer", reweight="dr").label == "gcn + layer norm + dr"
    assert replace(BASE, pre_activation=True).label == "gcn + pre-activation"


# Recipes


CITATION = [
    (name, split) for name in ("cora", "citeseer", "pubmed") for split in ("public", "full")
]
REFINED = [("corar", "full"), ("citeseerr", "full")]


def changed(dataset, split, model):
    """What a recipe sets, beside what it is for."""
    return departures(recipe(dataset, split, model), Experiment(dataset, split, model))


def test_gcn_is_trained_by_the_defaults_of_an_experiment():
    for dataset, split in (*CITATION, *REFINED, ("planted", "random")):
        assert recipe(dataset, split) == Experiment(dataset, split)


def test_gat_is_trained_as_its_authors_and_the_paper_say():
    usual = {"lr": 0.005, "epochs": 10_000, "rule": "patience"}
    assert usual | {"dropout": 0.6} == changed("cora", "public", "gat")
    assert usual | {"dropout": 0.35} == changed("corar", "full", "gat")
    pubmed = recipe("pubmed", "public", "gat")
    assert (pubmed.lr, pubmed.weight_decay, pubmed.dropout) == (0.01, 0.001, 0.6)
    assert pubmed.options == {"out_heads": 8}
    full = recipe("pubmed", "full", "gat")  # "we also adopt the Cora/Citeseer structure"
    assert (full.lr, full.dropout, full.options) == (0.005, 0.35, {})
    rule = stopping_rule(recipe("cora", "public", "gat"))
    assert rule == Patience(100)


@pytest.mark.parametrize(
    ("dataset", "hidden", "readout", "lr", "every", "decay"),
    [
        ("cora", [24, 18, 18], [0, 7, 7], 1.0, 40, 5e-3),
        ("citeseer", [20, 20, 20], [6, 6, 6], 0.25, 40, 5e-2),
        ("pubmed", [17, 23, 20], [3, 6, 3], 0.5, 20, 5e-3),
    ],
)
def test_mixhop_is_trained_as_its_authors_scripts_say(dataset, hidden, readout, lr, every, decay):
    for split in ("public", "full"):
        e = recipe(dataset, split, "mixhop")
        assert e.options["hidden_channels"] == hidden
        assert e.options["readout_channels"] == readout
        assert e.options["hidden_dropout"] == 0.9
        assert "binarize" not in e.options
        assert (e.lr, e.lr_cut_every, e.weight_decay) == (lr, every, decay)
        assert (e.optimizer, e.dropout) == ("sgd", 0.5)
        assert stopping_rule(e) == BestValidation(patience=200)


def test_mixhop_takes_measured_features_as_they_are():
    for dataset, split in (*REFINED, ("wine", "random")):
        assert recipe(dataset, split, "mixhop").options["binarize"] is False


@pytest.mark.parametrize("model", ["chebyshev", "mlp"])
def test_kipfs_baselines_are_trained_as_in_his_code(model):
    e = recipe("citeseer", "public", model)
    assert (e.hidden_channels, e.epochs, e.rule, e.lr) == (16, 200, "rising-loss", 0.01)
    assert (e.dropout, e.weight_decay) == (0.5, 5e-4)
    assert stopping_rule(e) == RisingLoss()


def test_the_order_of_chebyshev_is_that_of_the_quoted_number():
    found = [recipe(name, "public", "chebyshev").options["K"] for name in ("cora", "citeseer")]
    assert found == [2, 3]


def test_lgcn_is_trained_as_in_its_code():
    e = recipe("cora", "public", "lgcn")
    assert (e.hidden_channels, e.num_layers, e.dropout) == (32, 2, 0.84)
    assert (e.optimizer, e.lr, e.weight_decay, e.options) == ("adam", 0.1, 5e-4, {})
    assert stopping_rule(e) == Patience(150, "accuracy")


def test_tissues_are_trained_on_as_gat_was_on_ppi():
    usual = {"lr": 0.005, "weight_decay": 0.0, "dropout": 0.0}
    published = {"epochs": 10_000, "rule": "patience", "graphs_per_step": 2}
    rebuilt = {"epochs": 50, "graphs_per_step": 1, "precision": "tf32"}
    sizes = {"gat": (1024, 3), "mlp": (1024, 3), "graphsage": (256, None), "lgcn": (32, None)}
    for model, (width, layers) in sizes.items():
        gat = {"heads": 4, "out_heads": 6, "residual": True}
        own = {"hidden_channels": width} | ({} if layers is None else {"num_layers": layers})
        own |= {"options": gat} if model == "gat" else {}
        assert changed("ppi", "published", model) == usual | published | own
        for split in ("published", "disjoint"):
            assert changed("ppi-rebuilt", split, model) == usual | rebuilt | own
    assert stopping_rule(recipe("ppi", "published", "mlp")) == Patience(100)
    assert stopping_rule(recipe("ppi-rebuilt", "disjoint", "mlp")) == BestValidation()


def test_geniepath_on_ppi_is_that_of_pygs_example():
    e = recipe("ppi", "published", "geniepath")
    assert (e.hidden_channels, e.num_layers, e.lr, e.graphs_per_step) == (256, 4, 0.005, 1)
    assert (e.dropout, e.weight_decay, e.epochs) == (0.0, 0.0, 100)


# Models that sample: values, and the classes' own defaults, as they reach the model


def built(dataset, model):
    """The model of a recipe, and how it is trained."""
    features, classes = {"pubmed": (500, 3), "reddit": (602, 41)}.get(dataset, (1433, 7))
    info = SimpleNamespace(classes=classes)
    x = torch.zeros(2, features)
    e = recipe(dataset, "full", model)
    return build(e, Data(x=x, dataset=info)), e


@pytest.mark.parametrize("dataset", ["corar", "pubmed"])
def test_asgcn_is_trained_as_its_code_and_the_paper_say(dataset):
    model, e = built(dataset, "asgcn")
    assert (e.lr, e.hidden_channels, e.weight_decay, e.dropout) == (0.001, 16, 5e-4, 0.0)
    assert (e.batch_size, e.epochs, e.inductive) == (256, 800, "train")
    assert (e.optimizer, e.num_layers, stopping_rule(e)) == ("adam", 2, BestValidation())
    assert not model.dense_first  # both layers are sampled
    assert (model.variance, model.max_degree) == (0.5, 32)
    assert model.count == (256 if dataset == "pubmed" else 128)
    assert model.extra_identity == (dataset == "pubmed")


def test_asgcn_on_reddit_is_trained_as_its_code_and_the_paper_say():
    for dataset in ("reddit", "reddit-like"):
        model, e = built(dataset, "asgcn")
        assert (e.lr, e.hidden_channels, e.weight_decay, e.dropout) == (0.01, 128, 1e-4, 0.0)
        assert (e.batch_size, e.epochs, e.inductive) == (256, 200, "train")
        assert model.dense_first
        assert (model.variance, model.max_degree, model.count) == (0.5, 64, 512)
        assert not model.extra_identity


@pytest.mark.parametrize("dataset", ["cora", "reddit"])
def test_asgcn_keeps_the_codes_quirks_but_one(dataset):
    """Dividing by the number of nodes at inference would give Dr another mean than in training."""
    model, _ = built(dataset, "asgcn")
    assert (model.drop_duplicates, model.swap_scores, model.divide_variance) == (True,) * 3
    assert not model.divide_by_nodes


@pytest.mark.parametrize("dataset", ["corar", "pubmed"])
def test_fastgcn_is_trained_as_its_code_and_the_paper_say(dataset):
    model, e = built(dataset, "fastgcn")
    assert (e.lr, e.hidden_channels, e.weight_decay, e.dropout) == (0.01, 16, 5e-4, 0.0)
    assert (e.epochs, e.inductive, e.optimizer) == (200, "apart", "adam")
    assert (model.count, model.kind, model.candidates) == (400, "importance", "rows")
    assert (model.power, model.replace, model.renormalize) == (1, False, True)


def test_fastgcn_on_reddit_is_trained_as_its_code_and_the_paper_say():
    model, e = built("reddit", "fastgcn")
    assert (e.lr, e.hidden_channels, e.weight_decay, e.dropout) == (0.01, 128, 1e-4, 0.0)
    assert (e.batch_size, e.epochs, e.inductive) == (256, 200, "train")
    assert model.count == 512


@pytest.mark.parametrize("dataset", ["corar", "pubmed"])
def test_graphsage_is_trained_as_graphsage_simple(dataset):
    model, e = built(dataset, "graphsage")
    assert (e.optimizer, e.lr, e.weight_decay, e.dropout) == ("sgd", 0.7, 0.0, 0.0)
    assert (e.hidden_channels, e.num_layers, e.inductive) == (128, 2, None)
    assert e.batch_size == (1024 if dataset == "pubmed" else 256)
    assert (model.concat, model.fan_outs, model.replace) == (False, (10, 10), False)
    assert model.bias is None


def test_graphsage_on_reddit_is_trained_as_its_authors_code():
    model, e = built("reddit", "graphsage")
    assert (e.optimizer, e.lr, e.weight_decay, e.dropout) == ("adam", 0.01, 0.0, 0.0)
    assert (e.batch_size, e.epochs, e.inductive) == (512, 10, "train")
    assert (model.concat, model.fan_outs) == (True, (10, 25))
    assert model.weights[0].shape == (602, 256)  # two halves of 128
    assert model.bias.shape == (41,)


def test_changes_win_over_the_usual():
    e = recipe("cora", "public", "gat", dropout=0.1, reweight="dr", rule="best-validation")
    assert (e.dropout, e.reweight, e.rule, e.lr) == (0.1, "dr", "best-validation", 0.005)
    assert stopping_rule(replace(e, patience=7)) == BestValidation(patience=7)
    assert stopping_rule(replace(e, rule="patience", patience=7)).patience == 7


def test_unknown_models_are_refused():
    with pytest.raises(InputError, match=f"{', '.join(MODELS)}; found 'sage'"):
        recipe("cora", "public", "sage")


# What is unusual


def test_nothing_is_unusual_about_a_recipe():
    places = [(name, split) for name in names() for split in describe(name).splits[:2]]
    for (dataset, split), model in product(places, MODELS):
        for row in ({}, {"reweight": "dr"}, {"norm": "layer"}, {"pre_activation": True}):
            assert unusual(recipe(dataset, split, model, **row)) == ""


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        ("gcn", {"epochs": 200, "rule": "rising-loss"}, "epochs 200, rule rising-loss"),
        ("gat", {"options": {"out_heads": 8}}, "out heads 8"),
        ("chebyshev", {"options": {}}, "K at its default"),
        ("mixhop", {"lr": 0.5, "lr_cut_every": None}, "lr 0.5, lr cut every None"),
        ("geniepath", {"options": {"lazy": True}}, "lazy True"),
        ("fastgcn", {"inductive": None}, "inductive None"),
        ("asgcn", {"batch_size": 512, "reweight": "dr"}, "batch size 512"),
    ],
)
def test_what_departs_from_a_recipe_is_said(model, changes, words):
    assert unusual(recipe("cora", "public", model, **changes)) == words


def test_one_option_changed_among_several_is_said_alone():
    e = recipe("cora", "public", "mixhop")
    other = replace(e, options={**e.options, "hidden_channels": [60, 0, 0]})
    assert unusual(other) == "hidden channels [60, 0, 0]"


def test_what_is_usual_for_one_dataset_is_unusual_for_another():
    pubmed = recipe("pubmed", "public", "gat")
    assert "out heads 8" in unusual(replace(pubmed, dataset="cora"))
    assert "out heads at its default" in unusual(
        replace(recipe("cora", "public", "gat"), dataset="pubmed")
    )


# Records made before


def test_committed_records_are_still_found_by_their_names(request):
    folder = request.config.rootpath / "results"
    records = load_records(folder)
    assert len(records) >= 43
    # A file's name holds the identity of the day it was written.
    assert {record.file_name for record in records} == {p.name for p in folder.glob("*-seeds-*")}


def test_an_experiment_read_from_a_record_is_the_one_that_was_written(make_record):
    from drgcn.studies.records import RunRecord

    for model in MODELS:
        e = recipe("cora", "full", model, reweight="dr")
        record = replace(make_record([0.8]), experiment=e)
        again = RunRecord.loads(record.dumps())
        assert again.experiment == e
        assert again.identity == record.identity
        assert unusual(again.experiment) == ""
