from __future__ import annotations

import pytest
import torch

from drgcn.data import load


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
