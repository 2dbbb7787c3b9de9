from __future__ import annotations

import collections
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError, MissingDataError

pytestmark = pytest.mark.usefixtures("invented")

# nodes, edges, features, classes, loops in the files, unlabelled
COUNTS = {
    "cora": (2708, 5278, 1433, 7, 0, 0),
    "citeseer": (3327, 4552, 3703, 6, 124, 15),
    "pubmed": (19717, 44324, 500, 3, 3, 0),
}
PARTS = {
    ("cora", "public"): (140, 500, 1000),
    ("citeseer", "public"): (120, 500, 1000),
    ("pubmed", "public"): (60, 500, 1000),
    ("cora", "full"): (1208, 500, 1000),
    ("citeseer", "full"): (1812, 500, 1000),
    ("pubmed", "full"): (18217, 500, 1000),
}


def _write_small(root: Path) -> None:
    """A set in Planetoid's form: 504 known nodes, test nodes 504, 507, 505, and none at 506."""
    folder = root / "planetoid"
    folder.mkdir()
    rng = np.random.default_rng(0)
    allx = sparse.csr_matrix(rng.integers(0, 3, (504, 5)).astype(np.float32))
    tx = sparse.csr_matrix(np.array([[1, 0, 0, 0, 1], [2] * 5, [3] * 5], dtype=np.float32))
    ally = np.eye(7, dtype=np.int32)[np.arange(504) % 7]
    ty = np.eye(7, dtype=np.int32)[[4, 5, 6]]
    graph = collections.defaultdict(list, {0: [1, 1, 0], 1: [0], 507: [2], 506: [3]})
    parts = {"allx": allx, "ally": ally, "tx": tx, "ty": ty, "x": allx[:4], "y": ally[:4]}
    for end, value in (parts | {"graph": graph}).items():
        (folder / f"ind.cora.{end}").write_bytes(pickle.dumps(value, 2))
    (folder / "ind.cora.test.index").write_text("504\n507\n505\n")


def test_test_rows_are_put_at_their_ids_and_gaps_stay_empty(tmp_path: Path) -> None:
    _write_small(tmp_path)
    data = load("cora", tmp_path, offline=True, normalize="none")
    assert data.x[504:].tolist() == [[1, 0, 0, 0, 1], [3] * 5, [0] * 5, [2] * 5]
    assert data.y[504:].tolist() == [4, 6, -1, 5]
    assert data.test_mask.nonzero().flatten().tolist() == [504, 505, 507]
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1, 2, 3]
    info = data.dataset
    assert (info.edges, info.self_loops, info.duplicate_edges, info.unlabelled) == (3, 1, 1, 1)


def test_full_split_validates_on_the_last_known_nodes(tmp_path: Path) -> None:
    _write_small(tmp_path)
    data = load("cora", tmp_path, offline=True, split="full")
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert data.val_mask.nonzero().flatten().tolist() == list(range(4, 504))


@pytest.mark.parametrize(
    ("end", "content"),
    [
        ("test.index", b"one"),
        ("test.index", b"3 4 5"),
        ("allx", pickle.dumps(sparse.csr_matrix(np.eye(3)), 2)),
        ("graph", pickle.dumps([1, 2], 2)),
        ("graph", pickle.dumps({0: [99999]}, 2)),
        ("ally", b"cut"),
        ("ally", pickle.dumps([1, 2], 2)),
        ("ty", pickle.dumps(np.eye(5, dtype=np.int32)[:3], 2)),
        ("allx", pickle.dumps(np.eye(504), 2)),
        ("tx", pickle.dumps({}, 2)),
        ("test.index", b"504 507 1000000000000000"),
        ("test.index", b"504 507 99999999999999999999"),
    ],
)
def test_damaged_files_are_one_clear_error(tmp_path: Path, end: str, content: bytes) -> None:
    _write_small(tmp_path)
    (tmp_path / "planetoid" / f"ind.cora.{end}").write_bytes(content)
    with pytest.raises(InputError, match=r"ind\.cora"):
        load("cora", tmp_path, offline=True)


