from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError

from .graphs import WORDS, as_data, small, write_npz, write_pt, write_pt_dict, write_sparse_npz

# .npz files


GRAPH = small()
PLAIN: dict[str, Any] = {"x": GRAPH.x, "edge_index": GRAPH.pairs, "y": GRAPH.y}


def _csr(prefix: str, matrix: Any) -> dict[str, np.ndarray]:
    csr = sparse.csr_array(matrix)
    return {
        f"{prefix}data": csr.data,
        f"{prefix}indices": csr.indices,
        f"{prefix}indptr": csr.indptr,
        f"{prefix}shape": np.array(csr.shape),
    }


def _benchmark() -> dict[str, Any]:
    weights = np.ones(GRAPH.pairs.shape[1])
    adjacency = sparse.coo_array((weights, GRAPH.pairs), shape=(12, 12))
    return _csr("adj_", adjacency) | _csr("attr_", GRAPH.x) | {"labels": GRAPH.y}


def _heterophilous() -> dict[str, Any]:
    stacked = {f"{key}s": np.stack([mask, np.roll(mask, 1)]) for key, mask in GRAPH.masks.items()}
    return {
        "node_features": GRAPH.x,
        "node_labels": GRAPH.y,
        "edges": GRAPH.pairs.T,
    } | stacked


def test_dense_and_sparse_files_give_the_same_graph(tmp_path: Path) -> None:
    dense = load(write_npz(tmp_path / "dense.npz", GRAPH)).dataset
    sparse_one = load(write_sparse_npz(tmp_path / "sparse.npz", GRAPH)).dataset
    assert dense.content_hash == sparse_one.content_hash
    assert dense.split == "given"
    assert dense.name == "dense"
    assert dense.feature_source == "own"


def test_gnn_benchmark_layout_is_recognised(tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", **_benchmark())
    data = load(tmp_path / "b.npz")
    own = load(write_npz(tmp_path / "own.npz", GRAPH), split="random-60")
    assert data.dataset.split == "random-60"
    assert data.dataset.content_hash == own.dataset.content_hash


def test_heterophilous_layout_has_numbered_splits(tmp_path: Path) -> None:
    np.savez(tmp_path / "h.npz", **_heterophilous())
    own = load(write_npz(tmp_path / "own.npz", GRAPH))
    assert load(tmp_path / "h.npz").dataset.content_hash == own.dataset.content_hash
    second = load(tmp_path / "h.npz", split="1")
    assert second.dataset.split == "1"
    assert second.train_mask.tolist() == np.roll(GRAPH.part == 1, 1).tolist()
    with pytest.raises(InputError, match="choose one of 0, 1, random"):
        load(tmp_path / "h.npz", split="2")


def test_without_a_split_sixty_percent_train(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **PLAIN)
    info = load(tmp_path / "g.npz", split_seed=5).dataset
    assert (info.split, info.split_seed) == ("random-60", 5)
    assert (info.train, info.val, info.test) == (8, 2, 2)


def test_a_given_split_can_be_overruled(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "g.npz", GRAPH)
    assert load(path, split="random-60").dataset.split == "random-60"


def test_words_serve_as_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **(PLAIN | {"y": np.array(["b", "a", ""] * 4)}))
    data = load(tmp_path / "g.npz")
    assert data.y[:3].tolist() == [1, 0, -1]
    assert data.dataset.class_names == ("a", "b")


