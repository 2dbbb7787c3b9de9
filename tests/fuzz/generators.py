"""Well-formed files with wrong types and values, for every reader of graphs, records, results.

A target writes a sound file, and then changes one or two things in it: an array, a column, a value
somewhere in its JSON, or a few of its bytes.
"""

from __future__ import annotations

import copy
import csv
import json
import math
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy import sparse

from drgcn.audit.refining.refine import refine_until_stable, write_refined
from drgcn.data import load
from drgcn.nn import GCN
from drgcn.records import BaselineRecord, BaselineResult
from drgcn.studies.experiment import Experiment
from drgcn.studies.records import RunRecord, SeedResult
from drgcn.training import FitResult, fit, load_fit
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

from ..data.graphs import small, write_csv, write_parquet
from ..data.test_reddit import SIZES, write_fastgcn, write_saint
from ..data.tissues import tissues, write_graphsage, write_raw, write_rebuilt
from .outcome import Outcome, check_graph, outcome_of

_GRAPH = small()


@contextmanager
def small_world() -> Iterator[None]:
    """Let small files pass for published sets, and let files take little memory."""
    with (
        mock.patch("drgcn.data.downloader._require_published"),
        mock.patch("drgcn.data.ppi._require_published_graphs"),
        mock.patch("drgcn.data.reddit.PUBLISHED", SIZES),
        mock.patch("drgcn.data.readers.MEMORY_BUDGET", 1 << 30),
    ):
        yield


@dataclass(frozen=True)
class Target:
    """A reader, with what writes changed files for it.

    Attributes:
        write: Writes changed files to a folder by the draws given.
        read: Reads them.
        check: Checks what was read.
    """

    write: Callable[[Path, random.Random], None]
    read: Callable[[Path], Any]
    check: Callable[[Any], None] = check_graph

    def outcome(self, folder: Path, draw: random.Random) -> Outcome:
        """Write changed files to an empty folder, and return what became of them."""
        self.write(folder, draw)
        return outcome_of(lambda: self.read(folder), self.check)


PLAIN: Final[list[Any]] = [
    *(None, True, False, 0, 1, -1, 7, 1.5, -0.0, math.nan, math.inf, 2**31, 2**53 + 1, 2**63),
    *(-(2**63), 10**30, 10**400, 1e300, "", "a", "-1", "nan", "NA", "00", "1_000", "\u0663", " 1"),
    *("\x00", "\ud800", "train", "x" * 5000, [], {}, [[]], [1, "a"], [None], {"a": 1}, [0, 1]),
    *([[0, 1], [1]], {"id": 0}, [10**30], [math.nan]),
]

