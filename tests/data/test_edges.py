from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drgcn.data.assemble import undirected


def test_loops_and_repetitions_are_removed_and_counted() -> None:
    pairs = np.array([[0, 0, 1, 2, 2, 2, 3], [1, 1, 0, 2, 2, 0, 3]])
    clean = undirected(pairs, 4)
    assert clean.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert clean.self_loops == 2  # nodes 2 and 3, though node 2's loop is listed twice
    assert clean.duplicates == 1  # (0, 1) twice; (1, 0) is only the other direction


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), _pairs(n))))
def test_edges_equal_a_slow_transcription(case: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, listed = case
    clean = undirected(np.array(listed, dtype=np.int64).reshape(-1, 2).T, nodes)
    straight = {(a, b) for a, b in listed if a != b}
    both = straight | {(b, a) for a, b in straight}
    assert [tuple(edge) for edge in clean.edge_index.T.tolist()] == sorted(both)
    assert clean.self_loops == len({a for a, b in listed if a == b})
    assert clean.duplicates == len([1 for a, b in listed if a != b]) - len(straight)
    assert clean.edge_index.dtype == np.int64


def test_a_graph_without_edges_is_a_graph() -> None:
    assert undirected(np.empty((2, 0), dtype=np.int64), 3).edge_index.shape == (2, 0)


def _pairs(nodes: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    node = st.integers(0, nodes - 1)
    return st.lists(st.tuples(node, node), max_size=30)