def test_unlabelled_graphs_are_read_only_on_request(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", x=GRAPH.x, edge_index=GRAPH.pairs)
    with pytest.raises(InputError, match="at least two classes are needed, but there is none"):
        load(tmp_path / "g.npz")
    info = load(tmp_path / "g.npz", require_labels=False).dataset
    assert (info.classes, info.unlabelled, info.train, info.split) == (0, 12, 0, "none")


def _with(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (PLAIN | changes).items() if value is not None}


NAN, HUGE = GRAPH.x.copy(), GRAPH.x.astype(np.float64)
NAN[3, 1], HUGE[4, 2] = np.nan, 1e300
OVERLAP = GRAPH.masks | {"val_mask": (GRAPH.part == 2) | (GRAPH.part == 1)}

NPZ_MISTAKES = {
    "no x": (_with(x=None), "must hold x and edge_index, but it holds edge_index, y"),
    "no edges": (_with(edge_index=None), "has no array 'edge_index'"),
    "x is a vector": (_with(x=GRAPH.x[:, 0]), "features must be a matrix"),
    "x has no columns": (_with(x=GRAPH.x[:, :0]), "needs nodes and features"),
    "x is text": (_with(x=GRAPH.x.astype(str)), "must be numbers"),
    "x is too large": (_with(x=HUGE), "row 4, column 2 is not a finite"),
    "x has a NaN": (_with(x=NAN), "row 3, column 1 is not a finite"),
    "edges stand upright": (_with(edge_index=GRAPH.pairs.T), r"of shape \[2, edges\]"),
    "edge below zero": (_with(edge_index=np.array([[0, -1], [2, 1]])), "names node -1"),
    "edge out of range": (_with(edge_index=np.array([[0, 1], [2, 12]])), "edge 1 names node 12"),
    "split too short": (_with(split=WORDS), "one word for each of the 12"),
    "two masks of three": (_with(train_mask=GRAPH.part == 1), "but val_mask is not"),
    "mask of numbers": (_with(**{k: m * 2 for k, m in GRAPH.masks.items()}), "true or false"),
    "mask too short": (_with(**{k: m[:4] for k, m in GRAPH.masks.items()}), "true or false"),
    "parts overlap": (_with(**OVERLAP), "node 0 is in both the train and the val part"),
    "half a sparse matrix": (
        _with(x=None, x_data=np.ones(2)),
        "needs x_data, x_indices, x_indptr and x_shape, but x_indices is not there",
    ),
    "broken sparse matrix": (
        _with(x=None, **(_csr("x_", GRAPH.x) | {"x_indices": np.full(36, 99)})),
        "do not form a CSR matrix",
    ),
    "adjacency of another size": (_benchmark() | _csr("adj_", np.eye(5)), "but x has 12 nodes"),
    "flat masks": (_heterophilous() | GRAPH.masks | {"val_masks": GRAPH.part == 2}, "three mask"),
}


@pytest.mark.parametrize("mistake", NPZ_MISTAKES)
def test_each_mistake_in_arrays_is_one_clear_sentence(tmp_path: Path, mistake: str) -> None:
    arrays, message = NPZ_MISTAKES[mistake]
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "g.npz")
    assert "g.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **_with(x=np.array([{}, []], dtype=object)))
    with pytest.raises(InputError, match="pickled Python objects, which are never opened"):
        load(tmp_path / "g.npz")


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "g.npz").open("wb") as file:
        np.save(file, GRAPH.x)
    with pytest.raises(InputError, match="holds a single array"):
        load(tmp_path / "g.npz")


def test_every_truncation_of_arrays_is_an_input_error(tmp_path: Path) -> None:
    whole = write_npz(tmp_path / "g.npz", GRAPH).read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(InputError):
            load(tmp_path / "cut.npz")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "parts"),
    [
        ("amazon-photo", 7650, 119081, 745, 8, (160, 240, 7250)),
        ("coauthor-cs", 18333, 81894, 6805, 15, (300, 450, 17583)),
        ("blogcatalog", 5196, 171743, 8189, 6, (120, 180, 4896)),
        ("tolokers", 11758, 519000, 10, 2, (5879, 2939, 2940)),
        ("chameleon-filtered", 890, 8854, 2325, 5, (409, 287, 194)),
        ("squirrel-filtered", 2223, 46998, 2089, 5, (1053, 718, 452)),
    ],
)
def test_real_graphs_have_their_counts(
    real: Callable[..., Any],
    name: str,
    nodes: int,
    edges: int,
    features: int,
    classes: int,
    parts: tuple[int, int, int],
) -> None:
    info = real(name, sparse=True).dataset
    assert (info.nodes, info.edges, info.features, info.classes) == (
        nodes,
        edges,
        features,
        classes,
    )
    assert (info.train, info.val, info.test) == parts
    assert info.feature_source == "published"


