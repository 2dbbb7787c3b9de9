from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from drgcn.data import describe, download, load, verify
from drgcn.data.reddit import CLASS_SIZES, PUBLISHED, Sizes, with_counts
from drgcn.errors import DrgcnWarning, InputError, MissingDataError

pytestmark = pytest.mark.usefixtures("invented")

SAINT = ["reddit/adj_full.npz", "reddit/feats.npy", "reddit/class_map.json", "reddit/role.json"]
FASTGCN = ["reddit/reddit.npz", "reddit/reddit_adj.npz"]
PARTS = {"train": "tr", "val": "va", "test": "te"}


@dataclass(frozen=True)
class Posts:
    """A small graph of Reddit's form: no loops, each edge once."""

    x: np.ndarray
    y: np.ndarray
    pairs: np.ndarray
    index: dict[str, np.ndarray]


def _posts() -> Posts:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6))
    x[:, 0] = np.floor(np.exp(rng.normal(3, 1.5, 40)))
    x[:, 1] = np.floor(np.exp(rng.normal(3, 1.5, 40)))
    x[3, :2] = 0, 0
    keys = rng.choice(40 * 39 // 2, 60, replace=False)
    low, high = np.triu_indices(40, 1)
    order = rng.permutation(40)
    index = dict(zip(PARTS, np.split(order, [24, 31]), strict=True))
    return Posts(x, np.arange(40) % 4, np.stack([low[keys], high[keys]]), index)


POSTS = _posts()
SIZES = Sizes(nodes=40, edges=60, features=6, classes=4, val=7, test=9)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drgcn.data.reddit.PUBLISHED", SIZES)


def write_saint(root: Path, posts: Posts = POSTS) -> Path:
    """As GraphSAINT publishes them: each edge in both directions."""
    folder = root / "reddit"
    folder.mkdir(parents=True, exist_ok=True)
    both = np.concatenate([posts.pairs, posts.pairs[::-1]], axis=1)
    ones = np.ones(both.shape[1], dtype=bool)
    nodes = len(posts.y)
    sparse.save_npz(folder / "adj_full.npz", sparse.csr_matrix((ones, both), (nodes, nodes)))
    np.save(folder / "feats.npy", posts.x)
    # Not in the order of the rows: keys decide, not places.
    classes = {str(node): int(posts.y[node]) for node in reversed(range(nodes))}
    (folder / "class_map.json").write_text(json.dumps(classes))
    role = {short: posts.index[part].tolist() for part, short in PARTS.items()}
    (folder / "role.json").write_text(json.dumps(role))
    return root


def write_fastgcn(
    root: Path,
    posts: Posts = POSTS,
    form: Callable[[Any], Any] = sparse.coo_matrix,
    pairs: np.ndarray | None = None,
) -> Path:
    """As FastGCN's scripts write them: each edge in one direction."""
    folder = root / "reddit"
    folder.mkdir(parents=True, exist_ok=True)
    listed = posts.pairs if pairs is None else pairs
    nodes = len(posts.y)
    adjacency = sparse.coo_matrix((np.ones(listed.shape[1]), listed), (nodes, nodes))
    sparse.save_npz(folder / "reddit_adj.npz", form(adjacency))
    arrays: dict[str, Any] = {"feats": posts.x}
    for part, index in posts.index.items():
        arrays |= {f"y_{part}": posts.y[index], f"{part}_index": index}
    np.savez(folder / "reddit.npz", **arrays)
    return root


def _load(root: Path, **arguments: Any) -> Any:
    return load("reddit", root, offline=True, **arguments)


def _edges(data: Any) -> set[tuple[int, int]]:
    return set(map(tuple, data.edge_index.T.tolist()))


def test_saint_files_are_the_graph(tmp_path: Path) -> None:
    data = _load(write_saint(tmp_path), counts="raw", normalize="none")
    assert torch.equal(data.x, torch.from_numpy(POSTS.x).float())
    assert data.y.tolist() == POSTS.y.tolist()
    straight = set(map(tuple, POSTS.pairs.T.tolist()))
    assert _edges(data) == straight | {(b, a) for a, b in straight}
    for part, index in POSTS.index.items():
        assert sorted(data[f"{part}_mask"].nonzero().flatten().tolist()) == sorted(index.tolist())
    info = data.dataset
    assert (info.name, info.split, info.nodes, info.edges) == ("reddit", "full", 40, 60)
    assert (info.classes, info.unlabelled) == (4, 0)


def test_pyg_reads_the_same_graph(tmp_path: Path) -> None:
    from torch_geometric.datasets import Reddit2

    write_saint(tmp_path / "ours")
    (tmp_path / "pyg").mkdir()
    (tmp_path / "ours" / "reddit").rename(tmp_path / "pyg" / "raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Reddit2(str(tmp_path / "pyg"))[0]
    ours = _load(write_saint(tmp_path), counts="raw", normalize="none")
    for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[key], theirs[key])
    assert _edges(ours) == _edges(theirs)
    assert theirs.num_edges == ours.num_edges


@pytest.mark.parametrize("form", [sparse.coo_matrix, sparse.csr_matrix])
def test_both_layouts_give_the_same_data(tmp_path: Path, form: Callable[[Any], Any]) -> None:
    first = _load(write_saint(tmp_path / "saint"))
    second = _load(write_fastgcn(tmp_path / "fastgcn", form=form))
    assert first.dataset == second.dataset


def test_an_edge_stored_in_both_directions_is_one_edge(tmp_path: Path) -> None:
    some = np.concatenate([POSTS.pairs, POSTS.pairs[::-1, :20], [[5], [5]]], axis=1)
    data = _load(write_fastgcn(tmp_path, pairs=some))
    assert data.num_edges == len(_edges(data)) == 120
    adjacency = torch.zeros(40, 40)
    adjacency.index_put_(tuple(data.edge_index), torch.ones(120), accumulate=True)
    # FastGCN's own A + A^T has a 2 wherever an edge is stored in both directions.
    dense = np.zeros((40, 40))
    np.add.at(dense, tuple(POSTS.pairs), 1)
    assert np.array_equal(adjacency.numpy(), dense + dense.T)
    assert data.dataset.self_loops == 1


def test_stored_zeros_are_no_edges(tmp_path: Path) -> None:
    write_fastgcn(tmp_path)
    path = tmp_path / "reddit" / "reddit_adj.npz"
    arrays = dict(np.load(path))
    grown = {
        "row": np.append(arrays["row"], 0),
        "col": np.append(arrays["col"], 1),
        "data": np.append(arrays["data"], 0),
    }
    known = set(map(tuple, POSTS.pairs.T.tolist()))
    assert (0, 1) not in known
    np.savez(path, **(arrays | grown))
    assert (0, 1) not in _edges(_load(tmp_path))


def test_nodes_that_no_part_names_have_no_label(tmp_path: Path) -> None:
    index = POSTS.index | {"train": POSTS.index["train"][:-5]}
    posts = Posts(POSTS.x, POSTS.y, POSTS.pairs, index)
    data = _load(write_fastgcn(tmp_path, posts))
    left = POSTS.index["train"][-5:]
    assert (data.dataset.train, data.dataset.unlabelled) == (19, 5)
    assert (data.y[left] == -1).all()
    assert not (data.train_mask | data.val_mask | data.test_mask)[left].any()


# Counts


def test_counts_become_logarithms_as_in_the_scripts(tmp_path: Path) -> None:
    data = _load(write_saint(tmp_path), normalize="none")
    x = POSTS.x.copy()
    x[:, 0] = np.log(x[:, 0] + 1.0)
    x[:, 1] = np.log(x[:, 1] - min(np.min(x[:, 1]), -1))
    assert np.array_equal(data.x.numpy(), x.astype(np.float32))
    assert data.dataset.feature_source == "published; columns 0 and 1 as logarithms"
    assert torch.equal(_load(tmp_path, normalize="none", counts="log").x, data.x)


def test_logarithms_are_not_taken_twice(tmp_path: Path) -> None:
    x = POSTS.x.copy()
    x[:, :2] = np.log1p(x[:, :2])
    posts = Posts(x, POSTS.y, POSTS.pairs, POSTS.index)
    data = _load(write_fastgcn(tmp_path, posts), normalize="none")
    assert np.array_equal(data.x.numpy(), x.astype(np.float32))
    assert data.dataset.feature_source == "published; columns 0 and 1 as stored, no counts"


def test_counts_can_be_left(tmp_path: Path) -> None:
    data = _load(write_saint(tmp_path), normalize="none", counts="raw")
    assert torch.equal(data.x, torch.from_numpy(POSTS.x).float())
    assert data.dataset.feature_source == "published; columns 0 and 1 as stored"
    assert data.dataset.options == (("counts", "raw"),)


def test_low_scores_have_finite_logarithms(tmp_path: Path) -> None:
    lowest = -7.0
    x = POSTS.x.copy()
    x[5, 1] = lowest
    with np.errstate(divide="ignore"):
        assert np.isneginf(np.log(x[:, 1] - min(np.min(x[:, 1]), -1)).min())
    data = _load(
        write_saint(tmp_path, Posts(x, POSTS.y, POSTS.pairs, POSTS.index)), normalize="none"
    )
    assert data.x[5, 1] == data.x[:, 1].min() == 0
    assert data.x[:, 1].exp().numpy() == pytest.approx(x[:, 1] - lowest + 1, rel=1e-5)


def test_the_lowest_scores_there_are_have_finite_logarithms() -> None:
    x = np.ones((4, 2), dtype=np.float32)
    x[:, 1] = [np.finfo(np.float32).min, 0, 1, 100]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = with_counts(x, "log", "a file")
    assert np.isfinite(found).all()
    assert found[0, 1] == 0


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda x: x[:, 1] / 3, {}, "one holds counts .* other does not"),
        (lambda x: x[:, 1], {"counts": "maybe"}, "counts must be one of auto, log, raw"),
    ],
)
def test_unclear_counts_are_refused(
    tmp_path: Path, change: Callable[[Any], Any], options: dict[str, Any], message: str
) -> None:
    x = POSTS.x.copy()
    x[:, 1] = change(x)
    write_saint(tmp_path, Posts(x, POSTS.y, POSTS.pairs, POSTS.index))
    with pytest.raises(InputError, match=message):
        _load(tmp_path, **options)


