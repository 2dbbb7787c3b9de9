from dataclasses import replace

import pytest

from drgcn.studies.experiment import Experiment

BASE = Experiment("cora", "full")


@pytest.mark.parametrize(
    "change",
    [
        {"split": "public"},
        {"reweight": "dr"},
        {"norm": "batch"},
        {"pre_activation": True},
        {"hidden_channels": 16},
        {"num_layers": 3},
        {"dropout": 0.4},
        {"epochs": 10},
        {"rule": "patience"},
        {"lr": 0.02},
        {"weight_decay": 0.0},
    ],
)
def test_whatever_changes_numbers_changes_the_identity(change):
    assert replace(BASE, **change).identity("h") != BASE.identity("h")


def test_other_data_is_another_identity():
    assert BASE.identity("h") != BASE.identity("g")


def test_identity_is_stable_across_versions():
    # A record must be found again by later versions: this value may never change.
    assert BASE.identity("h") == "273a04a99ab9"


def test_labels_name_the_row_of_a_table():
    assert BASE.label == "gcn"
    assert replace(BASE, norm="layer", reweight="dr").label == "gcn + layer norm + dr"
    assert replace(BASE, pre_activation=True).label == "gcn + pre-activation"