_ARRAYS: Final[list[Any]] = [
    np.zeros(0),
    np.array(3),
    np.zeros((2, 2, 2)),
    np.array(["a", "b"]),
    np.array([b"\xff\xfe", b"a"]),
    np.array([1 + 2j, 2]),
    np.array([np.nan, 1]),
    np.array([np.inf, 1]),
    np.array([2**64 - 1, 0], dtype=np.uint64),
    np.array([-(2**63), 0]),
    np.array([True, False]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.zeros(3, dtype=[("a", "i4")]),
    np.array([None, "x"], dtype=object),
    np.array([[1], [1, 2]], dtype=object),
    np.zeros((0, 5)),
    np.zeros((5, 0)),
    np.zeros((3, 0), dtype="U0"),
    np.array([10**12, 1]),
]


def odd_array(old: Any, draw: random.Random) -> Any:
    """Return another array: of other values, another type, another shape; or none at all."""
    old = np.asarray(old)
    flat = old.astype(object).reshape(-1)

    def with_odd_entry() -> Any:
        changed = flat.copy()
        if len(changed):
            changed[draw.randrange(len(changed))] = draw.choice(PLAIN[:28])
        return np.array(changed.tolist(), dtype=draw.choice([None, object])).reshape(old.shape)

    def cast() -> Any:
        kinds = ["f2", "f4", "f8", "i1", "i8", "u1", "u8", "?", "U4", "S4", "c8", ">i4", ">f8"]
        return old.astype(draw.choice(kinds))

    ways = [
        lambda: None,
        lambda: draw.choice(_ARRAYS),
        with_odd_entry,
        cast,
        lambda: old[:-1] if old.ndim else old,
        lambda: old[..., :-1] if old.ndim else old,
        lambda: old[None],
        lambda: old.T,
        lambda: -old,
        lambda: old * 10**9,
        lambda: np.concatenate([old, old]) if old.ndim else old,
        lambda: np.zeros_like(old),
        lambda: old[::-1] if old.ndim else old,
    ]
    for _ in range(5):
        try:
            with np.errstate(all="ignore"):
                return draw.choice(ways)()
        except Exception:
            continue  # this array cannot be changed that way
    return None


def odd_json(value: Any, draw: random.Random) -> Any:
    """Return a copy with one place changed, removed or doubled."""
    value = copy.deepcopy(value)
    place, inner = None, value
    while isinstance(inner, dict | list) and inner and (place is None or draw.random() < 0.75):
        parent, place = (
            inner,
            draw.choice(list(inner) if isinstance(inner, dict) else [*range(len(inner))]),
        )
        inner = parent[place]
    if place is None:
        return draw.choice(PLAIN)
    if draw.random() < 0.2:
        del parent[place]
    elif isinstance(parent, dict) and draw.random() < 0.2:
        parent[draw.choice(["", "00", "x", "-1", "1e3", "\u0663", str(place) + " "])] = inner
    else:
        parent[place] = draw.choice([*PLAIN, _nested(draw)])
    return value


def _nested(draw: random.Random) -> Any:
    value: Any = draw.choice(PLAIN)
    for _ in range(draw.choice([1, 2, 200])):
        value = [value]
    return value


def _flip(folder: Path, draw: random.Random) -> None:
    """Change bytes of a file in a folder, or cut it."""
    flip(draw.choice(sorted(path for path in folder.rglob("*") if path.is_file())), draw)


def flip(path: Path, draw: random.Random) -> None:
    """Change bytes of a file, or cut it."""
    content = bytearray(path.read_bytes())
    if content and draw.random() < 0.8:
        for _ in range(draw.choice([1, 1, 3, 20])):
            content[draw.randrange(len(content))] = draw.randrange(256)
    else:
        del content[draw.randrange(len(content) + 1) :]
    path.write_bytes(content)


def _npz(arrays: dict[str, Any], name: str = "graph.npz") -> Callable[[Path, random.Random], None]:
    def write(folder: Path, draw: random.Random) -> None:
        changed = dict(arrays)
        for key in draw.sample(sorted(arrays), draw.choice([1, 1, 2])):
            value = odd_array(arrays[key], draw)
            changed[key] = value
            if value is None:
                del changed[key]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / name, **changed)

    return write


def _odd_tensor(old: Any, draw: random.Random) -> Any:
    ways: list[Callable[[], Any]] = [
        lambda: draw.choice(PLAIN),
        lambda: torch.as_tensor(np.ascontiguousarray(odd_array(old.numpy(), draw))),
        lambda: old.to(draw.choice([torch.bfloat16, torch.half, torch.complex64, torch.bool])),
        lambda: old.to(draw.choice([torch.uint8, torch.int16, torch.float64, torch.float8_e5m2])),
        lambda: old.to("meta"),
        lambda: old.to_sparse(),
        lambda: old.to_sparse_csr(),
        lambda: torch.ones(1, 1).expand(10**6, 10**6),
        lambda: torch.sparse_coo_tensor(torch.zeros(2, 0), torch.zeros(0), (10**12, 3)),
        lambda: old.float().requires_grad_(),
        lambda: torch.quantize_per_tensor(old.float(), 0.1, 0, torch.qint8),
        lambda: [old, old],
        lambda: np.asarray(old),
    ]
    for _ in range(5):
        try:
            return draw.choice(ways)()
        except Exception:
            continue  # this tensor cannot be changed that way
    return None


