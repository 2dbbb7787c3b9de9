from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drgcn.data import load
from drgcn.errors import InputError


def test_default_graph_has_few_labels_and_loud_noise() -> None:
    data = load("planted")
    info = data.dataset
    assert (info.nodes, info.classes, info.train, info.val, info.test) == (2000, 4, 120, 500, 1380)
    assert info.feature_source == "generated"
    scale = data.x.std(dim=0)
    assert scale[:16].max() < 4 < 9 < scale[16:].min()


def test_only_informative_columns_know_the_class() -> None:
    data = load("planted", nodes=8000, features=12, informative=4, nuisance_scale=1.0, signal=2.0)
    means = np.stack([data.x[data.y == label].mean(0).numpy() for label in range(4)])
    spread = means.std(axis=0)
    assert spread[:4].min() > 0.3
    assert spread[4:].max() < 0.1


@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_homophily_and_degree_are_as_asked(homophily: float) -> None:
    data = load("planted", nodes=6000, homophily=homophily, mean_degree=8.0, classes=3)
    source, target = data.edge_index
    assert (data.y[source] == data.y[target]).float().mean() == pytest.approx(homophily, abs=0.02)
    assert data.num_edges / data.num_nodes == pytest.approx(8.0, rel=0.02)


def test_seed_and_split_seed_are_independent() -> None:
    base, other_split, other_graph = (
        load("planted"),
        load("planted", split_seed=1),
        load("planted", seed=1),
    )
    assert (base.x == other_split.x).all()
    assert (base.train_mask != other_split.train_mask).any()
    assert base.dataset.content_hash == load("planted").dataset.content_hash
    assert (base.x != other_graph.x).any()


def test_classes_are_of_equal_size() -> None:
    data = load("planted", nodes=1001, labels_per_class=5, val_per_class=5)
    assert sorted(data.y.bincount().tolist()) == [250, 250, 250, 251]


@pytest.mark.parametrize(
    "options",
    [
        {"classes": 1},
        {"nodes": 3},
        {"informative": 65},
        {"homophily": 1.5},
        {"nuisance_scale": -1.0},
        {"labels_per_class": 0},
        {"seed": -1},
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the planted graph needs"):
        load("planted", **options)


def test_too_few_nodes_for_the_split_are_refused() -> None:
    with pytest.raises(InputError, match="has only 100 nodes"):
        load("planted", nodes=400)
