from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from drgcn.data import load
from drgcn.errors import InputError


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


@pytest.mark.parametrize("k", [0, 178, 2.5])
def test_impossible_numbers_of_neighbours_are_refused(k: float) -> None:
    with pytest.raises(InputError, match="k must be a whole number from 1 to 177"):
        load("wine", k=k)