@pytest.mark.data
def test_real_heterophilous_splits_differ(real: Callable[..., Any]) -> None:
    digests = {real("chameleon-filtered", split=str(i)).dataset.content_hash for i in range(10)}
    assert len(digests) == 10


def test_several_labels_a_node_are_read_from_arrays(tmp_path: Path) -> None:
    graph = small()
    y = np.eye(3, dtype=int)[graph.y]
    y[0] = 1
    np.savez(tmp_path / "g.npz", x=graph.x, edge_index=graph.pairs, y=y, split=WORDS[graph.part])
    data = load(tmp_path / "g.npz")
    assert data.dataset.multi_label
    assert data.y.tolist() == y.tolist()


# .pt files


def test_data_and_dict_are_the_same(tmp_path: Path) -> None:
    data = load(write_pt(tmp_path / "data.pt", GRAPH))
    mapping = load(write_pt_dict(tmp_path / "dict.pt", GRAPH))
    assert data.dataset.content_hash == mapping.dataset.content_hash
    assert data.dataset.split == "given"


def test_a_loaded_dataset_survives_saving(tmp_path: Path) -> None:
    for as_sparse in (False, True):
        wine = load("wine", sparse=as_sparse)
        torch.save(wine, tmp_path / "wine.pt")
        again = load(tmp_path / "wine.pt", sparse=as_sparse)
        assert again.dataset.content_hash == wine.dataset.content_hash
        assert again.dataset.class_names == wine.dataset.class_names


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32])
def test_features_of_other_types_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    data = as_data(GRAPH)
    data.x = data.x.round().to(dtype)
    torch.save(data, tmp_path / "g.pt")
    assert torch.equal(load(tmp_path / "g.pt").x, as_data(GRAPH).x.round())


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_csc"])
def test_sparse_features_are_read(tmp_path: Path, layout: str) -> None:
    data = as_data(GRAPH)
    data.x = getattr(data.x, layout)()
    torch.save(data.to_dict(), tmp_path / "g.pt")
    assert torch.equal(load(tmp_path / "g.pt").x, as_data(GRAPH).x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64])
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
        (Data(x=torch.ones(3, 2)), "tensors x and edge_index"),
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
def test_each_mistake_in_a_saved_graph_is_one_clear_sentence(
    tmp_path: Path, content: Any, message: str
) -> None:
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "g.pt")
    assert "g.pt" in str(caught.value)


def test_sparse_features_with_indices_past_the_end_are_refused(tmp_path: Path) -> None:
    x = torch.sparse_csr_tensor([0, 1, 2], [0, 99999], [1.0, 1.0], size=(2, 3))
    torch.save({"x": x, "edge_index": torch.zeros(2, 1).long()}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt is damaged"):
        load(tmp_path / "bad.pt")


def test_truncations_of_a_saved_graph_are_input_errors(tmp_path: Path) -> None:
    whole = write_pt(tmp_path / "g.pt", GRAPH).read_bytes()
    for length in range(0, len(whole), 211):
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut\.pt is damaged"):
            load(tmp_path / "cut.pt")


def test_several_labels_a_node_are_read_from_a_saved_graph(tmp_path: Path) -> None:
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


def test_what_belongs_to_edges_is_not_dropped_in_silence(tmp_path: Path) -> None:
    data = as_data(GRAPH)
    data.edge_weight = data.edge_attr = torch.ones(data.num_edges)
    torch.save(data, tmp_path / "g.pt")
    with pytest.warns(DrgcnWarning, match=r"g\.pt: edge_weight and edge_attr are not used"):
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