def test_negative_numbers_of_comments_are_refused(tmp_path: Path) -> None:
    x = POSTS.x.copy()
    x[7, 0] = -2
    write_saint(tmp_path, Posts(x, POSTS.y, POSTS.pairs, POSTS.index))
    with pytest.raises(InputError, match="node 7 has -2"):
        _load(tmp_path)


# Scaling


def test_rows_are_divided_by_their_sums_by_default(tmp_path: Path) -> None:
    write_saint(tmp_path)
    plain = _load(tmp_path, normalize="none").x.double()
    data = _load(tmp_path)
    assert torch.allclose(data.x.double(), plain / plain.sum(1, keepdim=True), rtol=1e-5)
    assert data.dataset.normalize == describe("reddit").normalize == "row"
    with pytest.warns(DrgcnWarning, match="ill-conditioned"):
        assert torch.equal(_load(tmp_path, normalize="row").x, data.x)


def test_training_nodes_can_set_the_scale(tmp_path: Path) -> None:
    data = _load(write_saint(tmp_path), counts="raw", normalize="standard")
    known = POSTS.x[POSTS.index["train"]]
    expected = (POSTS.x - known.mean(0)) / known.std(0)
    assert data.x.numpy() == pytest.approx(expected, rel=1e-4, abs=1e-5)


