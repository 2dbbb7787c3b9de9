"""Equal and near features, against a dictionary of rows and against all pairs."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.linalg import inv, sqrtm
from scipy.stats import binom

from drgcn.audit.duplicates import features as module
from drgcn.audit.duplicates import hashing
from drgcn.audit.duplicates.features import NearDuplicates, exact_duplicates, near_duplicates
from drgcn.audit.duplicates.hashing import candidates, expected_recall
from drgcn.errors import InputError


def _literal(x: np.ndarray) -> tuple[list[list[int]], list[int]]:
    """Every row against a dictionary of rows."""
    seen: dict[tuple[float, ...], int] = {}
    pairs, zeros = [], []
    for node, row in enumerate(x.astype(np.float32).tolist()):
        key = tuple(0.0 if value == 0 else value for value in row)  # -0.0 is zero
        if not any(key):
            zeros.append(node)
        elif key in seen:
            pairs.append([seen[key], node])
        else:
            seen[key] = node
    return sorted(pairs), zeros


def _layouts(x: np.ndarray) -> dict[str, object]:
    tensor = torch.from_numpy(x)
    return {
        "array": x,
        "dense": tensor,
        "coo": tensor.to_sparse_coo(),
        "csr": tensor.to_sparse_csr(),
        "scipy": sparse.coo_matrix(x),
    }


SHAPES = st.tuples(st.integers(0, 12), st.integers(0, 4))
VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0])


@given(arrays(np.float32, SHAPES, elements=VALUES))
@settings(max_examples=60, deadline=None)
def test_all_layouts_equal_a_dictionary_of_rows(x: np.ndarray) -> None:
    pairs, zeros = _literal(x)
    for name, layout in _layouts(x).items():
        if not x.size and name in ("coo", "csr"):
            continue  # torch makes no sparse tensor of some empty shapes
        found = exact_duplicates(layout)
        assert found.pairs.nodes.tolist() == pairs, name
        assert found.zero_rows.tolist() == zeros, name
        assert (found.pairs.score == 1).all()


def test_stored_zeros_and_repeated_entries_do_not_matter() -> None:
    indices = torch.tensor([[0, 0, 0, 1, 2, 2], [1, 1, 2, 1, 1, 2]])
    values = torch.tensor([1.0, 1.0, 0.0, 2.0, 2.0, 1.0])
    x = torch.sparse_coo_tensor(indices, values, (3, 4))
    assert exact_duplicates(x).pairs.nodes.tolist() == [[0, 1]]


def test_hashes_that_collide_make_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hashes", lambda rows: np.zeros(rows.shape[0], dtype=np.uint64))
    x = np.random.default_rng(0).integers(1, 3, (60, 4)).astype(np.float32)
    for layout in (x, sparse.csr_array(x)):
        assert exact_duplicates(layout).pairs.nodes.tolist() == _literal(x)[0]


def test_hashes_tell_rows_apart_that_share_their_sums() -> None:
    x = np.array([[1, 2, 0], [2, 1, 0], [0, 1, 2], [3, 0, 0], [0, 3, 0]], dtype=np.float32)
    assert len(set(module._hashes(x).tolist())) == 5
    np.testing.assert_array_equal(module._hashes(x), module._hashes(sparse.csr_array(x)))


def test_all_rows_equal_is_one_group() -> None:
    found = exact_duplicates(np.ones((1000, 3)))
    assert found.pairs.nodes.tolist() == [[0, node] for node in range(1, 1000)]


def test_tiny_inputs_have_exact_duplicates() -> None:
    for nodes in range(3):
        assert len(exact_duplicates(np.ones((nodes, 2))).pairs) == max(nodes - 1, 0)


def test_permuting_nodes_permutes_groups() -> None:
    draw = np.random.default_rng(1)
    x = draw.integers(0, 3, (200, 3)).astype(np.float32)
    order = draw.permutation(200)

    def groups(x: np.ndarray, names: np.ndarray) -> set[frozenset[int]]:
        members = defaultdict(set)
        for node, first in enumerate(exact_duplicates(x).first):
            members[int(first)].add(int(names[node]))
        return {frozenset(group) for group in members.values()}

    assert groups(x, np.arange(200)) == groups(x[order], order)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(bad: float) -> None:
    x = np.ones((3, 2))
    x[1, 1] = bad
    for layout in (x, torch.from_numpy(x), torch.from_numpy(x).to_sparse_csr()):
        with pytest.raises(InputError, match="row 1, column 1"):
            exact_duplicates(layout)
    with pytest.raises(InputError, match="matrix"):
        exact_duplicates(np.ones(3))


def _bags(draw: np.random.Generator, rows: int, columns: int = 600) -> np.ndarray:
    """Words by Zipf's law, independent of each other, in rows of very different lengths."""
    frequency = 1 / np.arange(5, columns + 5)
    wanted = draw.gamma(2, 8, rows)[:, None] * frequency / frequency.sum()
    return (draw.random((rows, columns)) < wanted).astype(np.float32)