def _write_saved(folder: Path, draw: random.Random) -> None:
    data = load("wine").to_dict()
    for key in draw.sample(sorted(data), draw.choice([1, 1, 2])):
        if key == "dataset":
            field = draw.choice(["classes", "class_names", "multi_label", "name", "options"])
            data[key] = replace(data[key], **{field: draw.choice(PLAIN)})
        else:
            data[key] = _odd_tensor(data[key], draw)
    if draw.random() < 0.3:
        data[draw.choice(["graph", "graph_names", "edge_weight", "edge_attr", "split"])] = (
            _odd_tensor(torch.arange(178), draw)
        )
    torch.save(data, folder / "graph.pt")


def _write_csv(folder: Path, draw: random.Random) -> None:
    write_csv(folder, _GRAPH)
    _change_rows(folder / draw.choice(["nodes.csv", "edges.csv"]), draw)


def _change_rows(path: Path, draw: random.Random) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    for _ in range(draw.choice([1, 2, 3])):
        row = draw.choice(rows)
        row[draw.randrange(len(row))] = str(draw.choice(PLAIN)).replace("\ud800", "?")
    if draw.random() < 0.2:
        draw.choice(rows).append("more")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _odd_column(old: Any, draw: random.Random) -> Any:
    kinds = [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.uint64(), pa.bool_()]
    kinds += [pa.string(), pa.binary(), pa.large_string(), pa.timestamp("s"), pa.null()]
    values = old.to_pylist()
    ways: list[Callable[[], Any]] = [
        lambda: old.cast(draw.choice(kinds)).combine_chunks(),
        lambda: pa.array(values, draw.choice(kinds)),
        lambda: pa.array([draw.choice(PLAIN[:28]) for _ in values]),
        lambda: pa.array([[value] for value in values]),
        lambda: pa.array([{"a": value} for value in values]),
        lambda: old.combine_chunks().dictionary_encode(),
        lambda: pa.array([b"\xff"] * len(values)),
        lambda: pa.array([draw.choice([None, math.nan, 0.5, 2.0**60, 3.0]) for _ in values]),
        lambda: pa.array([str(draw.choice(PLAIN[14:28])) for _ in values]),
    ]
    for _ in range(8):
        try:
            return draw.choice(ways)()
        except Exception:
            continue  # this column cannot be changed that way
    return pa.nulls(len(values))


def _write_parquet(folder: Path, draw: random.Random) -> None:
    write_parquet(folder, _GRAPH)
    _change_column(folder / draw.choice(["nodes.parquet", "edges.parquet"]), draw)


def _change_column(path: Path, draw: random.Random) -> None:
    table = pq.read_table(path)
    place = draw.randrange(table.num_columns)
    name = table.column_names[place]
    column = _odd_column(table.column(place), draw)
    name = draw.choice([name, name, name, name.upper(), "", "y", "weight"])
    pq.write_table(table.set_column(place, name, [column]), path)


def _planetoid_parts() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    allx = sparse.csr_matrix(rng.integers(0, 3, (504, 5)).astype(np.float32))
    ally = np.eye(7, dtype=np.int32)[np.arange(504) % 7]
    return {
        "allx": allx,
        "ally": ally,
        "tx": allx[:3],
        "ty": ally[:3],
        "x": allx[:4],
        "y": ally[:4],
        "graph": {0: [1, 2], 1: [0], 505: [3]},
    }