# Splits


def test_graphsage_leaves_out_training_nodes_without_training_neighbours(tmp_path: Path) -> None:
    write_saint(tmp_path)
    full, filtered = _load(tmp_path), _load(tmp_path, split="graphsage")
    train = set(POSTS.index["train"].tolist())
    kept = set()
    for a, b in POSTS.pairs.T.tolist():
        if a in train and b in train:
            kept |= {a, b}
    assert 0 < len(kept) < len(train)
    assert set(filtered.train_mask.nonzero().flatten().tolist()) == kept
    assert torch.equal(full.val_mask, filtered.val_mask)
    assert torch.equal(full.test_mask, filtered.test_mask)
    assert filtered.dataset.split == "graphsage"
    assert filtered.dataset.unlabelled == 0


def test_a_loop_is_no_neighbour(tmp_path: Path) -> None:
    write_fastgcn(tmp_path / "a")
    train = POSTS.index["train"]
    loops = np.concatenate([POSTS.pairs, np.stack([train, train])], axis=1)
    write_fastgcn(tmp_path / "b", pairs=loops)
    first, second = (_load(tmp_path / name, split="graphsage") for name in "ab")
    assert torch.equal(first.train_mask, second.train_mask)


# Files


def test_missing_files_are_named_for_both_layouts(tmp_path: Path) -> None:
    for call in (lambda: load("reddit", tmp_path), lambda: download("reddit", tmp_path)):
        with pytest.raises(MissingDataError) as caught:
            call()
        assert all(path in str(caught.value) for path in SAINT + FASTGCN)
        assert "matenure/FastGCN" in str(caught.value)
    assert [path for path, _ in verify("reddit", tmp_path)] == SAINT


