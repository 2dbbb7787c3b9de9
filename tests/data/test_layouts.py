from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from drgcn.data import load
from drgcn.errors import InputError

from .graphs import WORDS, small, write_npz, write_sparse_npz

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

MISTAKES = {
    "no x": (_with(x=None), "must hold x and edge_index, but it holds edge_index, y"),
    "no edges": (_with(edge_index=None), "has no array 'edge_index'"),
    "x is a vector": (_with(x=GRAPH.x[:, 0]), "features must be a matrix"),
    "x is a number": (_with(x=np.array(1.0)), "features must be a matrix"),
    "x has no columns": (_with(x=GRAPH.x[:, :0]), "needs nodes and features"),
    "x is text": (_with(x=GRAPH.x.astype(str)), "must be numbers"),
    "x has a NaN": (_with(x=NAN), "row 3, column 1 is not a finite"),
    "x is too large": (_with(x=HUGE), "row 4, column 2 is not a finite"),
    "edges stand upright": (_with(edge_index=GRAPH.pairs.T), r"of shape \[2, edges\]"),
    "edges are floats": (_with(edge_index=GRAPH.pairs * 1.5), "must be whole numbers"),
    "edge out of range": (_with(edge_index=np.array([[0, 1], [2, 12]])), "edge 1 names node 12"),
    "edge below zero": (_with(edge_index=np.array([[0, -1], [2, 1]])), "names node -1"),
    "labels too short": (_with(y=GRAPH.y[:5]), "each of the 12 nodes"),
    "labels of one class": (_with(y=GRAPH.y * 0), "but there is only '0'"),
    "labels plus and minus": (_with(y=GRAPH.y % 2 * 2 - 1), "as 0 and 1"),
    "unknown split word": (_with(split=np.array(["dev"] * 12)), "node 0 has 'dev'"),
    "split too short": (_with(split=WORDS), "one word for each of the 12"),
    "empty test part": (_with(split=np.array(["train", "val"] * 6)), "the test part .* is empty"),
    "two masks of three": (_with(train_mask=GRAPH.part == 1), "but val_mask is not"),
    "mask too short": (_with(**{k: m[:4] for k, m in GRAPH.masks.items()}), "true or false"),
    "mask of numbers": (_with(**{k: m * 2 for k, m in GRAPH.masks.items()}), "true or false"),
    "parts overlap": (_with(**OVERLAP), "node 0 is in both the train and the val part"),
    "unlabelled training node": (
        _with(y=np.where(np.arange(12) == 3, -1, GRAPH.y), **GRAPH.masks),
        "node 3 is in the train part but has no label",
    ),
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_one_clear_sentence(tmp_path: Path, mistake: str) -> None:
    arrays, message = MISTAKES[mistake]
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


def test_every_truncation_is_an_input_error(tmp_path: Path) -> None:
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


def test_several_labels_a_node_are_read(tmp_path: Path) -> None:
    graph = small()
    y = np.eye(3, dtype=int)[graph.y]
    y[0] = 1
    np.savez(tmp_path / "g.npz", x=graph.x, edge_index=graph.pairs, y=y, split=WORDS[graph.part])
    data = load(tmp_path / "g.npz")
    assert data.dataset.multi_label
    assert data.y.tolist() == y.tolist()
