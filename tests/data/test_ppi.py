from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drgcn.data import describe, download, load, ppi, unite, verify
from drgcn.errors import InputError, MissingDataError

from .tissues import COUNTS, STEMS, Tissue, tissues, write_graphsage, write_raw, write_rebuilt

pytestmark = pytest.mark.usefixtures("invented")

GRAPHS = tissues()
SAGE = ["ppi/ppi-G.json", "ppi/ppi-id_map.json", "ppi/ppi-class_map.json", "ppi/ppi-feats.npy"]

_require_published_graphs = ppi._require_published_graphs


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppi, "_require_published_graphs", lambda *_: None)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return write_raw(tmp_path / "ppi", GRAPHS)


@pytest.fixture
def sage(tmp_path: Path) -> Path:
    return write_graphsage(tmp_path / "ppi", GRAPHS)


def _load(folder: Path, **arguments: Any) -> Any:
    return load("ppi", folder.parent, offline=True, **arguments)


def _change(path: Path, change: Callable[[Any], Any]) -> None:
    """Write a file again as it is after a change: an array, or JSON that is changed in place."""
    if path.suffix == ".npy":
        np.save(path, change(np.load(path)))
    else:
        content = json.loads(path.read_text())
        changed = change(content)
        path.write_text(json.dumps(content if changed is None else changed))


def _reference(data: Any) -> None:
    """Compare with the graphs themselves, one after the other."""
    assert data.graph.bincount().tolist() == [len(graph.y) for graph in GRAPHS]
    for number, graph in enumerate(GRAPHS):
        here = data.graph == number
        assert torch.equal(data.x[here], torch.from_numpy(graph.x).float())
        assert torch.equal(data.y[here], torch.from_numpy(graph.y).float())
        start = int(here.nonzero()[0])
        inside = here[data.edge_index[0]] & here[data.edge_index[1]]
        straight = {(a, b) for a, b in graph.pairs.T.tolist() if a != b}
        found = {(a - start, b - start) for a, b in data.edge_index[:, inside].T.tolist()}
        assert found == straight | {(b, a) for a, b in straight}
        for part in COUNTS:
            assert bool((data[f"{part}_mask"][here] == (graph.part == part)).all())


def test_raw_files_are_one_union(raw: Path) -> None:
    data = _load(raw, normalize="none")
    _reference(data)
    info = data.dataset
    assert (info.name, info.split, info.multi_label) == ("ppi", "published", True)
    assert (info.features, info.classes, info.unlabelled) == (50, 121, 0)
    assert info.train + info.val + info.test == info.nodes == data.num_nodes
    assert data.x.dtype == data.y.dtype == torch.float32
    assert (data.graph[data.edge_index[0]] == data.graph[data.edge_index[1]]).all()
    assert data.graph_names[:2] + data.graph_names[-1:] == ["train-0", "train-1", "test-1"]


