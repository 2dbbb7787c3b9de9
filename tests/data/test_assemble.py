from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from drgcn.data import load
from drgcn.data.assemble import DatasetInfo, content_hash, undirected


def test_data_has_the_promised_types() -> None:
    data = load("wine")
    assert data.x.dtype == torch.float32
    assert data.y.dtype == data.edge_index.dtype == torch.int64
    assert data.train_mask.dtype == data.val_mask.dtype == data.test_mask.dtype == torch.bool
    assert data.is_undirected()
    assert data.is_coalesced()
    assert not data.has_self_loops()
    data.validate(raise_on_error=True)


def test_sparse_and_dense_features_are_the_same() -> None:
    dense, sparse = load("digits"), load("digits", sparse=True)
    assert sparse.x.layout == torch.sparse_csr
    assert torch.equal(sparse.x.to_dense(), dense.x)
    assert sparse.dataset == dense.dataset


@pytest.mark.parametrize("sparse", [False, True])
def test_copies_keep_the_record(sparse: bool) -> None:
    data = load("wine", sparse=sparse)
    copy = data.clone().to("cpu")
    assert copy.dataset == data.dataset
    assert copy.x.layout == data.x.layout
    copy.y[0] = 2
    assert data.y[0] == 0


def test_subgraphs_can_be_taken() -> None:
    data = load("wine")
    part = data.subgraph(data.train_mask)
    assert part.num_nodes == data.dataset.train
    assert part.dataset is data.dataset


def test_data_prints_on_one_line() -> None:
    assert "dataset=wine (random split)" in repr(load("wine"))


# Edges


def test_loops_and_repetitions_are_removed_and_counted() -> None:
    pairs = np.array([[0, 0, 1, 2, 2, 2, 3], [1, 1, 0, 2, 2, 0, 3]])
    clean = undirected(pairs, 4)
    assert clean.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert clean.self_loops == 2  # nodes 2 and 3, though node 2's loop is listed twice
    assert clean.duplicates == 1  # (0, 1) twice; (1, 0) is only the other direction


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), _pair_lists(n))))
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


def _pair_lists(nodes: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    node = st.integers(0, nodes - 1)
    return st.lists(st.tuples(node, node), max_size=30)


# The record and its digest


X = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3]], dtype=np.float32)
Y = np.array([0, -1, 1])
EDGES = np.array([[0, 1], [1, 0]])
MASKS = [np.array(row, dtype=bool) for row in ([1, 0, 0], [0, 0, 1], [0, 0, 0])]


def test_hash_of_a_known_graph_never_changes() -> None:
    # Pinned: run records made on other machines and versions refer to such digests.
    assert content_hash(X, Y, EDGES, MASKS) == "ac619a4c8b29441f"


def test_hash_is_the_same_for_dense_and_sparse_features() -> None:
    assert content_hash(sparse.csr_array(X), Y, EDGES, MASKS) == content_hash(X, Y, EDGES, MASKS)


def test_hash_ignores_stored_zeros_order_and_byte_order() -> None:
    untidy = sparse.csr_array(
        (np.array([0, 1.5, -3, 2], dtype=np.float32), [0, 1, 2, 0], [0, 2, 2, 4]), shape=(3, 3)
    )
    reference = content_hash(X, Y, EDGES, MASKS)
    assert content_hash(untidy, Y.astype(">i8"), EDGES.astype(">i4"), MASKS) == reference


def test_hash_ignores_block_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = content_hash(X, Y, EDGES, MASKS)
    monkeypatch.setattr("drgcn.data.assemble._ROWS_PER_BLOCK", 2)
    assert content_hash(X, Y, EDGES, MASKS) == reference


def test_hash_sees_every_part() -> None:
    more_x, more_y, more_edges = X.copy(), Y.copy(), EDGES.copy()
    more_x[1, 1], more_y[1], more_edges[1, 1] = 1, 1, 2
    wider = np.hstack([X, np.zeros((3, 1), np.float32)])
    other_masks = [MASKS[1], MASKS[0], MASKS[2]]
    digests = {
        content_hash(X, Y, EDGES, MASKS),
        content_hash(more_x, Y, EDGES, MASKS),
        content_hash(wider, Y, EDGES, MASKS),
        content_hash(X, more_y, EDGES, MASKS),
        content_hash(X, Y, more_edges, MASKS),
        content_hash(X, Y, EDGES, other_masks),
    }
    assert len(digests) == 6


def test_info_turns_into_plain_json() -> None:
    info = load("wine", k=3).dataset
    record = json.loads(json.dumps(info.to_dict()))
    assert record["options"] == {"k": 3}
    assert record["class_names"] == ["class_0", "class_1", "class_2"]
    assert record["train"] + record["val"] + record["test"] == record["nodes"] == 178


def test_info_prints_as_one_short_line() -> None:
    assert str(load("wine").dataset) == "wine (random split)"


def test_several_labels_enter_the_hash_with_their_width() -> None:
    masks = [np.array(row, dtype=bool) for row in ([1, 0], [0, 1], [0, 0])]
    x, none = np.ones((2, 1), np.float32), np.empty((2, 0), np.int64)
    single = content_hash(x, np.array([0, 1]), none, masks)
    column = content_hash(x, np.array([[0], [1]], np.float32), none, masks)
    square = content_hash(x, np.array([[0, 1], [0, 0]], np.float32), none, masks)
    turned = content_hash(x, np.array([[0, 0], [1, 0]], np.float32), none, masks)
    assert len({single, column, square, turned}) == 4


def test_records_saved_before_there_were_several_labels_are_read() -> None:
    old = load("wine").dataset
    values = {key: value for key, value in vars(old).items() if key != "multi_label"}
    again = object.__new__(DatasetInfo)
    vars(again).update(values)
    assert again == old


def test_edges_listed_in_both_directions_are_counted():
    pairs = np.array([[0, 1, 1, 2, 2, 2, 0], [1, 0, 2, 1, 1, 2, 3]])
    clean = undirected(pairs, 4)
    assert clean.edge_index.shape[1] == 2 * 3
    assert (clean.both_ways, clean.duplicates, clean.self_loops) == (2, 1, 1)
    assert undirected(pairs[:, :0], 4).both_ways == 0
