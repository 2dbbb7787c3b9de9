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
from drgcn.errors import InputError

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
        ("test.index", b"504 507"),
        ("test.index", b"one"),
        ("test.index", b"3 4 5"),
        ("allx", pickle.dumps(sparse.csr_matrix(np.eye(3)), 2)),
        ("graph", pickle.dumps([1, 2], 2)),
        ("graph", pickle.dumps({0: [99999]}, 2)),
        ("ally", b"cut"),
    ],
)
def test_damaged_files_are_one_clear_error(tmp_path: Path, end: str, content: bytes) -> None:
    _write_small(tmp_path)
    (tmp_path / "planetoid" / f"ind.cora.{end}").write_bytes(content)
    with pytest.raises(InputError, match=r"ind\.cora"):
        load("cora", tmp_path, offline=True)


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), PARTS)
def test_real_sets_have_the_published_counts(
    real: Callable[..., Any], name: str, split: str
) -> None:
    info = real(name, split=split, sparse=True).dataset
    found = (info.nodes, info.edges, info.features, info.classes, info.self_loops, info.unlabelled)
    assert found == COUNTS[name]
    assert (info.train, info.val, info.test) == PARTS[name, split]
    assert info.split_seed is None


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), PARTS)
def test_no_real_node_without_label_is_in_a_split(
    real: Callable[..., Any], name: str, split: str
) -> None:
    data = real(name, split=split, sparse=True)
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