@pytest.mark.parametrize("words", [False, True])
def test_both_layouts_give_the_same_data(raw: Path, tmp_path: Path, words: bool) -> None:
    folder = write_graphsage(tmp_path / "other" / "ppi", GRAPHS, words=words)
    first, second = _load(raw), _load(folder)
    assert first.dataset == second.dataset
    for key in ("x", "y", "edge_index", "graph", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(first[key], second[key])


def test_ends_of_edges_may_be_places(sage: Path) -> None:
    reference = _load(sage)

    def rename(content: Any) -> None:
        for node in content["nodes"]:
            node["id"] = f"p{node['id']}"

    _change(sage / "ppi-G.json", rename)
    for name in ("ppi-id_map.json", "ppi-class_map.json"):
        _change(sage / name, lambda content: {f"p{key}": value for key, value in content.items()})
    assert _load(sage).dataset == reference.dataset


def test_pyg_reads_the_same_graphs(raw: Path, tmp_path: Path) -> None:
    from torch_geometric.datasets import PPI

    write_raw(tmp_path / "pyg" / "raw", GRAPHS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [list(PPI(str(tmp_path / "pyg"), split=part)) for part in COUNTS]
    data = _load(raw, normalize="none")
    for number, graph in enumerate(graph for part in theirs for graph in part):
        here = data.graph == number
        assert torch.equal(data.x[here], graph.x)
        assert torch.equal(data.y[here], graph.y)
        edges = data.edge_index[:, here[data.edge_index[0]]] - int(here.nonzero()[0])
        assert set(map(tuple, edges.T.tolist())) == set(map(tuple, graph.edge_index.T.tolist()))
    assert unite(*theirs).dataset.content_hash == data.dataset.content_hash


def test_features_are_scaled_by_the_training_nodes(raw: Path) -> None:
    data = _load(raw)
    assert data.dataset.normalize == describe("ppi").normalize == "standard"
    known = data.x[data.train_mask]
    assert known.mean(0).abs().max() < 1e-5
    assert (known.std(0, correction=0) - 1).abs().max() < 1e-5
    assert data.x[data.test_mask].mean(0).abs().max() > 0.1


def test_small_components_go_to_the_graph_above(sage: Path) -> None:
    data = _load(sage, normalize="none")
    # A pair and a lone node at the end of graph 3, a lone node at the end of graph 21.
    _reference(data)
    joined = data.edge_index.unique()
    alone = [node for node in range(data.num_nodes) if node not in joined]
    assert data.graph[alone].tolist() == [3, 21]


def test_a_small_component_above_all_graphs_goes_to_the_first(tmp_path: Path) -> None:
    graphs = list(GRAPHS)
    first = graphs[0]
    graphs[0] = Tissue(
        "train",
        np.concatenate([first.x[:1], first.x]),
        np.concatenate([first.y[:1], first.y]),
        first.pairs + 1,
    )
    data = _load(write_graphsage(tmp_path / "ppi", graphs))
    assert data.graph.bincount().tolist() == [len(graph.y) for graph in graphs]
    assert data.edge_index.min() == 1


def test_a_saved_union_is_the_same_when_loaded(raw: Path, tmp_path: Path) -> None:
    data = _load(raw)
    for content in (data, data.to_dict()):
        torch.save(content, tmp_path / "saved.pt")
        again = load(tmp_path / "saved.pt")
        assert again.dataset.content_hash == data.dataset.content_hash
        assert again.dataset.multi_label
        assert again.y.dtype == torch.float32
        assert torch.equal(again.graph, data.graph)
        assert again.graph_names == data.graph_names


def test_missing_files_are_named_for_both_layouts(tmp_path: Path) -> None:
    for call in (lambda: load("ppi", tmp_path), lambda: download("ppi", tmp_path)):
        with pytest.raises(MissingDataError) as caught:
            call()
        for file in describe("ppi").files + describe("ppi").other_files:
            assert file.path in str(caught.value)
        assert "snap.stanford.edu" in str(caught.value)
    assert [path for path, _ in verify("ppi", tmp_path)] == SAGE


def test_missing_files_are_those_of_the_layout_that_is_there(raw: Path) -> None:
    (raw / "valid_graph.json").unlink()
    with pytest.raises(
        MissingDataError, match=r"network is not to be used: ppi/valid_graph\.json; fetch .*dgl"
    ):
        _load(raw)
    assert dict(verify("ppi", raw.parent))["ppi/valid_graph.json"] == "missing"


def test_files_of_unknown_digest_are_not_called_whole(sage: Path) -> None:
    assert verify("ppi", sage.parent) == [(path, "unknown") for path in SAGE]
    assert download("ppi", sage.parent) == [sage.parent / path for path in SAGE]


def test_graphsage_files_without_features_are_refused(sage: Path) -> None:
    (sage / "ppi-feats.npy").unlink()
    with pytest.raises(InputError, match=r"without ppi-feats\.npy"):
        _load(sage)
    write_raw(sage, GRAPHS)
    assert _load(sage).num_nodes


def _drop_last(content: Any) -> Any:
    return content[:-1]


def _without(content: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != key}


RAW_MISTAKES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("feats.npy", _drop_last, "do not belong together"),
    ("feats.npy", lambda x: x[:, :49], "50 features and 121 labels"),
    ("feats.npy", lambda x: x * np.nan, "not a finite"),
    ("labels.npy", _drop_last, "do not belong together"),
    ("labels.npy", lambda y: y[:, :120], "50 features and 121 labels"),
    ("labels.npy", lambda y: y * 2, "zeros and ones, but node 0 has 2"),
    ("labels.npy", lambda y: y[0, 0], "do not belong together"),
    ("graph_id.npy", _drop_last, "the number of its graph"),
    ("graph_id.npy", lambda g: g + 0.5, "the number of its graph"),
    ("graph_id.npy", lambda g: np.where(g == g[0], np.inf, g), "the number of its graph"),
    ("graph_id.npy", lambda g: g.astype(np.float64) * 1e300, "the number of its graph"),
    ("graph_id.npy", lambda g: (g + 0.5).astype(np.float16), "the number of its graph"),
    ("graph_id.npy", lambda g: np.roll(g, 1), "edges stay inside a graph"),
    ("graph.json", lambda c: [], "must hold a JSON object"),
    ("graph.json", lambda c: {}, "under 'nodes'"),
    ("graph.json", lambda c: _without(c, "links"), "under 'links' or 'edges'"),
    ("graph.json", lambda c: {**c, "nodes": c["nodes"][:-1]}, "neither the id|do not belong"),
    ("graph.json", lambda c: c["nodes"].append({"id": 999}), "do not belong together"),
    ("graph.json", lambda c: c["nodes"].append({"id": 0}), "ids must be unique"),
    ("graph.json", lambda c: c["nodes"].append({}), "must have an id"),
    ("graph.json", lambda c: c["nodes"].append(3), "must have an id"),
    ("graph.json", lambda c: c["nodes"][0].update(id=-7), "ids must be the rows"),
    ("graph.json", lambda c: c["links"].append({"source": 0}), "a source and a target"),
    ("graph.json", lambda c: c["links"].append({"source": 0, "target": 999}), "names 999"),
    ("graph.json", lambda c: c["links"].append({"source": 0, "target": [0]}), r"names \[0\]"),
]


@pytest.mark.parametrize(("file", "change", "message"), RAW_MISTAKES)
def test_mistakes_in_raw_files_are_one_clear_error(
    raw: Path, file: str, change: Callable[[Any], Any], message: str
) -> None:
    part = "train" if file != "labels.npy" else "val"  # all parts are read alike
    _change(raw / f"{STEMS[part]}_{file}", change)
    with pytest.raises(InputError, match=message) as caught:
        _load(raw)
    assert str(raw) in str(caught.value)


def test_graphs_are_counted(raw: Path) -> None:
    _change(raw / "test_graph_id.npy", np.zeros_like)
    with pytest.raises(InputError, match="PPI has 2 test graphs, but the files hold 1"):
        _load(raw)


SAGE_MISTAKES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("G.json", lambda c: c["nodes"][0].update(val=None), "flags 'val' and 'test'"),
    ("G.json", lambda c: c["nodes"][0].update(val=True), "at most one of them true"),
    ("G.json", lambda c: c["nodes"][0].update(test=False), "joins nodes of different parts"),
    ("G.json", lambda c: c["nodes"].append({"id": 999}), "its row, 0 to"),
    ("id_map.json", lambda c: c.update({"0": 1}), "its row, 0 to"),
    ("id_map.json", lambda c: c.update({"0": True}), "its row, 0 to"),
    ("id_map.json", lambda c: c.update({"more": 1}), "its row, 0 to"),
    ("class_map.json", lambda c: _without(c, "5"), "node '5' has none"),
    ("class_map.json", lambda c: c.update({"more": c["0"]}), "its labels, but"),
    ("class_map.json", lambda c: c["5"].append(0), "all of one length"),
    ("class_map.json", lambda c: c["5"].__setitem__(3, 2), "node 5 has 2 at label 3"),
    ("class_map.json", lambda c: c["5"].__setitem__(3, 10**30), "row of zeros and ones"),
    ("class_map.json", lambda c: {key: [0, 1] for key in c}, "50 features and 121 labels"),
    ("feats.npy", _drop_last, "rows, but"),
]


