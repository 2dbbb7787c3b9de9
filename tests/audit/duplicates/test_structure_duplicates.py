from __future__ import annotations

import numpy as np
import pytest

from drgcn.audit.duplicates.features import neighbour_overlap, structure_duplicates


def _neighbours(edges: np.ndarray, nodes: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges.T.tolist():
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_twins_equal_a_comparison_of_all_pairs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    edges = draw.integers(0, 25, (2, 30))
    edges = np.concatenate([edges, [[25, 25, 26, 26, 27, 28, 27, 28, 27], [0, 1, 0, 1, 2, 2, 3, 3, 28]]], axis=1)  # noqa: E501 # fmt: skip
    around = _neighbours(edges, 29)
    twins = {
        (a, b)
        for a in range(29)
        for b in range(a + 1, 29)
        if around[a] - {b} == around[b] - {a} and len(around[a] - {b}) >= 2
    }
    found = structure_duplicates(edges, 29)
    pairs = set(map(tuple, found.nodes.tolist()))
    assert {(25, 26), (27, 28)} <= pairs <= twins
    assert {node for pair in pairs for node in pair} == {node for pair in twins for node in pair}
    np.testing.assert_array_equal(structure_duplicates(edges[::-1], 29).nodes, found.nodes)


def test_leaves_are_no_twins() -> None:
    star = np.array([[0] * 9, range(1, 10)])
    assert not len(structure_duplicates(star, 10))
    assert len(structure_duplicates(star, 10, least_degree=1)) == 8


def test_no_edges() -> None:
    assert not len(structure_duplicates(np.empty((2, 0), dtype=np.int64), 4))
    assert not len(structure_duplicates(np.empty((2, 0), dtype=np.int64), 0))


def test_overlap_leaves_the_pair_itself_out() -> None:
    edges = np.array([[0, 0, 1, 1, 0, 2], [2, 3, 2, 4, 1, 2]])
    asked = np.array([[0, 1], [2, 3], [3, 4]])
    np.testing.assert_allclose(neighbour_overlap(edges, 5, asked), [1 / 3, 1 / 2, 0])