@pytest.mark.parametrize("split", ["public", "full"])
def test_too_few_nodes_for_the_split_are_one_clear_error(tmp_path: Path, split: str) -> None:
    _write_small(tmp_path)
    for end, part in {"x": sparse.csr_matrix(np.ones((5, 5))), "y": np.eye(7)[:5]}.items():
        (tmp_path / "planetoid" / f"ind.cora.{end}").write_bytes(pickle.dumps(part, 2))
    with pytest.raises(InputError, match="do not belong together"):
        load("cora", tmp_path, split=split, offline=True)


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), PARTS)
def test_real_sets_have_the_published_counts_and_labels_on_all_parts(
    real: Callable[..., Any], name: str, split: str
) -> None:
    data = real(name, split=split, sparse=True)
    info = data.dataset
    found = (info.nodes, info.edges, info.features, info.classes, info.self_loops, info.unlabelled)
    assert found == COUNTS[name]
    assert (info.train, info.val, info.test) == PARTS[name, split]
    assert info.split_seed is None
    for mask in (data.train_mask, data.val_mask, data.test_mask):
        assert (data.y[mask] >= 0).all()
    assert not (data.train_mask & data.val_mask).any()


@pytest.mark.data
def test_real_cora_splits_are_the_stated_ranges(real: Callable[..., Any]) -> None:
    public, full = (real("cora", split=s) for s in ("public", "full"))
    assert public.train_mask.nonzero().flatten().tolist() == list(range(140))
    assert public.val_mask.nonzero().flatten().tolist() == list(range(140, 640))
    assert full.train_mask.nonzero().flatten().tolist() == list(range(1208))
    assert full.val_mask.nonzero().flatten().tolist() == list(range(1208, 1708))
    for data in (public, full):
        assert data.test_mask.nonzero().flatten().tolist() == list(range(1708, 2708))
    assert public.y[public.train_mask].bincount().tolist() == [20] * 7


@pytest.mark.data
def test_real_citeseer_nodes_without_features_have_neighbours(real: Callable[..., Any]) -> None:
    data = real("citeseer")
    bare = (data.y < 0).nonzero().flatten()
    degree = data.edge_index[0].bincount(minlength=data.num_nodes)
    assert len(bare) == 15
    assert not data.x[bare].any()
    assert degree[bare].min() >= 1
    assert (degree == 0).sum() == 48


@pytest.mark.data
def test_real_cora_equals_a_slow_transcription(real_root: Path, real: Callable[..., Any]) -> None:
    data = real("cora")
    stem = real_root / "planetoid" / "ind.cora"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        allx, ally, tx, ty, graph = (
            pickle.loads(Path(f"{stem}.{end}").read_bytes(), encoding="latin1")
            for end in ("allx", "ally", "tx", "ty", "graph")
        )
    order = [int(line) for line in Path(f"{stem}.test.index").read_text().split()]
    x, y = np.zeros((2708, 1433), np.float32), np.full(2708, -1)
    x[:1708], y[:1708] = allx.toarray(), ally.argmax(1)
    for row, node in enumerate(order):
        x[node], y[node] = tx[row].toarray(), ty[row].argmax()
    for row in x:
        if row.sum() != 0:
            row /= row.sum()
    edges = {(a, b) for a, others in graph.items() for b in others if a != b}
    edges |= {(b, a) for a, b in edges}

    assert [tuple(edge) for edge in data.edge_index.T.tolist()] == sorted(edges)
    assert data.y.tolist() == y.tolist()
    torch.testing.assert_close(data.x, torch.from_numpy(x), rtol=1e-6, atol=0)


@pytest.mark.data
def test_real_cora_never_changes(real: Callable[..., Any]) -> None:
    digests = [
        real("cora", split=split, sparse=sparse).dataset.content_hash
        for split in ("public", "full")
        for sparse in (False, True)
    ]
    assert digests == ["53454fd5d2dd5f78"] * 2 + ["338674b9e2c3d397"] * 2


# CoraR and CiteseerR


