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

from .graphs import (
    WORDS,
    as_data,
    small,
    write_csv,
    write_npz,
    write_pt,
    write_pt_dict,
    write_sparse_npz,
)

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


def _adjacency() -> Any:
    matrix = np.zeros((12, 12), dtype=np.float32)
    matrix[tuple(GRAPH.pairs)] = 1
    return matrix


def _benchmark() -> dict[str, Any]:
    return _csr("adj_", _adjacency()) | _csr("attr_", GRAPH.x) | {"labels": GRAPH.y}


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
    "no x": (_with(x=None), "expected the arrays x and edge_index.* found edge_index, y"),
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


def test_features_that_are_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **_with(x=np.array([{}, []], dtype=object)))
    with pytest.raises(InputError, match=r"features must be a matrix"):
        load(tmp_path / "g.npz")


def _pickled_matrices() -> dict[str, Any]:
    """The graph as matrices inside object arrays, as several collections publish theirs."""
    matrices = {"adj_matrix": _adjacency(), "node_attr": GRAPH.x}
    return {
        key: np.array(sparse.csr_matrix(matrix), dtype=object) for key, matrix in matrices.items()
    } | {"node_label": GRAPH.y}


@pytest.mark.parametrize("layout", ["parts", "matrices"])
def test_pickled_gnn_benchmark_files_are_read_without_unpickling(
    tmp_path: Path, layout: str
) -> None:
    np.savez(tmp_path / "plain.npz", **_benchmark())
    arrays = _benchmark() if layout == "parts" else _pickled_matrices()
    names = np.array([f"node {number}" for number in range(12)], dtype=object)
    ragged = np.empty((), dtype=object)
    ragged[()] = [[1], [2, 3]]
    extra = {"node_names": names, "metadata": np.array({"from": "here"}, dtype=object)}
    extra["ragged"] = ragged
    np.savez(tmp_path / "pickled.npz", **arrays, **extra)
    plain, pickled = load(tmp_path / "plain.npz"), load(tmp_path / "pickled.npz")
    assert pickled.dataset.content_hash == plain.dataset.content_hash


def test_pickled_labels_are_words_or_numbers(tmp_path: Path) -> None:
    words = np.array(["pine", "oak", "elm"], dtype=object)[GRAPH.y]
    np.savez(tmp_path / "g.npz", **(_benchmark() | {"labels": words}))
    assert load(tmp_path / "g.npz").dataset.class_names == ("elm", "oak", "pine")
    np.savez(tmp_path / "g.npz", **(_benchmark() | {"labels": GRAPH.y.astype(object)}))
    assert load(tmp_path / "g.npz").y.tolist() == GRAPH.y.tolist()


def test_hostile_members_of_archives_run_nothing_and_are_left_out(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "mark"),)

    hostile = np.array([Hostile()], dtype=object)
    np.savez(tmp_path / "g.npz", **_benchmark(), metadata=hostile)
    with pytest.warns(DrgcnWarning, match=r"'metadata' is left out: it asks for \w+") as caught:
        load(tmp_path / "g.npz")
    assert caught[0].filename == __file__
    np.savez(tmp_path / "g.npz", **_with(x=hostile))
    with (
        pytest.warns(DrgcnWarning, match="'x' is left out"),
        pytest.raises(InputError, match="expected the arrays x and edge_index"),
    ):
        load(tmp_path / "g.npz")
    assert not (tmp_path / "mark").exists()


def test_entries_of_an_adjacency_are_no_weights_and_this_is_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **_benchmark())
    plain = load(tmp_path / "g.npz")
    np.savez(tmp_path / "g.npz", **(_benchmark() | _csr("adj_", 2 * _adjacency())))
    with pytest.warns(DrgcnWarning, match="not 1 are taken for 1") as caught:
        assert load(tmp_path / "g.npz").dataset.content_hash == plain.dataset.content_hash
    assert caught[0].filename == __file__


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


@pytest.mark.parametrize("slices", [None, {"x": torch.tensor([0, 12])}])
def test_the_file_of_a_pyg_dataset_of_one_graph_is_read(tmp_path: Path, slices: Any) -> None:
    alone = load(write_pt(tmp_path / "alone.pt", GRAPH)).dataset.content_hash
    torch.save((as_data(GRAPH).to_dict(), slices, Data), tmp_path / "data.pt")
    assert load(tmp_path / "data.pt").dataset.content_hash == alone
    torch.save((as_data(GRAPH), {"x": torch.tensor([0, 5, 12])}), tmp_path / "data.pt")
    with pytest.raises(InputError, match="not a tuple"):
        load(tmp_path / "data.pt")


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
    arrays = {key: value.numpy() for key, value in data.to_dict().items()}
    np.savez(tmp_path / "g.npz", **arrays)
    assert load(tmp_path / "g.npz", split="1").dataset.content_hash == second.dataset.content_hash


def test_a_part_that_splits_share_needs_no_columns(tmp_path: Path) -> None:
    data = as_data(GRAPH)
    for key in ("train_mask", "val_mask"):
        data[key] = torch.stack([data[key], data[key]], dim=1)
    data.train_mask[0, 1] = False
    torch.save(data, tmp_path / "g.pt")
    first, second = (load(tmp_path / "g.pt", split=name) for name in "01")
    assert first.dataset.train == second.dataset.train + 1
    assert torch.equal(first.test_mask, second.test_mask)
    data.val_mask = data.val_mask[:, :1].repeat(1, 3)
    torch.save(data, tmp_path / "g.pt")
    with pytest.raises(InputError, match="the same number of splits"):
        load(tmp_path / "g.pt")


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