@pytest.mark.parametrize(("file", "change", "message"), SAGE_MISTAKES)
def test_mistakes_in_graphsage_files_are_one_clear_error(
    sage: Path, file: str, change: Callable[[Any], Any], message: str
) -> None:
    _change(sage / f"ppi-{file}", change)
    with pytest.raises(InputError, match=message) as caught:
        _load(sage)
    assert str(sage) in str(caught.value)


def test_too_few_components_are_refused(sage: Path) -> None:
    def chain(content: Any) -> None:
        train = [node["id"] for node in content["nodes"] if not (node["val"] or node["test"])]
        content["links"] += [{"source": a, "target": b} for a, b in pairwise(train)]

    _change(sage / "ppi-G.json", chain)
    with pytest.raises(InputError, match="20 train graphs, but the train nodes form only 1"):
        _load(sage)


@pytest.mark.parametrize("file", SAGE)
def test_truncated_files_are_input_errors(sage: Path, file: str) -> None:
    path = sage.parent / file
    whole = path.read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged or no"):
            _load(sage)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(InputError, match="is damaged or no"):
        _load(sage)


def test_there_is_one_split(raw: Path) -> None:
    with pytest.raises(InputError, match="choose one of published"):
        _load(raw, split="random-60")


@pytest.mark.data
def test_real_graphs_have_their_counts(real: Callable[..., Any]) -> None:
    data = real("ppi")
    assert data.num_nodes == 56944
    assert [data.dataset.train, data.dataset.val, data.dataset.test] == [44906, 6514, 5524]
    assert len(data.graph.unique()) == 24