def test_files_of_unknown_digest_are_not_called_whole(tmp_path: Path) -> None:
    write_fastgcn(tmp_path)
    assert verify("reddit", tmp_path) == [(path, "unknown") for path in FASTGCN]


@pytest.mark.parametrize("file", SAINT + FASTGCN)
def test_damaged_files_are_input_errors(tmp_path: Path, file: str) -> None:
    (write_saint if file in SAINT else write_fastgcn)(tmp_path)
    whole = (tmp_path / file).read_bytes()
    for length in (0, 1, len(whole) // 2):
        (tmp_path / file).write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged or no"):
            _load(tmp_path)


def test_pickled_objects_are_never_opened(tmp_path: Path) -> None:
    write_fastgcn(tmp_path)
    path = tmp_path / "reddit" / "reddit.npz"
    arrays = dict(np.load(path))
    np.savez(path, **arrays, more=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="pickled Python objects, which are never opened"):
        _load(tmp_path)


SAINT_MISTAKES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("feats.npy", lambda x: x[:-1], "the files do not belong together"),
    ("feats.npy", lambda x: x[:, :5], "Reddit has 6 features, but the files hold 5"),
    ("class_map.json", lambda c: c | {"0": -1}, "its class as a whole number"),
    ("class_map.json", lambda c: c | {"0": True}, "its class as a whole number"),
    ("class_map.json", lambda c: c | {"0": 10**30}, "its class as a whole number"),
    ("class_map.json", lambda c: c | {"0": 4}, "the classes 0 to 3, but the files name 4"),
    ("role.json", lambda r: {"tr": r["tr"]}, "'va' must list nodes"),
    ("role.json", lambda r: r | {"va": [40] * 7}, "'va' must list nodes .* 0 to 39"),
    ("role.json", lambda r: r | {"va": [[1], [2, 3]]}, "'va' must list nodes"),
    ("role.json", lambda r: r | {"va": [-1] * 7}, "'va' must list nodes"),
    ("role.json", lambda r: r | {"va": r["te"][:7]}, "is listed twice"),
    ("role.json", lambda r: r | {"va": r["va"][:-1]}, "7 val nodes, but the files hold 6"),
]


@pytest.mark.parametrize(("file", "change", "message"), SAINT_MISTAKES)
def test_mistakes_in_saint_files_are_one_clear_error(
    tmp_path: Path, file: str, change: Callable[[Any], Any], message: str
) -> None:
    path = write_saint(tmp_path) / "reddit" / file
    if path.suffix == ".npy":
        np.save(path, change(np.load(path)))
    else:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=message) as caught:
        _load(tmp_path)
    assert str(tmp_path) in str(caught.value)