def _jaccard_of_all_pairs(x: np.ndarray) -> dict[tuple[int, int], float]:
    sets = [set(np.flatnonzero(row)) for row in x]
    return {
        (a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b])
        for a in range(len(sets))
        for b in range(a + 1, len(sets))
        if sets[a] | sets[b]
    }


def _digest(*parts: np.ndarray) -> list[bytes]:
    return [hashlib.sha256(part.tobytes()).digest() for part in parts]


def _as_set(found: NearDuplicates) -> set[tuple[int, int]]:
    return set(map(tuple, found.pairs.nodes.tolist()))


def test_planted_bags_are_found_and_nothing_else() -> None:
    draw = np.random.default_rng(0)
    x = _bags(draw, 400)
    long = np.flatnonzero(x.sum(1) >= 15)[:30]
    planted = set()
    for place, source in enumerate(long):
        copy = x[source].copy()
        words = np.flatnonzero(copy)
        copy[draw.choice(words, max(len(words) // 6, 1), replace=False)] = 0
        x = np.vstack([x, copy])
        planted.add((int(source), 400 + place))
    found = near_duplicates(x)
    assert found.similarity == "jaccard"
    assert _as_set(found) == planted
    similarity = _jaccard_of_all_pairs(x)
    for pair, score in zip(found.pairs.nodes.tolist(), found.pairs.score, strict=True):
        assert score == pytest.approx(similarity[tuple(pair)])


def test_every_pair_above_the_threshold_is_a_candidate() -> None:
    draw = np.random.default_rng(1)
    x = _bags(draw, 300)
    for _ in range(150):  # chains of versions, from nearly equal to rather different
        row = x[draw.integers(len(x))].copy()
        row[draw.integers(0, 600, 4)] = 1
        x = np.vstack([x, row])
    from drgcn.audit.duplicates.hashing import similar_sets

    x = np.unique(x[x.any(axis=1)], axis=0)
    wanted = {pair for pair, s in _jaccard_of_all_pairs(x).items() if s >= 0.5}
    assert len(wanted) > 50
    for seed in range(3):
        found = set(map(tuple, similar_sets(sparse.csr_array(x), 0.5, seed).tolist()))
        assert len(wanted - found) <= 0.02 * len(wanted)


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_planted_dense_rows_are_found_and_nothing_else(noise: float) -> None:
    draw = np.random.default_rng(2)
    mixing = np.eye(32) + 0.2 * draw.standard_normal((32, 32))
    x = draw.standard_normal((2000, 32)) @ mixing
    x[1000:1100] = x[:100] + noise * draw.standard_normal((100, 32)) @ mixing
    x = (x * np.exp(draw.standard_normal(32)) + 5).astype(np.float32)
    found = near_duplicates(x)
    z = (x - x.mean(0)) / x.std(0)
    z = z @ np.real(inv(sqrtm(np.corrcoef(x.T) + 0.01 * np.eye(32))))
    squares = (z**2).sum(1)
    dice = 2 * z @ z.T / (squares[:, None] + squares)
    a, b = np.nonzero(np.triu(dice, 1) >= found.threshold)
    assert found.similarity == "dice"
    assert _as_set(found) == set(zip(a.tolist(), b.tolist(), strict=True))
    assert _as_set(found) >= {(n, 1000 + n) for n in range(100)} or noise > 0.1
    np.testing.assert_allclose(found.pairs.score, dice[tuple(found.pairs.nodes.T)], atol=1e-4)


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "wine"])
def test_measurements_that_go_together_are_no_duplicates(name: str) -> None:
    # Patients and digits, all different; features that are strongly correlated.
    from drgcn.data import load

    x = load(name).x
    assert not len(near_duplicates(x).pairs)
    copies = x[:20] * (1 + 0.002 * torch.randn(20, x.size(1)))
    found = _as_set(near_duplicates(torch.cat([x, copies])))
    assert found == {(node, len(x) + node) for node in range(20)}


def test_copies_are_found_among_fewer_rows_than_columns() -> None:
    draw = np.random.default_rng(9)
    x = draw.standard_normal((120, 300))
    x = np.vstack([x, x[:20] + 0.02 * draw.standard_normal((20, 300))])
    assert _as_set(near_duplicates(x)) == {(node, 120 + node) for node in range(20)}


def test_recall_of_projections_is_what_is_said() -> None:
    from drgcn.audit.duplicates.hashing import similar_directions

    draw = np.random.default_rng(3)
    rows, cosine = 4000, 0.75
    x = draw.standard_normal((rows, 64))
    y = draw.standard_normal((500, 64))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y -= (y * x[:500]).sum(1, keepdims=True) * x[:500]
    x[3500:] = cosine * x[:500] + np.sqrt(1 - cosine**2) * y / np.linalg.norm(
        y, axis=1, keepdims=True
    )
    found = set(map(tuple, similar_directions(x.astype(np.float32), 0.7, 0).tolist()))
    hits = sum((n, 3500 + n) in found for n in range(500))
    said = expected_recall(rows, cosine)
    assert 0.5 < said < 1
    assert hits >= binom.ppf(1e-6, 500, said)


@pytest.mark.parametrize(
    "kind", ["words", "dense", pytest.param("sparse values", marks=pytest.mark.slow)]
)
def test_false_alarms_keep_to_the_stated_rate(kind: str) -> None:
    seeds, alarms = 30, 0
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        if kind == "words":
            x = _bags(draw, 250, 300)
        elif kind == "dense":
            x = draw.gamma(0.3, 1, (250, 8)).astype(np.float32)
        else:
            x = _bags(draw, 250, 100) * draw.random((250, 100)).astype(np.float32)
        found = near_duplicates(x, expected_false=0.5, least=0.01, seed=seed)
        alarms += len(found.pairs)
    # The count of false pairs has at most this mean: Poisson at the worst.
    assert alarms <= binom.ppf(0.999, 1000 * seeds, 0.5 / 1000)


def test_threshold_holds_for_columns_that_are_really_permuted() -> None:
    draw = np.random.default_rng(4)
    topic = draw.random((3, 200)) < 0.1
    x = (draw.random((300, 200)) < 0.02 + 0.3 * topic[draw.integers(0, 3, 300)]).astype(np.float32)
    quantile = near_duplicates(x, expected_false=1.0).null_quantile
    counts, highest = [], 0.0
    for _ in range(10):
        permuted = np.stack([draw.permutation(column) for column in x.T], axis=1)
        chance = np.array(list(_jaccard_of_all_pairs(permuted).values()))
        counts.append(int((chance >= quantile).sum()))
        highest = max(highest, float(chance.max()))
    assert np.mean(counts) <= 1.0
    assert highest >= 0.85 * quantile  # nor is it far too careful


def test_short_rows_are_no_duplicates() -> None:
    draw = np.random.default_rng(5)
    x = _bags(draw, 500)
    x[:100] = 0
    for row in x[:100]:  # one of ten frequent words, and another one
        row[draw.choice(10, 2, replace=False)] = 1
    found = near_duplicates(x)
    assert not {node for pair in _as_set(found) for node in pair} & set(range(100))


def test_layout_scale_and_order_do_not_matter() -> None:
    draw = np.random.default_rng(6)
    x = _bags(draw, 300)
    x[200:240] = x[:40]
    x[np.arange(200, 240), draw.integers(300, 600, 40)] = 1
    expected = near_duplicates(x)
    assert len(expected.pairs) >= 20
    tensor = torch.from_numpy(x)
    normalised = x / np.maximum(x.sum(1, keepdims=True), 1)
    for other in (tensor, tensor.to_sparse_coo(), tensor.to_sparse_csr(), sparse.csr_array(x)):
        assert _as_set(near_duplicates(other)) == _as_set(expected)
    assert _as_set(near_duplicates(normalised)) == _as_set(expected)
    order = draw.permutation(300)
    permuted = near_duplicates(x[order])
    renamed = {tuple(sorted((order[a], order[b]))) for a, b in _as_set(permuted)}
    assert renamed == _as_set(expected)


def test_dense_values_are_the_same_in_every_layout_and_order() -> None:
    draw = np.random.default_rng(7)
    x = draw.standard_normal((400, 20)).astype(np.float32)
    x[300:350] = x[:50] + 0.05 * draw.standard_normal((50, 20))
    expected = _as_set(near_duplicates(x))
    assert len(expected) >= 50
    assert _as_set(near_duplicates(torch.from_numpy(x).to_sparse_csr())) == expected
    order = draw.permutation(400)
    found = _as_set(near_duplicates(x[order]))
    assert {tuple(sorted((order[a], order[b]))) for a, b in found} == expected


def test_tiny_inputs() -> None:
    for shape in itertools.product([0, 1, 2, 3], [0, 1, 5]):
        for x in (np.ones(shape), np.random.default_rng(0).random(shape)):
            assert len(near_duplicates(x).pairs) <= 3


def test_all_rows_equal_are_no_near_duplicates() -> None:
    assert not len(near_duplicates(np.full((500, 7), 0.3)).pairs)


def test_input_is_not_changed_and_the_seed_decides() -> None:
    x = _bags(np.random.default_rng(8), 200)
    x[100:150] = x[:50]
    x[100:150, 7] = 1
    csr = torch.from_numpy(x).to_sparse_csr()
    before = _digest(csr.values().numpy(), csr.col_indices().numpy())
    digest = _digest(x)
    one, two = near_duplicates(x, seed=3), near_duplicates(x, seed=3)
    near_duplicates(csr)
    assert _digest(x) == digest
    after = _digest(csr.values().numpy(), csr.col_indices().numpy())
    assert before == after
    np.testing.assert_array_equal(one.pairs.nodes, two.pairs.nodes)
    np.testing.assert_array_equal(one.pairs.score, two.pairs.score)


def test_bad_input_is_refused() -> None:
    x = np.ones((3, 2))
    with pytest.raises(InputError, match="expected_false"):
        near_duplicates(x, expected_false=0)
    with pytest.raises(InputError, match="least"):
        near_duplicates(x, least=1.5)
    x[2, 0] = np.nan
    with pytest.raises(InputError, match="row 2, column 0"):
        near_duplicates(x)


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@pytest.mark.parametrize(("rows", "window"), [(2, 8), (8, 8), (9, 8), (100, 1), (100, 8)])
@pytest.mark.parametrize("values", [3, 1 << 31])
def test_candidates_in_pieces_and_threads_are_those_of_the_definition(
    monkeypatch, kind, rows, window, values
):
    monkeypatch.setattr(hashing, "_PIECE", 16)
    draw = np.random.default_rng(rows)
    keys = draw.integers(0, values, (11, rows)).astype(kind) << kind(kind().itemsize)
    signatures = draw.integers(0, 3, (rows, 4), dtype=np.uint64)
    expected = set()
    for key in keys:
        order = sorted(range(rows), key=lambda row: (key[row], row))
        for place, a in enumerate(order):
            for b in order[place + 1 : place + 1 + window]:
                apart = sum(int(x).bit_count() for x in signatures[a] ^ signatures[b])
                if apart <= 2:
                    expected.add((min(a, b), max(a, b)))
    found = candidates(keys, signatures, 2, window)
    assert list(map(tuple, found.tolist())) == sorted(expected)