@pytest.fixture
def rebuilt(tmp_path: Path) -> Path:
    return write_rebuilt(tmp_path / "ppi-rebuilt", GRAPHS)


def _load_rebuilt(folder: Path, **arguments: Any) -> Any:
    return load("ppi-rebuilt", folder.parent, offline=True, **arguments)


def _rewrite(folder: Path, **changed: Any) -> None:
    """Write the file again with some of its arrays changed, or without those that are None."""
    path = folder / "ppi_rebuilt.npz"
    with np.load(path) as stored:
        arrays = {**stored} | changed
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_rebuilt_graphs_are_the_graphs_with_their_proteins(rebuilt: Path, tmp_path: Path) -> None:
    graphs = [replace(graph, x=graph.x > 3) for graph in GRAPHS]
    data = _load_rebuilt(rebuilt, normalize="none")
    reference = _load(write_raw(tmp_path / "ppi", graphs), normalize="none")
    for key in ("x", "y", "edge_index", "graph", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(data[key], reference[key])
    with np.load(rebuilt / "ppi_rebuilt.npz") as stored:
        entrez, graph = stored["entrez"], stored["graph_id"]
        shuffled = np.random.default_rng(1).permutation(len(graph))
        place = np.argsort(shuffled)
        moved = {
            name: stored[name][shuffled] for name in stored if len(stored[name]) == len(graph)
        }
        edges = place[stored["edges"]]
    assert data.identity.tolist() == entrez.tolist()
    assert data.dataset.class_names[1] == "GO:0000001"
    # The order of rows in the file decides nothing but their order within a graph.
    _rewrite(rebuilt, edges=edges, **moved)
    again = _load_rebuilt(rebuilt, normalize="none")
    for number in range(24):
        here, there = data.graph == number, again.graph == number
        assert sorted(data.identity[here].tolist()) == sorted(again.identity[there].tolist())
        pairs = [
            {tuple(sorted(pair)) for pair in one.identity[one.edge_index[:, inside]].T.tolist()}
            for one, inside in (
                (data, here[data.edge_index[0]]),
                (again, there[again.edge_index[0]]),
            )
        ]
        assert pairs[0] == pairs[1]


def test_no_protein_is_in_two_parts_of_the_disjoint_split(rebuilt: Path) -> None:
    data = _load_rebuilt(rebuilt, split="disjoint", split_seed=3)
    parts = [set(data.identity[data[f"{part}_mask"]].tolist()) for part in COUNTS]
    assert [len(part) for part in parts] == [8, 2, 2]
    assert len(set.union(*parts)) == 12
    masks = torch.stack([data[f"{part}_mask"] for part in COUNTS])
    assert (masks.sum(0) == 1).all()
    assert all(len(data.graph[mask].unique()) > 10 for mask in masks)
    assert (data.dataset.split, data.dataset.split_seed) == ("disjoint", None)
    assert torch.equal(data.train_mask, _load_rebuilt(rebuilt, split="disjoint").train_mask)
    known = data.x[data.train_mask]
    assert known.mean(0).abs().max() < 1e-5


def test_a_saved_rebuilt_union_keeps_its_proteins(rebuilt: Path, tmp_path: Path) -> None:
    data = _load_rebuilt(rebuilt)
    torch.save(data, tmp_path / "saved.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "saved.pt")
    assert torch.equal(again.identity, data.identity)
    assert again.dataset.content_hash == data.dataset.content_hash


REBUILT_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"entrez": None, "label_go": None}, "found no entrez, label_go"),
    ({"entrez": np.zeros(3, np.int64)}, "a whole number or a word for each of the"),
    ({"entrez": np.zeros(3)}, "found float64"),
    ({"graph_id": np.ones(3, np.int8)}, "a graph from 1 to 24"),
    ({"label_go": np.array(["GO:1"])}, "1 names"),
    ({"features": np.zeros((4, 50))}, "zeros and ones for each of the 4 nodes"),
    ({"edges": np.array([[0, 999]])}, "names node 999"),
    ({"edges": np.array([[0, 60]])}, "edges stay inside a graph"),
    ({"labels_approx": np.array([{}], dtype=object)}, "pickled Python objects"),
]


