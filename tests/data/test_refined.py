from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from drgcn.data import load
from drgcn.errors import InputError, MissingDataError

NODES = 2680


def _write_small(root: Path, labels: np.ndarray | None = None) -> Path:
    folder = root / "refined"
    folder.mkdir()
    ring = sparse.csr_matrix(np.eye(NODES, k=1) + np.eye(NODES, k=-1))
    one_hot = np.eye(7)[np.arange(NODES) % 7]
    (folder / "corax_adj.pkl").write_bytes(pickle.dumps(ring, 3))
    content = pickle.dumps(one_hot if labels is None else labels, 3)
    (folder / "corax_labels.pkl").write_bytes(content)
    return folder


def _features(nodes: int = NODES) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(nodes, 4)).astype(np.float32)


@pytest.mark.parametrize("word", ["features", "feature", "feat"])
def test_published_features_are_taken_first(tmp_path: Path, word: str) -> None:
    folder = _write_small(tmp_path)
    (folder / f"corax_{word}.pkl").write_bytes(pickle.dumps(_features(), 3))
    np.save(folder / "corar_features.npy", _features() + 1)
    data = load("CoraR", tmp_path, offline=True)
    assert data.dataset.feature_source == "published"
    assert data.dataset.normalize == "none"
    assert (data.x.numpy() == _features()).all()


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_rebuilt_features_are_called_rebuilt(tmp_path: Path, save: Any) -> None:
    folder = _write_small(tmp_path)
    save(folder / "corar_features", _features())
    assert load("corar", tmp_path, offline=True).dataset.feature_source == "rebuilt"


def test_features_of_your_own_are_named(tmp_path: Path) -> None:
    _write_small(tmp_path)
    sparse.save_npz(tmp_path / "mine.npz", sparse.csr_matrix(_features()))
    data = load("corar", tmp_path, features=tmp_path / "mine.npz", offline=True)
    assert data.dataset.feature_source == "rebuilt: mine.npz"
    assert (data.x.numpy() == _features()).all()


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    _write_small(tmp_path, labels=np.arange(NODES) % 7)
    np.save(tmp_path / "f.npy", _features())
    data = load("corar", tmp_path, features=tmp_path / "f.npy", offline=True)
    assert data.y.tolist() == [node % 7 for node in range(NODES)]
    assert data.dataset.class_names[0] == "Theory"


def test_split_is_train_then_val_then_test(tmp_path: Path) -> None:
    _write_small(tmp_path)
    np.save(tmp_path / "f.npy", _features())
    data = load("corar", tmp_path, features=str(tmp_path / "f.npy"), offline=True)
    assert data.train_mask.nonzero().flatten().tolist() == list(range(1180))
    assert data.val_mask.nonzero().flatten().tolist() == list(range(1180, 1680))
    assert data.test_mask.nonzero().flatten().tolist() == list(range(1680, 2680))


def test_missing_features_are_explained(tmp_path: Path) -> None:
    _write_small(tmp_path)
    with pytest.raises(MissingDataError, match=r"no features: put the authors' corax_features"):
        load("corar", tmp_path, offline=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.npy", _features(3), "2680 nodes, but its feature file has 3 rows"),
        ("f.npy", _features()[:, 0], "must be a matrix"),
        ("f.npy", np.full((NODES, 1), "a"), "must be numbers"),
        ("f.npy", np.full((NODES, 1), np.nan), "row 0, column 0 is not a finite"),
    ],
)
def test_wrong_features_are_refused(
    tmp_path: Path, name: str, content: np.ndarray, message: str
) -> None:
    _write_small(tmp_path)
    np.save(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        load("corar", tmp_path, features=tmp_path / name, offline=True)


@pytest.mark.parametrize("name", ["none.npy", "text.csv", "cut.npy", "cut.npz", "cut.pkl"])
def test_feature_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    _write_small(tmp_path)
    for other in ("text.csv", "cut.npy", "cut.npz", "cut.pkl"):
        (tmp_path / other).write_bytes(b"\x80")
    with pytest.raises(InputError, match=name):
        load("corar", tmp_path, features=tmp_path / name, offline=True)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes", "isolated", "train"),
    [
        ("corar", 2680, 5148, [348, 216, 412, 809, 421, 296, 178], 4, 1180),
        ("citeseerr", 3191, 4172, [237, 574, 637, 673, 574, 496], 56, 1691),
    ],
)
def test_real_graphs_have_the_papers_counts(
    real: Callable[..., Any],
    tmp_path: Path,
    name: str,
    nodes: int,
    edges: int,
    classes: list[int],
    isolated: int,
    train: int,
) -> None:
    np.save(tmp_path / "f.npy", _features(nodes))
    data = real(name, features=tmp_path / "f.npy")
    info = data.dataset
    assert (info.nodes, info.edges, info.train, info.val, info.test) == (
        nodes,
        edges,
        train,
        500,
        1000,
    )
    assert (info.self_loops, info.duplicate_edges, info.unlabelled) == (0, 0, 0)
    assert data.y.bincount().tolist() == classes
    degree = data.edge_index[0].bincount(minlength=nodes)
    assert (degree == 0).sum() == isolated
