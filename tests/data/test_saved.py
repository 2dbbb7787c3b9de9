from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError

from .graphs import as_data, small, write_pt, write_pt_dict

GRAPH = small()


def test_data_and_dict_are_the_same(tmp_path: Path) -> None:
    data = load(write_pt(tmp_path / "data.pt", GRAPH))
    mapping = load(write_pt_dict(tmp_path / "dict.pt", GRAPH))
    assert data.dataset.content_hash == mapping.dataset.content_hash
    assert data.dataset.split == "given"


def test_a_loaded_dataset_survives_saving(tmp_path: Path) -> None:
    for sparse in (False, True):
        wine = load("wine", sparse=sparse)
        torch.save(wine, tmp_path / "wine.pt")
        again = load(tmp_path / "wine.pt", sparse=sparse)
        assert again.dataset.content_hash == wine.dataset.content_hash
        assert again.dataset.class_names == wine.dataset.class_names


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_features_of_other_types_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    data = as_data(GRAPH)
    data.x = data.x.round().to(dtype)
    torch.save(data, tmp_path / "g.pt")
    assert torch.equal(load(tmp_path / "g.pt").x, as_data(GRAPH).x.round())


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_features_are_read(tmp_path: Path, layout: str) -> None:
    data = as_data(GRAPH)
    data.x = getattr(data.x, layout)()
    torch.save(data.to_dict(), tmp_path / "g.pt")
    assert torch.equal(load(tmp_path / "g.pt").x, as_data(GRAPH).x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_sparse_features_of_other_types_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    data = as_data(GRAPH)
    data.x = data.x.round().to(dtype).to_sparse_coo()
    torch.save(data, tmp_path / "g.pt")
    assert torch.equal(load(tmp_path / "g.pt").x, as_data(GRAPH).x.round())


def test_columns_of_masks_are_numbered_splits(tmp_path: Path) -> None:
    data = as_data(GRAPH)
    for key in GRAPH.masks:
        data[key] = torch.stack([data[key], data[key].roll(1)], dim=1)
    torch.save(data, tmp_path / "g.pt")
    assert load(tmp_path / "g.pt").dataset.split == "0"
    second = load(tmp_path / "g.pt", split="1")
    assert torch.equal(second.train_mask, as_data(GRAPH).train_mask.roll(1))


class _Hostile:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_hostile_files_run_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    torch.save({"x": _Hostile(mark)}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt is damaged or holds more than a PyG Data"):
        load(tmp_path / "bad.pt")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "must hold a PyG Data or its dict, not a list"),
        ({}, "tensors x and edge_index, but it holds nothing"),
        ({"x": 3, "edge_index": torch.zeros(2, 1)}, "tensors x and edge_index"),
        (Data(x=torch.ones(3, 2)), "tensors x and edge_index"),
        ({"x": torch.ones(3), "edge_index": torch.zeros(2, 1, dtype=torch.long)}, "a matrix"),
        ({"x": torch.ones(3, 2), "edge_index": torch.zeros(2, 1)}, "must be whole numbers"),
        (
            {"x": torch.ones(3, 2), "edge_index": torch.zeros(2, 1).long(), "y": torch.eye(3)},
            "y must hold one class number",
        ),
        (
            {"x": torch.ones(3, 2), "edge_index": torch.zeros(2, 1).long(), "y": [1, 2, 3]},
            "must be plain tensors",
        ),
        (
            {"x": torch.ones(3, 2) * 1j, "edge_index": torch.zeros(2, 1).long()},
            "features must be numbers",
        ),
    ],
)
def test_each_mistake_is_one_clear_sentence(tmp_path: Path, content: Any, message: str) -> None:
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "g.pt")
    assert "g.pt" in str(caught.value)


def test_sparse_features_with_indices_past_the_end_are_refused(tmp_path: Path) -> None:
    x = torch.sparse_csr_tensor([0, 1, 2], [0, 99999], [1.0, 1.0], size=(2, 3))
    torch.save({"x": x, "edge_index": torch.zeros(2, 1).long()}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt is damaged"):
        load(tmp_path / "bad.pt")


def test_truncations_are_input_errors(tmp_path: Path) -> None:
    whole = write_pt(tmp_path / "g.pt", GRAPH).read_bytes()
    for length in range(0, len(whole), 211):
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut\.pt is damaged"):
            load(tmp_path / "cut.pt")


def test_several_labels_a_node_are_read(tmp_path: Path) -> None:
    data = as_data(GRAPH)
    data.y = torch.nn.functional.one_hot(data.y) + torch.tensor([0, 0, 1])
    data.y = data.y.clamp(max=1)
    torch.save(data, tmp_path / "g.pt")
    again = load(tmp_path / "g.pt")
    assert again.dataset.multi_label
    assert torch.equal(again.y, data.y.float())
    drawn = load(tmp_path / "g.pt", split="random-60")
    assert drawn.dataset.train + drawn.dataset.val + drawn.dataset.test == data.num_nodes
    with pytest.raises(InputError, match="here a node has several labels"):
        load(tmp_path / "g.pt", split="random")


@pytest.mark.parametrize("key", ["edge_weight", "edge_attr"])
def test_what_belongs_to_edges_is_not_dropped_in_silence(tmp_path: Path, key: str) -> None:
    data = as_data(GRAPH)
    data[key] = torch.ones(data.num_edges)
    torch.save(data, tmp_path / "g.pt")
    with pytest.warns(DrgcnWarning, match=rf"g\.pt: {key} .*not used"):
        load(tmp_path / "g.pt")


def test_a_class_that_is_only_tested_is_named(tmp_path: Path) -> None:
    data = as_data(GRAPH)
    data.y[data.test_mask] = 3
    torch.save(data, tmp_path / "g.pt")
    with pytest.warns(DrgcnWarning, match=r"no training node has \(3\)") as caught:
        load(tmp_path / "g.pt")
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (torch.arange(178), "edge 0 joins two graphs"),
        (torch.zeros(178), "the number of its graph"),
        (torch.zeros(3).long(), "the number of its graph"),
        ([0], "plain tensors"),
    ],
)
def test_a_union_whose_graphs_are_wrong_is_refused(
    tmp_path: Path, graph: Any, message: str
) -> None:
    wine = load("wine")
    wine.graph = graph
    torch.save(wine, tmp_path / "g.pt")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "g.pt")
