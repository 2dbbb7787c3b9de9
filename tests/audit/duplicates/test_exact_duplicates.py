from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from drgcn.audit.duplicates import features as module
from drgcn.audit.duplicates.features import exact_duplicates
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


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_tiny_inputs(nodes: int) -> None:
    found = exact_duplicates(np.ones((nodes, 2)))
    assert len(found.pairs) == max(nodes - 1, 0)


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
