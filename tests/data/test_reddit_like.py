from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from drgcn.data import describe, load
from drgcn.data.reddit import CLASS_SIZES, PUBLISHED
from drgcn.data.reddit_like import class_sizes, draw_edges, draw_texts, make, popularity
from drgcn.errors import InputError

SMALL = 0.02
HALF, WHOLE = 0.05, pytest.param(0.1, marks=pytest.mark.slow)  # from 0.1 on degrees are Reddit's
# Of load("reddit-like", scale=0.005): the same on every machine.
DIGEST = "043506e1dbcbddfa"


@pytest.fixture(scope="module")
def small() -> Any:
    return load("reddit-like", scale=SMALL, normalize="none")


@pytest.fixture(scope="module")
def made() -> Iterator[Callable[[float, int], Any]]:
    """Each scale and seed is drawn once for all tests of this file, which only read it."""
    drawn = cache(lambda scale, seed: make("full", scale=scale, seed=seed))
    yield drawn
    drawn.cache_clear()


def _degrees(raw: Any) -> np.ndarray:
    return np.bincount(raw.pairs.ravel(), minlength=len(raw.y))


def _homophily(raw: Any) -> float:
    return float((raw.y[raw.pairs[0]] == raw.y[raw.pairs[1]]).mean())


def test_sizes_are_shares_of_reddits(small: Any) -> None:
    info = small.dataset
    assert info.nodes == small.num_nodes == round(SMALL * 232_965)
    assert (info.features, info.classes) == (602, 41)
    assert (info.val, info.test) == (round(SMALL * 23_699), round(SMALL * 55_334))
    assert info.train + info.val + info.test == info.nodes
    assert small.x.dtype == torch.float32
    assert not small.x.is_sparse
    assert small.edge_index.dtype == torch.int64


@pytest.mark.parametrize("scale", [0.005, HALF, WHOLE])
def test_edges_are_different_without_loops_and_as_many_as_asked(scale: float, made: Any) -> None:
    raw = made(scale, 0)
    low, high = np.sort(raw.pairs, axis=0)
    assert (low < high).all()
    assert len(np.unique(low * len(raw.y) + high)) == len(low)
    assert len(low) == round(11_606_919 * scale * min(1, scale / 0.1))


def test_loaded_edges_go_both_ways_and_nothing_was_removed(small: Any) -> None:
    assert small.is_undirected()
    assert (small.dataset.self_loops, small.dataset.duplicate_edges) == (0, 0)
    assert small.dataset.edges * 2 == small.num_edges


def test_classes_have_reddits_shares(small: Any) -> None:
    share = small.y.bincount(minlength=41) / small.num_nodes
    expected = np.array(CLASS_SIZES) / sum(CLASS_SIZES)
    assert np.abs(share.numpy() - expected).max() <= 1 / small.num_nodes
    assert class_sizes(sum(CLASS_SIZES)).tolist() == list(CLASS_SIZES)


@pytest.mark.parametrize(("scale", "seed"), [(0.005, 0), (0.02, 1), (HALF, 0)])
def test_homophily_is_near_reddits(scale: float, seed: int, made: Any) -> None:
    assert 0.75 <= _homophily(made(scale, seed)) <= 0.8