def _odd_pickled(old: Any, draw: random.Random) -> Any:
    if sparse.issparse(old):
        forms = [sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array]
        ways = [old.toarray(), old.T.tocsr(), old[:-1], draw.choice(forms)(old)]
        return draw.choice([*ways, odd_array(old.toarray(), draw)])
    if isinstance(old, np.ndarray):
        return draw.choice(
            [odd_array(old, draw), sparse.csr_matrix(old), old.tolist(), _nested(draw)]
        )
    return draw.choice([odd_json(old, draw), draw.choice(PLAIN), np.arange(3), {(1, 2): [3]}, {3}])


def _write_planetoid(folder: Path, draw: random.Random) -> None:
    (folder / "planetoid").mkdir()
    parts = _planetoid_parts()
    chosen = draw.choice([*parts, "test.index"])
    for end, value in parts.items():
        stored = _odd_pickled(value, draw) if end == chosen else value
        content = pickle.dumps(stored, draw.choice([2, 3, 4, 5]))
        (folder / "planetoid" / f"ind.cora.{end}").write_bytes(content)
    index = "504\n505\n506\n"
    if chosen == "test.index":
        odd = [
            "504\n505\n1000000000000",
            "504 505 -1",
            "a",
            "",
            "504\n504\n505",
            "9" * 40,
            "\u0663",
        ]
        index = draw.choice(odd)
    (folder / "planetoid" / "ind.cora.test.index").write_text(index, encoding="utf-8")


def _odd_files(make: Callable[[Path], Any]) -> Callable[[Path, random.Random], None]:
    """Write sound files, and change the content of one: JSON, ``.npy`` or ``.npz``."""

    def write(folder: Path, draw: random.Random) -> None:
        make(folder)
        path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        if path.suffix == ".json":
            path.write_text(json.dumps(odd_json(json.loads(path.read_text()), draw)))
        elif path.suffix == ".npy":
            value = odd_array(np.load(path), draw)
            np.save(path, np.zeros(0) if value is None else value)
        elif path.suffix == ".npz":
            with np.load(path) as archive:
                arrays = dict(archive)
            _npz(arrays, path.name)(path.parent, draw)
        else:
            _flip(folder, draw)

    return write


def _twitch(folder: Path) -> None:
    (folder / "twitch").mkdir()
    rows = "".join(f"{i},1,{i % 2 == 0},9,False,{i}\n" for i in range(9))
    header = "id,days,mature,views,partner,new_id\n"
    (folder / "twitch" / "DE_target.csv").write_text(header + rows)
    words = {str(i): [i, 3169] for i in range(9)}
    (folder / "twitch" / "DE_features.json").write_text(json.dumps(words))
    (folder / "twitch" / "DE_edges.csv").write_text("from,to\n0,1\n1,2\n")


RECORD = RunRecord(
    experiment=Experiment("cora", "full", reweight="dr"),
    data={
        "name": "cora",
        "split": "full",
        "content_hash": "abc",
        "nodes": 2708,
        "metric": "accuracy",
    },
    environment={"device": "a machine", "torch": "2", "threads": 1},
    started="2026-01-01T00:00:00+00:00",
    seconds=1.25,
    curve_epochs=[1, 10],
    seeds={seed: SeedResult(0.8, 0.7, 3, 10, [0.5, 1.0], [0.3], [1.5]) for seed in (0, 1)},
)


def _write_record(folder: Path, draw: random.Random) -> None:
    facts = json.loads(RECORD.dumps())
    for _ in range(draw.choice([1, 1, 2])):
        facts = odd_json(facts, draw)
    (folder / "record.json").write_text(json.dumps(facts))


def _write_sealed(folder: Path, draw: random.Random) -> None:
    """A record with its digest, of which something was changed: only its layout may be."""
    facts = odd_json(json.loads(RECORD.sealed()), draw)
    if "sha256" not in facts:
        facts["sha256"] = json.loads(RECORD.sealed())["sha256"]
    (folder / "record.json").write_text(json.dumps(facts))


def _check_same(record: RunRecord) -> None:
    assert record.dumps() == RECORD.dumps()