@pytest.mark.parametrize(("changed", "message"), REBUILT_MISTAKES)
def test_mistakes_in_the_rebuilt_file_are_one_clear_error(
    rebuilt: Path, changed: dict[str, Any], message: str
) -> None:
    _rewrite(rebuilt, **changed)
    with pytest.raises(InputError, match=message) as caught:
        _load_rebuilt(rebuilt)
    assert str(rebuilt) in str(caught.value)


def test_a_damaged_or_missing_rebuilt_file_is_told(rebuilt: Path) -> None:
    path = rebuilt / "ppi_rebuilt.npz"
    assert verify("ppi-rebuilt", rebuilt.parent) == [("ppi-rebuilt/ppi_rebuilt.npz", "different")]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match="is damaged or no numpy file"):
        _load_rebuilt(rebuilt)
    path.unlink()
    with pytest.raises(MissingDataError, match="nobody publishes them"):
        _load_rebuilt(rebuilt)


@pytest.mark.data
def test_real_rebuilt_graphs_have_their_counts(real: Callable[..., Any]) -> None:
    data, by_protein = real("ppi-rebuilt"), real("ppi-rebuilt", split="disjoint")
    assert data.num_nodes == 56944
    assert [data.dataset.train, data.dataset.val, data.dataset.test] == [44906, 6514, 5524]
    assert (data.dataset.edges, data.dataset.self_loops) == (818716 - 25084, 25084)
    parts = [by_protein.identity[by_protein[f"{part}_mask"]].unique() for part in COUNTS]
    assert [len(part) for part in parts] == [2581, 860, 860]
    assert len(torch.cat(parts).unique()) == len(data.identity.unique()) == 4301


def test_other_graphs_in_its_form_are_not_ppi(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppi, "_require_published_graphs", _require_published_graphs)
    with pytest.raises(InputError, match="44,906 train nodes"):
        load("ppi", raw.parent, offline=True)


@pytest.mark.data
def test_the_published_graphs_are_known_by_their_degrees(real: Callable[..., Any]) -> None:
    """The rebuilt set has the published graphs; without the edges of a node they are others."""
    data = real("ppi-rebuilt")
    ends, pieces, start = data.graph[data.edge_index[0]], {}, 0
    for part, count in ppi._GRAPHS.items():
        for number in range(start, start + count):
            first = int((data.graph < number).sum())
            nodes = int((data.graph == number).sum())
            pairs = data.edge_index[:, ends == number].numpy() - first
            piece = ppi.Piece(np.zeros((nodes, 50)), np.zeros((nodes, 121)), pairs)
            pieces.setdefault(part, []).append(piece)
        start += count
    _require_published_graphs(Path("here"), pieces)
    last = pieces["test"][-1]
    pieces["test"][-1] = replace(
        last, pairs=last.pairs[:, (last.pairs != last.pairs[0, 0]).all(axis=0)]
    )
    with pytest.raises(InputError, match="edges of PPI's test graphs"):
        _require_published_graphs(Path("here"), pieces)