def _symmetric_weights() -> np.ndarray:
    """A weight for each listed edge, the same in both directions."""
    return (np.minimum(*GRAPH.pairs) + 13 * np.maximum(*GRAPH.pairs)).astype(np.float32)


def test_weights_of_edges_are_the_same_in_every_form(tmp_path: Path) -> None:
    weight, tables = _symmetric_weights(), write_csv(tmp_path / "csv", GRAPH)
    ends = [f"n{a},n{b},{w!r}" for (a, b), w in zip(GRAPH.pairs.T, weight.tolist(), strict=True)]
    (tables / "edges.csv").write_text("\n".join(["source,target,weight", *ends, ""]))
    np.savez(tmp_path / "g.npz", **PLAIN, **GRAPH.masks, edge_weight=weight)
    data = as_data(GRAPH)
    data.edge_weight = torch.from_numpy(weight)
    torch.save(data, tmp_path / "g.pt")
    found = [load(path) for path in (tables, tmp_path / "g.npz", tmp_path / "g.pt")]
    assert len({one.dataset.content_hash for one in found}) == 1
    source, target = found[0].edge_index.numpy()
    expected = np.minimum(source, target) + 13 * np.maximum(source, target)
    assert found[0].edge_weight.tolist() == expected.tolist()
    torch.save(found[0], tmp_path / "again.pt")
    assert load(tmp_path / "again.pt").dataset.content_hash == found[0].dataset.content_hash


@pytest.mark.parametrize("form", ["npz", "pt"])
def test_a_single_number_an_edge_is_a_weight_and_several_are_not(
    tmp_path: Path, form: str
) -> None:
    weight, path = _symmetric_weights(), tmp_path / f"g.{form}"

    def save(**more: np.ndarray) -> None:
        if form == "npz":
            np.savez(path, **PLAIN, **GRAPH.masks, **more)
        else:
            torch.save(
                as_data(GRAPH).update({k: torch.from_numpy(v) for k, v in more.items()}), path
            )

    save(edge_attr=weight[:, None])
    with pytest.warns(DrgcnWarning, match="edge_attr, one number .* taken for edge w") as caught:
        data = load(path)
    assert caught[0].filename == __file__
    assert data.edge_weight.max() == weight.max()
    save(edge_attr=np.stack([weight, weight], axis=1))
    with pytest.warns(DrgcnWarning, match="edge_attr is not used"):
        assert "edge_weight" not in load(path)
    save(edge_attr=weight, edge_weight=np.ones_like(weight))
    with pytest.warns(DrgcnWarning, match="edge_attr is not used"):
        assert "edge_weight" not in load(path)
    save(edge_weight=weight[1:])
    with pytest.raises(InputError, match=r"weight of each of the 24 edges; found .*23"):
        load(path)


@pytest.mark.parametrize("form", ["npz", "pt"])
def test_what_is_not_read_is_named(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"g.{form}"
    more = {"pos": GRAPH.x, "labels": GRAPH.y}
    arrays = {key: value for key, value in PLAIN.items() if key != "y"}

    def save(**arrays: np.ndarray) -> None:
        if form == "npz":
            np.savez(path, **arrays)
        else:
            torch.save({key: torch.from_numpy(value) for key, value in arrays.items()}, path)

    save(**PLAIN, **more)
    with pytest.warns(DrgcnWarning, match="pos, labels are not used") as caught:
        load(path)
    assert caught[0].filename == __file__
    save(**PLAIN, train_idx=GRAPH.y[:3], valid_idx=GRAPH.y[3:6], test_idx=GRAPH.y[6:])
    with pytest.raises(InputError, match=r"expected the split as train_mask.* found train_idx"):
        load(path)
    save(**arrays, labels=GRAPH.y)
    with pytest.raises(InputError, match="labels as 'y'; found none, but 'labels'"):
        load(path, require_labels=False)


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


def test_an_array_says_which_nodes_are_the_same_thing(tmp_path: Path) -> None:
    words = np.array([f" g{node % 5}" for node in range(12)])
    words[7] = ""
    numbers = np.array([node % 5 if node != 7 else -1 for node in range(12)])
    large = (numbers % 5).astype(np.uint64) + np.uint64(2**63)
    for things in (words, numbers, large):
        np.savez(tmp_path / "g.npz", **PLAIN, gene=things)
        data = load(tmp_path / "g.npz", identity="gene", split="random-60")
        same = data.identity[:, None] == data.identity
        known = data.identity != -1
        expected = things[:, None] == things
        assert torch.equal(same & known, torch.from_numpy(expected) & known)
        assert int((~known).sum()) == (0 if things is large else 1)
        assert data.dataset.options == (("identity", "gene"),)
    for wrong in ("y", "none"):
        with pytest.raises(InputError, match="that says what thing a node is; found gene"):
            load(tmp_path / "g.npz", identity=wrong)
    torch.save({**as_data(GRAPH).to_dict(), "gene": torch.from_numpy(numbers)}, tmp_path / "g.pt")
    data = load(tmp_path / "g.pt", identity="gene", split="random-60")
    assert data.identity.tolist() == numbers.tolist()
    with pytest.warns(DrgcnWarning, match="gene are not used"):
        assert "identity" not in load(tmp_path / "g.pt", split="random-60")