FASTGCN_MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("reddit.npz", {"feats": None}, "must hold an array 'feats'"),
    ("reddit.npz", {"y_val": lambda y: y[:-1]}, "y_val must hold a class number"),
    ("reddit.npz", {"y_val": lambda y: y - 4}, "y_val must hold a class number"),
    ("reddit.npz", {"y_val": lambda y: y + 0.5}, "y_val must hold a class number"),
    (
        "reddit.npz",
        {"y_val": lambda y: np.full_like(y, 2**64 - 1, dtype=np.uint64)},
        "y_val must hold a class number",
    ),
    ("reddit_adj.npz", {"data": lambda d: d.astype(str)}, "of whole numbers and numbers"),
    ("reddit.npz", {"val_index": lambda i: i + 40}, "'val_index' must list nodes"),
    ("reddit_adj.npz", {"row": lambda r: r[:-1]}, "lists of one length"),
    ("reddit_adj.npz", {"row": lambda r: r + 40}, "names node"),
    ("reddit_adj.npz", {"shape": np.array([40, 41])}, "must be 40 x 40"),
    ("reddit_adj.npz", {"shape": np.array(40)}, "must be 40 x 40"),
    # No entry is left, and those that were are words.
    (
        "reddit_adj.npz",
        {"row": lambda r: r.astype("U4"), "data": np.zeros_like},
        "of whole numbers and numbers",
    ),
]


@pytest.mark.parametrize(("file", "changes", "message"), FASTGCN_MISTAKES)
def test_mistakes_in_fastgcn_files_are_one_clear_error(
    tmp_path: Path, file: str, changes: dict[str, Any], message: str
) -> None:
    path = write_fastgcn(tmp_path) / "reddit" / file
    arrays = dict(np.load(path))
    for key, change in changes.items():
        old = arrays.pop(key)
        if change is not None:
            arrays[key] = change(old) if callable(change) else change
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message) as caught:
        _load(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("edges", [59, 61])
def test_another_graph_of_that_name_is_refused(tmp_path: Path, edges: int) -> None:
    low, high = np.triu_indices(40, 1)
    pairs = np.stack([low[:edges], high[:edges]])
    if edges == 61:
        # As many entries as twice 60 edges and two more.
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    write_fastgcn(tmp_path, pairs=pairs)
    with pytest.raises(InputError, match="another graph of that name"):
        _load(tmp_path)


@pytest.mark.data
def test_published_labels_and_parts_are_those_expected(
    real_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = real_root / "reddit" / "reddit_index_label.npz"
    if not path.is_file():
        pytest.skip("FastGCN's reddit.npz without its features is not here")
    stored = dict(np.load(path, allow_pickle=False))
    folder = tmp_path / "reddit"
    folder.mkdir()
    np.savez(folder / "reddit.npz", feats=np.zeros((PUBLISHED.nodes, 2)), **stored)
    ends = np.arange(PUBLISHED.nodes - 1)
    chain = sparse.coo_matrix((np.ones(len(ends)), (ends, ends + 1)), (PUBLISHED.nodes,) * 2)
    sparse.save_npz(folder / "reddit_adj.npz", chain)
    sizes = replace(PUBLISHED, edges=len(ends), features=2)
    monkeypatch.setattr("drgcn.data.reddit.PUBLISHED", sizes)
    data = _load(tmp_path)
    assert data.dataset.train == 152_410
    assert data.dataset.unlabelled == PUBLISHED.nodes - sum(CLASS_SIZES) == 1522
    assert data.y[data.y >= 0].bincount().tolist() == list(CLASS_SIZES)
    stored["y_test"][:2] = stored["y_test"][:2][::-1]
    assert len(set(stored["y_test"][:2].tolist())) == 2
    np.savez(folder / "reddit.npz", feats=np.zeros((PUBLISHED.nodes, 2)), **stored)
    with pytest.raises(InputError, match="labels and parts of"):
        _load(tmp_path)


@pytest.mark.data
def test_real_graph_has_its_counts(
    real: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drgcn.data.reddit.PUBLISHED", PUBLISHED)
    info = real("reddit").dataset
    assert (info.nodes, info.edges, info.features) == (232_965, 11_606_919, 602)