_BASELINE = BaselineRecord(
    method="ica",
    settings={"rounds": 10, "widths": [1, 2]},
    data={"name": "cora", "split": "full", "content_hash": "abc", "nodes": 2708},
    environment={"device": "a machine", "torch": "2"},
    started="2026-01-01T00:00:00+00:00",
    seconds=1.25,
    seeds={seed: BaselineResult(0.8, 0.7, {"c": 1.0}) for seed in (0, 1)},
)


def _write_baseline(folder: Path, draw: random.Random) -> None:
    facts = json.loads(_BASELINE.dumps())
    for _ in range(draw.choice([1, 1, 2])):
        facts = odd_json(facts, draw)
    (folder / "record.json").write_text(json.dumps(facts))


def _check_baseline(record: BaselineRecord) -> None:
    assert BaselineRecord.loads(record.sealed()).dumps() == record.dumps()
    assert all(0 <= result.test_accuracy <= 1 for result in record.seeds.values())
    assert record.file_name


@cache
def _refined() -> dict[str, bytes]:
    """Files of a small set that was refined, by name."""
    with tempfile.TemporaryDirectory() as place:
        write_csv(Path(place), _GRAPH)
        refined = refine_until_stable(load(place))
        write_refined(refined, Path(place) / "refined")
        return {path.name: path.read_bytes() for path in (Path(place) / "refined").iterdir()}


def _write_refined(folder: Path, draw: random.Random) -> None:
    for name, content in _refined().items():
        (folder / name).write_bytes(content)
    if draw.random() < 0.5:
        _change_column(folder / "nodes.parquet", draw)
    else:
        _change_rows(folder / "edges.csv", draw)


@cache
def _saved_fit() -> dict[str, bytes]:
    """Files of a saved result, by name."""
    with tempfile.TemporaryDirectory() as place:
        folder = fit(_gcn, load("wine"), [0, 1], epochs=2).save(Path(place) / "fit")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def _gcn() -> GCN:
    return GCN(13, 4, 3)


def _write_fit(folder: Path, draw: random.Random) -> None:
    for name, content in _saved_fit().items():
        (folder / name).write_bytes(content)
    path = folder / "result.json"
    if draw.random() < 0.5:
        facts = odd_json(json.loads(path.read_text()), draw)
        if isinstance(facts, dict):
            facts.setdefault("sha256", "none")
        path.write_text(json.dumps(facts))
    else:
        _flip(folder, draw)


def _check_fit(result: FitResult) -> None:
    with tempfile.TemporaryDirectory() as place:
        for path in result.save(Path(place) / "fit").iterdir():
            assert path.read_bytes() == _saved_fit()[path.name]


def _check_record(record: RunRecord) -> None:
    assert RunRecord.loads(record.dumps()).dumps() == record.dumps()
    assert all(0 <= result.test_accuracy <= 1 for result in record.seeds.values())
    assert record.file_name


def _write_checkpoint(folder: Path, draw: random.Random) -> None:
    save_checkpoint(folder / "c", {"a": torch.arange(3.0), "b": torch.tensor([True])}, 1.5, "run")
    _flip(folder, draw)


def _check_checkpoint(found: Any) -> None:
    assert found is None or found[0]["a"].tolist() == [0, 1, 2]


def _flipped(
    target: Callable[[Path, random.Random], None],
) -> Callable[[Path, random.Random], None]:
    """One time in five, change bytes as well."""

    def write(folder: Path, draw: random.Random) -> None:
        target(folder, draw)
        if draw.random() < 0.2:
            _flip(folder, draw)

    return write


_X = sparse.csr_array(_GRAPH.x)
_ADJACENCY = sparse.csr_array(np.eye(12, k=1, dtype=np.float32) + np.eye(12, k=-1))
_SPLIT = np.array(["train", "val", "test"] * 4)
_MASKS = np.stack([word == _SPLIT for word in ("train", "val", "test")])
_TISSUES = tissues()


