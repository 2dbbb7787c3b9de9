"""Features that predict the class: planted ones are found, chance ones as rarely as stated."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import mutual_info_score

from drgcn.audit.leaks.features import (
    ValueGroups,
    entropy,
    mutual_information,
    predictive_features,
)
from drgcn.errors import InputError


def codes(groups, column):
    """The group of every node in one column, from the indicators."""
    start = groups.starts[column]
    last = column + 1 == len(groups.starts)
    end = groups.indicators.shape[1] if last else groups.starts[column + 1]
    block = groups.indicators[:, start:end].toarray()
    assert (block.sum(axis=1) <= 1).all()
    return np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)


def mixed_columns(rng, nodes=300):
    return np.stack(
        [
            (rng.random(nodes) < 0.1) * rng.random(nodes),  # counts: mostly zero
            rng.integers(0, 5, nodes).astype(float),  # few values
            rng.normal(size=nodes),  # many values
            np.zeros(nodes),
            np.full(nodes, 3.0),
        ],
        axis=1,
    )


def test_groups_are_zero_or_not_values_or_quantiles():
    x = mixed_columns(np.random.default_rng(0))
    groups = ValueGroups.of(x, bins=8)
    assert ((codes(groups, 0) == 1) == (x[:, 0] != 0)).all()
    assert mutual_info_score(codes(groups, 1), x[:, 1]) == pytest.approx(
        entropy(np.unique(x[:, 1], return_counts=True)[1])
    )
    sizes = np.bincount(codes(groups, 2))
    assert len(sizes) == 8
    assert sizes.max() - sizes.min() <= 2
    assert len(np.unique(codes(groups, 3))) == len(np.unique(codes(groups, 4))) == 1


def test_half_of_zeros_make_two_groups():
    values = np.arange(1.0, 101.0)
    half = np.where(np.arange(100) < 50, 0.0, values)[:, None]
    less = np.where(np.arange(100) < 49, 0.0, values)[:, None]
    assert len(np.unique(codes(ValueGroups.of(half), 0))) == 2
    assert len(np.unique(codes(ValueGroups.of(less), 0))) > 2


def test_information_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    groups = ValueGroups.of(mixed_columns(rng))
    labellings = rng.integers(0, 4, (3, 300))
    ours = mutual_information(groups, labellings, 4)
    for column in range(5):
        for number, labels in enumerate(labellings):
            theirs = mutual_info_score(labels, codes(groups, column))
            assert ours[column, number] == pytest.approx(theirs, abs=1e-9)


def leaky(rng, nodes=400, width=60, classes=4):
    y = rng.integers(0, classes, nodes)
    x = (rng.random((nodes, width)) < 0.1).astype(np.float32)
    x[:, 7] = (y == 2) ^ (rng.random(nodes) < 0.02)
    x[:, 11] = y + rng.normal(size=nodes) * 0.1
    return x, y


def test_planted_leaks_are_found_with_what_they_say():
    for seed in range(5):
        x, y = leaky(np.random.default_rng(seed))
        result = predictive_features(x, y, seed=seed)
        found = {feature.column: feature for feature in result.found}
        assert {7, 11} <= set(found)
        assert len(found) <= 3
        word = found[7]
        assert word.label == 2
        here = x[:, 7] != 0
        assert word.precision == pytest.approx((y[here] == 2).mean())
        assert word.recall == pytest.approx(here[y == 2].mean())
        settled = mutual_info_score(y == 2, here) / entropy(np.bincount(y == 2))
        assert word.share == pytest.approx(settled)
        assert word.information == pytest.approx(mutual_info_score(y, here) / np.log(2))
        assert result.entropy == pytest.approx(entropy(np.bincount(y)) / np.log(2))


def test_false_alarms_come_at_the_stated_rate():
    # One in five, so that both too many and too few would show among 300 draws.
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(1000 + seed)
        x = np.concatenate(
            [rng.random((60, 20)) < 0.3, rng.normal(size=(60, 5))], axis=1, dtype=np.float32
        )
        y = rng.permutation(np.repeat([0, 1, 2], 20))
        alarms += bool(predictive_features(x, y, rate=0.2, permutations=19, seed=seed).found)
    # Ties make the test a little shy; 60 are expected, with a deviation of 7.
    assert 32 <= alarms <= 82


def test_sparse_is_dense():
    x, y = leaky(np.random.default_rng(3))
    dense, thin = predictive_features(x, y), predictive_features(sparse.csr_array(x), y)
    assert dense.found == thin.found
    assert dense.threshold == thin.threshold
    assert (dense.information == thin.information).all()


def test_blocks_of_columns_change_nothing(monkeypatch):
    x, y = leaky(np.random.default_rng(4))
    whole = predictive_features(x, y)
    monkeypatch.setattr("drgcn.audit.leaks.features._COLUMNS", 7)
    monkeypatch.setattr("drgcn.audit.leaks.features._COUNTS", 5000)
    parts = predictive_features(x, y)
    assert parts.found == whole.found
    assert parts.threshold == whole.threshold


def test_only_labels_that_may_be_seen_are_seen():
    x, y = leaky(np.random.default_rng(5))
    mask = np.arange(400) < 200
    hidden = np.where(mask, y, 3 - y)
    first, second = predictive_features(x, y, mask), predictive_features(x, hidden, mask)
    assert first.found == second.found
    assert first.nodes == 200
    unknown = np.where(mask, y, -1)
    assert predictive_features(x, unknown).found == first.found


def test_many_nodes_are_sampled():
    x, y = leaky(np.random.default_rng(6), nodes=3000)
    result = predictive_features(x, y, most_nodes=500)
    assert result.nodes == 500
    assert {7, 11} <= {feature.column for feature in result.found}


def test_the_input_stays_as_it_is():
    x, y = leaky(np.random.default_rng(7))
    thin = sparse.csr_array(x)
    before = x.copy(), y.copy(), thin.data.copy(), thin.indices.copy()
    predictive_features(x, y)
    predictive_features(thin, y)
    for old, new in zip(before, (x, y, thin.data, thin.indices), strict=True):
        assert (old == new).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (np.where(x == 1, np.nan, x), y, {}), "finite features"),
        (lambda x, y: (x, y * 0, {}), "at least 2 classes; found 1"),
        (lambda x, y: (x, y * 0 - 1, {}), "at least 2 classes; found 0"),
        (lambda x, y: (x, y[:, None], {}), "one class number for each"),
        (lambda x, y: (x[:, :0], y, {}), "at least one feature column"),
        (lambda x, y: (x, y, {"permutations": 10}), "Shuffle more often"),
        (lambda x, y: (x, y, {"rate": 1.5}), "rate between 0 and 1"),
    ],
)
def test_bad_input_is_refused(change, message):
    x, y, options = change(*leaky(np.random.default_rng(8)))
    with pytest.raises(InputError, match=message):
        predictive_features(x, y, **options)


@pytest.mark.slow
def test_ten_thousand_features_take_seconds():
    import time

    x = sparse.random(20_000, 10_000, density=0.005, format="csr", dtype=np.float32, rng=0)
    y = np.random.default_rng(0).integers(0, 7, 20_000)
    start = time.monotonic()
    assert predictive_features(x, y).nodes == 20_000
    assert time.monotonic() - start < 60
