from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from drgcn.data import load
from drgcn.errors import InputError

# Tables of scikit-learn


@pytest.mark.parametrize(
    ("name", "nodes", "features", "classes", "parts"),
    [
        ("digits", 1797, 64, 10, (200, 300, 1297)),
        ("breast-cancer", 569, 30, 2, (40, 60, 469)),
        ("wine", 178, 13, 3, (30, 30, 118)),
    ],
)
def test_tables_have_their_sizes(
    name: str, nodes: int, features: int, classes: int, parts: tuple[int, int, int]
) -> None:
    info = load(name).dataset
    assert (info.nodes, info.features, info.classes) == (nodes, features, classes)
    assert (info.train, info.val, info.test) == parts
    assert info.normalize == "none"
    assert info.feature_source == "published"


def test_features_are_the_raw_table() -> None:
    assert np.array_equal(load("wine").x.numpy(), load_wine().data.astype(np.float32))


def test_edges_join_nearest_rows_of_the_standardised_table() -> None:
    table = load_wine().data.astype(np.float32).astype(np.float64)
    z = (table - table.mean(0)) / table.std(0)
    distance = ((z[:, None] - z[None]) ** 2).sum(-1)
    np.fill_diagonal(distance, np.inf)
    chosen = {(i, int(j)) for i in range(len(z)) for j in np.argsort(distance[i])[:4]}
    expected = sorted(chosen | {(j, i) for i, j in chosen})
    assert [tuple(edge) for edge in load("wine", k=4).edge_index.T.tolist()] == expected


def test_random_split_depends_on_its_seed_alone() -> None:
    first, again, other = (load("wine", split_seed=seed) for seed in (1, 1, 2))
    assert first.dataset == again.dataset
    assert first.dataset.split_seed == 1
    assert (first.train_mask != other.train_mask).any()
    assert (first.edge_index == other.edge_index).all()


def test_sixty_split_is_offered() -> None:
    info = load("wine", split="random-60").dataset
    assert (info.train, info.val, info.test) == (108, 35, 35)


def test_impossible_numbers_of_neighbours_are_refused() -> None:
    for k in (0, 178, 2.5):
        with pytest.raises(InputError, match="k must be a whole number from 1 to 177"):
            load("wine", k=k)


# The planted graph


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


@pytest.mark.parametrize("homophily", [0.3, 1.0])
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


def test_impossible_options_are_refused() -> None:
    for options in (
        {"classes": 1},
        {"nodes": 3},
        {"informative": 65},
        {"homophily": 1.5},
        {"nuisance_scale": -1.0},
        {"labels_per_class": 0},
        {"seed": -1},
    ):
        with pytest.raises(InputError, match="the planted graph needs"):
            load("planted", **options)


def test_too_few_nodes_for_the_split_are_refused() -> None:
    with pytest.raises(InputError, match="has only 100 nodes"):
        load("planted", nodes=400)