def _own(name: str = "") -> Callable[[Path], Any]:
    return lambda folder: load(folder / name if name else folder)


def _published(name: str, **options: Any) -> Callable[[Path], Any]:
    return lambda folder: load(name, folder, offline=True, **options)


TARGETS: Final[dict[str, Target]] = {
    name: replace(target, write=_flipped(target.write))
    for name, target in {
        "csv": Target(_write_csv, _own()),
        "parquet": Target(_write_parquet, _own()),
        "npz": Target(
            _npz({"x": _GRAPH.x, "edge_index": _GRAPH.pairs, "y": _GRAPH.y, **_GRAPH.masks}),
            _own("graph.npz"),
        ),
        "npz, sparse": Target(
            _npz(
                {
                    "x_data": _X.data,
                    "x_indices": _X.indices,
                    "x_indptr": _X.indptr,
                    "x_shape": np.array(_X.shape),
                    "edge_index": _GRAPH.pairs,
                    "edge_weight": np.ones(24),
                    "y": _GRAPH.y,
                    "split": _SPLIT,
                }
            ),
            _own("graph.npz"),
        ),
        "npz, gnn-benchmark": Target(
            _npz(
                {
                    "adj_data": _ADJACENCY.data,
                    "adj_indices": _ADJACENCY.indices,
                    "adj_indptr": _ADJACENCY.indptr,
                    "adj_shape": np.array(_ADJACENCY.shape),
                    "attr_matrix": _GRAPH.x,
                    "labels": _GRAPH.y,
                }
            ),
            _own("graph.npz"),
        ),
        "npz, matrices": Target(
            _npz(
                {
                    "adj_matrix": _ADJACENCY.toarray(),
                    "node_attr": _GRAPH.x,
                    "node_label": _GRAPH.y,
                }
            ),
            _own("graph.npz"),
        ),
        "npz, heterophilous": Target(
            _npz(
                {
                    "node_features": _GRAPH.x,
                    "node_labels": _GRAPH.y,
                    "edges": _GRAPH.pairs.T,
                    **{
                        f"{w}_masks": _MASKS[i][None]
                        for i, w in enumerate(["train", "val", "test"])
                    },
                }
            ),
            _own("graph.npz"),
        ),
        "pt": Target(_write_saved, _own("graph.pt")),
        "planetoid": Target(_write_planetoid, _published("cora")),
        "twitch": Target(_odd_files(_twitch), _published("twitch", graph="DE")),
        "ppi, GraphSAGE": Target(
            _odd_files(lambda folder: write_graphsage(folder / "ppi", _TISSUES)), _published("ppi")
        ),
        "ppi, PyG": Target(
            _odd_files(lambda folder: write_raw(folder / "ppi", _TISSUES)), _published("ppi")
        ),
        "ppi-rebuilt": Target(
            _odd_files(lambda folder: write_rebuilt(folder / "ppi-rebuilt", _TISSUES)),
            _published("ppi-rebuilt"),
        ),
        "reddit, GraphSAINT": Target(_odd_files(write_saint), _published("reddit")),
        "reddit, FastGCN": Target(_odd_files(write_fastgcn), _published("reddit")),
        "record": Target(
            _write_record, lambda folder: RunRecord.read(folder / "record.json"), _check_record
        ),
        "record, sealed": Target(
            _write_sealed, lambda folder: RunRecord.read(folder / "record.json"), _check_same
        ),
        "baseline record": Target(
            _write_baseline,
            lambda folder: BaselineRecord.read(folder / "record.json"),
            _check_baseline,
        ),
        "refined": Target(_write_refined, _own()),
        "saved fit": Target(_write_fit, lambda folder: load_fit(folder, _gcn), _check_fit),
        "checkpoint": Target(
            _write_checkpoint,
            lambda folder: load_checkpoint(folder / "c", "run"),
            _check_checkpoint,
        ),
    }.items()
}