REFINED_NODES = 2680


def _write_refined(root: Path, labels: np.ndarray | None = None) -> Path:
    folder = root / "refined"
    folder.mkdir()
    ring = sparse.csr_matrix(np.eye(REFINED_NODES, k=1) + np.eye(REFINED_NODES, k=-1))
    one_hot = np.eye(7)[np.arange(REFINED_NODES) % 7]
    (folder / "corax_adj.pkl").write_bytes(pickle.dumps(ring, 3))
    content = pickle.dumps(one_hot if labels is None else labels, 3)
    (folder / "corax_labels.pkl").write_bytes(content)
    return folder


def _refined_features(nodes: int = REFINED_NODES) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(nodes, 4)).astype(np.float32)


@pytest.mark.parametrize("word", ["features", "feat"])
def test_published_features_are_taken_first(tmp_path: Path, word: str) -> None:
    folder = _write_refined(tmp_path)
    (folder / f"corax_{word}.pkl").write_bytes(pickle.dumps(_refined_features(), 3))
    np.save(folder / "corar_features.npy", _refined_features() + 1)
    with pytest.warns(DrgcnWarning, match=f"no digest of corax_{word}"):
        data = load("CoraR", tmp_path, offline=True)
    assert data.dataset.feature_source == "published"
    assert data.dataset.normalize == "none"
    assert (data.x.numpy() == _refined_features()).all()


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_rebuilt_features_are_called_rebuilt(tmp_path: Path, save: Any) -> None:
    folder = _write_refined(tmp_path)
    save(folder / "corar_features", _refined_features())
    assert load("corar", tmp_path, offline=True).dataset.feature_source == "rebuilt"


def test_features_of_your_own_are_named(tmp_path: Path) -> None:
    _write_refined(tmp_path)
    sparse.save_npz(tmp_path / "mine.npz", sparse.csr_matrix(_refined_features()))
    data = load("corar", tmp_path, features=tmp_path / "mine.npz", offline=True)
    assert data.dataset.feature_source == "rebuilt: mine.npz"
    assert (data.x.numpy() == _refined_features()).all()


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    _write_refined(tmp_path, labels=np.arange(REFINED_NODES) % 7)
    np.save(tmp_path / "f.npy", _refined_features())
    data = load("corar", tmp_path, features=tmp_path / "f.npy", offline=True)
    assert data.y.tolist() == [node % 7 for node in range(REFINED_NODES)]
    assert data.dataset.class_names[0] == "Theory"


def test_split_is_train_then_val_then_test(tmp_path: Path) -> None:
    _write_refined(tmp_path)
    np.save(tmp_path / "f.npy", _refined_features())
    data = load("corar", tmp_path, features=str(tmp_path / "f.npy"), offline=True)
    assert data.train_mask.nonzero().flatten().tolist() == list(range(1180))
    assert data.val_mask.nonzero().flatten().tolist() == list(range(1180, 1680))
    assert data.test_mask.nonzero().flatten().tolist() == list(range(1680, 2680))


def test_missing_features_are_explained(tmp_path: Path) -> None:
    _write_refined(tmp_path)
    with pytest.raises(MissingDataError, match=r"no features: put the authors' corax_features"):
        load("corar", tmp_path, offline=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.npy", _refined_features(3), "2680 nodes, but its feature file has 3 rows"),
        ("f.npy", np.full((REFINED_NODES, 1), "a"), "must be numbers"),
        ("f.npy", np.full((REFINED_NODES, 1), np.nan), "row 0, column 0 is not a finite"),
    ],
)
def test_wrong_features_are_refused(
    tmp_path: Path, name: str, content: np.ndarray, message: str
) -> None:
    _write_refined(tmp_path)
    np.save(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        load("corar", tmp_path, features=tmp_path / name, offline=True)


@pytest.mark.parametrize("name", ["none.npy", "text.csv", "cut.npy", "cut.npz", "cut.pkl"])
def test_feature_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    _write_refined(tmp_path)
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
    np.save(tmp_path / "f.npy", _refined_features(nodes))
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