@pytest.mark.parametrize("scale", [HALF, WHOLE])
def test_degrees_have_a_heavy_tail(scale: float, made: Any) -> None:
    degrees = np.sort(_degrees(made(scale, 0)))
    assert degrees.mean() == pytest.approx(996 * scale, abs=0.1)
    assert np.median(degrees) < 0.7 * degrees.mean()
    assert degrees[-1] > 25 * degrees.mean()
    # Hill's estimate over the largest percent: a thin tail would have an exponent of 5 and more.
    top = degrees[-len(degrees) // 100 :]
    assert 1.2 < 1 / np.log(top / top[0]).mean() < 3.5


@pytest.mark.parametrize("scale", [HALF, WHOLE])
def test_few_nodes_have_no_neighbours(scale: float, made: Any) -> None:
    assert 0 < (_degrees(made(scale, 0)) == 0).mean() < 0.01


def test_edges_between_classes_prefer_a_topic() -> None:
    rng = np.random.default_rng(0)
    community, topic_of = rng.integers(12, size=3000), np.arange(12) % 3
    weight = rng.permutation(popularity(3000))
    ends = community[draw_edges(community, topic_of, weight, 30_000, rng)]
    other = ends[:, ends[0] != ends[1]]
    assert other.shape[1] == 30_000 - round(0.875 * 30_000)
    # By chance 3 of the 11 other communities are of the same topic.
    assert (topic_of[other[0]] == topic_of[other[1]]).mean() > 2 * 3 / 11


def test_popular_nodes_have_the_high_degrees() -> None:
    rng = np.random.default_rng(0)
    weight = rng.permutation(popularity(4000))
    pairs = draw_edges(rng.integers(5, size=4000), np.zeros(5, np.int64), weight, 40_000, rng)
    degrees = np.bincount(pairs.ravel(), minlength=4000)
    order = np.argsort(weight)
    means = [part.mean() for part in np.array_split(degrees[order], 8)]
    assert means == sorted(means)
    assert means[-1] > 10 * means[0]


# Features


def test_texts_are_signed_and_counts_are_louder(small: Any) -> None:
    raw = load("reddit-like", scale=SMALL, counts="raw", normalize="none").x
    counts, texts = raw[:, :2], raw[:, 2:]
    assert (texts < 0).float().mean().item() == pytest.approx(0.5, abs=0.15)
    loudest = texts.std(0).max()
    assert small.x[:, :2].std(0).min() > 1.3 * loudest
    assert small.x[:, :2].std(0).min() > 5 * texts.std(0).median()
    assert counts.std(0).min() > 30 * loudest
    assert torch.equal(small.x[:, 2:], texts)


def test_counts_are_whole_and_only_scores_are_negative() -> None:
    x = load("reddit-like", scale=SMALL, counts="raw", normalize="none").x
    assert torch.equal(x[:, :2], x[:, :2].round())
    assert x[:, 0].min() >= 0
    assert 0.02 < (x[:, 1] < 0).float().mean() < 0.06
    for column in x[:, :2].T:
        assert column.max() > 20 * column.median() > 0


def test_spectrum_of_the_texts_decays() -> None:
    rng = np.random.default_rng(0)
    topic_of = np.arange(41) % 8
    texts = draw_texts(rng.integers(41, size=4000), topic_of, rng)
    assert texts.shape == (4000, 600)
    values = np.linalg.eigvalsh(np.cov(texts.T))[::-1]
    share = np.cumsum(values) / values.sum()
    assert 0.05 < share[0] < 0.3
    assert 0.3 < share[15] < 0.8
    assert values[0] > 4 * values[7] > 8 * values[63]


def test_texts_know_the_class_a_little(small: Any) -> None:
    x, y = small.x[:, 2:].numpy(), small.y.numpy()
    classes = np.flatnonzero(np.bincount(y) >= 200)
    means = np.stack([x[y == label].mean(0) for label in classes])
    between, inside = means.var(0).mean(), x.var(0).mean()
    assert 0.02 < between / inside < 0.5


def test_rows_can_be_divided_by_their_sums(small: Any) -> None:
    sums = small.x.sum(1)
    assert sums.min() > 3
    assert load("reddit-like", scale=SMALL).x.abs().max() < 2


def _accuracies(raw: Any) -> tuple[float, float]:
    """Test accuracy of logistic regression on X and on A_hat X, standardised."""
    nodes, (source, target) = len(raw.y), raw.pairs
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = sparse.csr_array((np.ones(len(ends[0]), np.float32), ends), (nodes, nodes))
    adjacency = adjacency + sparse.eye_array(nodes, dtype=np.float32, format="csr")
    root = sparse.diags_array(1 / np.sqrt(adjacency.sum(axis=1)))
    found = []
    for x in (raw.x, (root @ adjacency @ root) @ raw.x):
        train, test = raw.masks.train, raw.masks.test
        x = (x - x[train].mean(0)) / x[train].std(0)
        model = LogisticRegression(C=0.01, max_iter=100, tol=1e-3).fit(x[train], raw.y[train])
        found.append(model.score(x[test], raw.y[test]))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_neighbours_help_and_nothing_is_perfect(seed: int, made: Any) -> None:
    alone, averaged = _accuracies(made(HALF, seed))
    assert 0.4 < alone < 0.65
    assert 0.8 < averaged < 0.96


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_difficulty_is_near_reddits(seed: int, made: Any) -> None:
    alone, averaged = _accuracies(made(0.1, seed))
    assert 0.5 < alone < 0.7
    assert 0.9 < averaged < 0.96


# Repeatability


def _digest(**environment: str) -> str:
    code = (
        "from drgcn.data import load; print(load('reddit-like', scale=0.005).dataset.content_hash)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_content_is_pinned() -> None:
    assert load("reddit-like", scale=0.005).dataset.content_hash == DIGEST


@pytest.mark.parametrize(
    "environment",
    [
        {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        # Another machine: older kernels of the matrix library, and numpy without wide vectors.
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX X86_V3 X86_V4"},
    ],
)
@pytest.mark.slow
def test_threads_and_machines_change_no_bit(environment: dict[str, str]) -> None:
    assert _digest(**environment) == DIGEST


def test_seeds_differ_and_the_split_seed_does_not_matter() -> None:
    base, other = load("reddit-like", scale=0.005), load("reddit-like", scale=0.005, seed=1)
    assert (base.y != other.y).any()
    assert (base.x != other.x).any()
    again = load("reddit-like", scale=0.005, split_seed=1)
    assert again.dataset == base.dataset


def test_factors_times_loadings_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision, and in rows of another block size, the same bits."""
    y, topic_of = np.arange(500) % 41, np.arange(41) % 8
    single = draw_texts(y, topic_of, np.random.default_rng(3))
    monkeypatch.setattr(
        "drgcn.data.reddit_like._whole",
        lambda values, most: np.clip(np.rint(values), -most, most).astype(np.float64),
    )
    double = draw_texts(y, topic_of, np.random.default_rng(3))
    assert np.array_equal(single, double)


# Splits and options


def test_graphsage_split_leaves_out_lonely_training_nodes(small: Any) -> None:
    filtered = load("reddit-like", scale=SMALL, split="graphsage", normalize="none")
    source, target = small.edge_index
    train = small.train_mask
    met = torch.zeros_like(train)
    met[source[train[source] & train[target]]] = True
    assert torch.equal(filtered.train_mask, train & met)
    assert filtered.dataset.train < small.dataset.train
    assert torch.equal(filtered.x, small.x)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0},
        {"scale": 1.01},
        {"seed": -1, "scale": 0.005},
        {"counts": "maybe", "scale": 0.005},
        {"nodes": 100},
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        load("reddit-like", **options)


def test_it_says_everywhere_that_it_is_synthetic(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Synthetic" in describe("reddit-like").title
    assert "synthetic, not comparable with Reddit" in small.dataset.feature_source
    from drgcn.cli.verbs import app

    monkeypatch.setattr("drgcn.data.load", lambda *_, **__: small)
    done = CliRunner().invoke(app, ["data", "info", "reddit-like", "--json"])
    assert done.exit_code == 0
    assert "synthetic" in json.loads(done.stdout)["feature_source"]


# Full size


@pytest.mark.slow
def test_full_size_is_reddits() -> None:
    raw = make("full")
    assert raw.x.shape == (PUBLISHED.nodes, PUBLISHED.features)
    assert raw.pairs.shape == (2, PUBLISHED.edges)
    assert [int(mask.sum()) for mask in raw.masks] == [153_932, 23_699, 55_334]
    degrees = _degrees(raw)
    assert degrees.mean() == pytest.approx(99.6, abs=0.1)
    assert 12_000 < degrees.max() < 30_000
    assert 0.75 <= _homophily(raw) <= 0.8
    share = np.bincount(raw.y) / len(raw.y)
    assert share == pytest.approx(np.array(CLASS_SIZES) / sum(CLASS_SIZES), abs=1e-5)
    low, high = np.sort(raw.pairs, axis=0)
    keys = np.sort(low * len(raw.y) + high)
    assert (low != high).all()
    assert (keys[1:] != keys[:-1]).all()
