"""Files that once ended in a traceback, a hang, a lack of memory, or a wrong graph."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from drgcn.data import load
from drgcn.data.reddit import _read_pairs
from drgcn.studies.records import RunRecord

from ..data.graphs import small, write_parquet
from .files import refined_set
from .generators import RECORD

Writer = Callable[[Path], Path]

_GRAPH = small()
_NPZ: dict[str, Any] = {"x": _GRAPH.x, "y": _GRAPH.y, "edge_index": _GRAPH.pairs}
_PT: dict[str, Any] = {
    "x": torch.ones(12, 3),
    "y": torch.arange(12) % 3,
    "edge_index": torch.from_numpy(_GRAPH.pairs),
}


def _npz(**changes: Any) -> Writer:
    def write(folder: Path) -> Path:
        arrays = {name: value for name, value in (_NPZ | changes).items() if value is not None}
        np.savez(folder / "graph.npz", **arrays)
        return folder / "graph.npz"

    return write


def _members(**members: bytes) -> Writer:
    """An archive with further members, as they are."""

    def write(folder: Path) -> Path:
        np.savez(folder / "graph.npz", **_NPZ)
        with (
            warnings.catch_warnings(action="ignore"),  # of a name that is there
            zipfile.ZipFile(folder / "graph.npz", "a", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, content in members.items():
                archive.writestr(name.replace("__", "."), content)
        return folder / "graph.npz"

    return write


def _saved(**changes: Any) -> Writer:
    def write(folder: Path) -> Path:
        torch.save(_PT | changes, folder / "graph.pt")
        return folder / "graph.pt"

    return write


def _unused(folder: Path) -> Path:
    """Beside what is read, a damaged member that would be 512 MiB if it were unpacked."""
    path = _saved()(folder)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("graph/data/99", b"nothing")
        archive.getinfo("graph/data/99").file_size = 2**29
        archive.getinfo("graph/data/99").CRC = 0
    return path


def _nested(folder: Path) -> Path:
    with warnings.catch_warnings(action="ignore"):  # of a prototype, once in a process
        return _saved(x=torch.nested.nested_tensor([torch.ones(3)] * 12))(folder)


def _saved_pickle(content: bytes) -> Writer:
    def write(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "graph.pt", "w") as archive:
            archive.writestr("graph/data.pkl", content)
            archive.writestr("graph/version", "3\n")
        return folder / "graph.pt"

    return write


def _saved_info(**facts: Any) -> Writer:
    info = replace(load("wine").dataset, **facts)
    return _saved(dataset=info)


def _columns(**columns: Any) -> Writer:
    """Parquet tables with other columns: ``nodes_id``, ``edges_source`` and the like."""

    def write(folder: Path) -> Path:
        write_parquet(folder, _GRAPH)
        for place, values in columns.items():
            table, name = place.split("_")
            path = folder / f"{table}.parquet"
            found = pq.read_table(path).drop_columns([name]).append_column(name, [values])
            pq.write_table(found, path)
        return folder

    return write


def _csv(nodes: str, edges: str = "source,target\na,b\n") -> Writer:
    def write(folder: Path) -> Path:
        (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
        (folder / "edges.csv").write_text(edges, encoding="utf-8")
        return folder

    return write


def _header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """An ``.npy`` file that promises an array and holds none."""
    stream = io.BytesIO()
    facts = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def _object_member(content: bytes) -> bytes:
    return _header((), "|O") + content


# A list of two lists of two lists ..., 60 deep: each level refers twice to the one below.
_DOUBLED = b"\x80\x02]q\x00" + b"".join(
    b"]q%c(h%ch%ce" % (level + 1, level, level) for level in range(60)
)
_DOUBLED_KEY = (
    b"\x80\x02}(" + b")q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(60))
)


def _colliding(count: int = 5_000) -> bytes:
    return pickle.dumps({n * (2**61 - 1): 0 for n in range(1, count)}, 2)


def _pipe(name: str) -> Writer:
    def write(folder: Path) -> Path:
        os.mkfifo(folder / name)
        return folder / name

    return write


def _rounded(first: int, kind: str) -> Writer:
    """Ids of nodes as whole numbers, and those of edges as floats that do not hold all of them."""
    ids = first + np.arange(12)
    ends = {"source": ids[_GRAPH.pairs[0]], "target": ids[_GRAPH.pairs[1]]}
    floats = {f"edges_{name}": pa.array(values.astype(kind)) for name, values in ends.items()}
    return _columns(nodes_id=pa.array(ids), **floats)


#: What writes a file that ``load`` must refuse, by what is wrong with it.
REFUSED: Final[dict[str, Writer]] = {
    "parquet: float64 ids above 2**53": _rounded(2**53 - 1, "f8"),
    "parquet: float32 ids above 2**24": _rounded(2**24 - 1, "f4"),
    "npz: header of 96 GiB": _members(y2__npy=_header((3 * 2**32,))),
    "npz: header of 96 GiB for x": _members(node_features__npy=_header((2**32, 3))),
    "npz: sparse shape of inf": _npz(
        x=None,
        x_data=np.zeros(0),
        x_indices=np.zeros(0, int),
        x_indptr=np.zeros(1, int),
        x_shape=np.array([np.inf, 2]),
    ),
    "npz: sparse rows that end before they begin": _npz(
        x=None,
        x_data=np.zeros(1),
        x_indices=np.zeros(1, int),
        x_indptr=np.array([0, *[2_000_000] * 11, 0]),
        x_shape=np.array([12, 3]),
    ),
    "npz: edge weights without columns": _npz(edge_weight=np.zeros((24, 0))),
    "npz: edge weights of two columns": _npz(edge_weight=np.ones((24, 2)) * [1, 2]),
    "npz: bytes that are no text as labels": _npz(y=np.array([b"\xff", b"a"] * 6)),
    "npz: masks of unequal numbers of splits": _npz(
        train_mask=np.arange(36).reshape(12, 3) < 12,
        val_mask=np.arange(24).reshape(12, 2) >= 16,
        test_mask=np.arange(36).reshape(12, 3) >= 27,
    ),
    "npz: labels of 2**64 - 1": _npz(y=np.array([2**64 - 1, 0, 1] * 4, dtype=np.uint64)),
    "npz: -1 among words": _npz(y=np.array(["-1", "1", "2"] * 4)),
    "npz: words with NA": _npz(y=np.array(["NA", "1", "2"] * 4)),
    "npz: features twice": _members(x__npy=_header((12, 3)) + bytes(288)),
    "npz: labels with half a character": _npz(y=np.array(["\ud800", "a", "b"] * 4)),
    "npz: numbers of graphs that edges join": _npz(graph=np.arange(12) // 6),
    "npz: a pipe": _pipe("graph.npz"),
    "pt: a pipe": _pipe("graph.pt"),
    "pt: a nested tensor": _nested,
    "npz: complex features": _npz(x=np.ones((12, 3), dtype=np.complex64)),
    "csv: -1 among numbers": _csv("id,f,label\na,1,-1\nb,2,1\nc,3,2\n"),
    "csv: NULL as a label": _csv("id,f,label\na,1,NULL\nb,2,1\nc,3,2\n"),
    "csv: numbers with an underscore": _csv("id,f,label\na,1_000,1\nb,2,2\nc,2,2\n"),
    "csv: Arabic digits": _csv("id,f,label\na,\u0663,1\nb,2,2\nc,2,2\n"),
    "pt: an expanded tensor of 45 GiB": _saved(x=torch.ones(1, 1).expand(2**33, 3)),
    "pt: a meta tensor": _saved(x=torch.ones(12, 3, device="meta")),
    "pt: meta labels": _saved(y=torch.ones(12, device="meta")),
    "pt: a sparse tensor of 10**13 rows": _saved(
        x=torch.sparse_coo_tensor(torch.zeros(2, 0), torch.zeros(0), (10**13, 2))
    ),
    "pt: a key of doubled tuples": _saved_pickle(_DOUBLED_KEY + b"K\x00u."),
    "pt: colliding keys": _saved_pickle(_colliding()),
    "pt: a memo of 2**32 places": _saved_pickle(b"\x80\x02}r\xff\xff\xff\xff."),
}


def _refined_set(labels: Any) -> Writer:
    """The files of ``corar`` with other labels."""

    def write(folder: Path) -> Path:
        refined_set(folder, corax_labels=labels)
        return folder

    return write


def _record(**changes: Any) -> Writer:
    def write(folder: Path) -> Path:
        facts = json.loads(RECORD.sealed()) | changes
        (folder / "record.json").write_text(json.dumps(facts))
        return folder / "record.json"

    return write


def _adjacency(**changes: Any) -> Writer:
    """A square matrix of six nodes as scipy writes it in COO form."""
    ends = {"row": np.arange(3), "col": np.arange(3) + 1}

    def write(folder: Path) -> Path:
        parts = {**ends, "data": np.ones(3), "shape": np.array([6, 6]), **changes}
        np.savez(folder / "reddit_adj.npz", **parts)
        return folder / "reddit_adj.npz"

    return write


_ADJACENCIES: dict[str, Any] = {
    "rows of times": {"row": np.arange(3).astype("M8[s]")},
    "rows of records": {"row": np.zeros(3, dtype=[("a", "i4")])},
    "rows of truth values": {"row": np.array([True, False, True])},
    "entries that are no numbers": {"data": np.full(3, np.nan)},
}

#: What writes other files that must be refused, and their reader.
REFUSED_ELSEWHERE: Final[dict[str, tuple[Writer, Callable[[Path], Any]]]] = {
    "refined set: labels without columns": (
        _refined_set(np.zeros((5, 0))),
        lambda folder: load("corar", folder, offline=True),
    ),
    "record: no digest but null": (_record(seconds=7.0, sha256=None), RunRecord.read),
    "record: an empty digest": (_record(seconds=7.0, sha256=""), RunRecord.read),
    **{
        f"reddit: {name}": (_adjacency(**change), lambda path: _read_pairs(path, 6))
        for name, change in _ADJACENCIES.items()
    },
}

#: What writes a file that is read: odd, and harmless.
READ: Final[dict[str, Writer]] = {
    "parquet: float64 ids of 2**53 and below": _columns(nodes_id=pa.array(np.arange(12.0))),
    "parquet: float16 ids": _columns(
        edges_source=pa.array((np.arange(24) % 12).astype(np.float16))
    ),
    "pt: a large member that no tensor is in": _unused,
    "pt: 10**18 classes": _saved_info(classes=10**18),
    "pt: class names of numbers": _saved_info(class_names=(1, 2, 3)),
    "pt: class names of words": _saved_info(class_names="abc"),
    "npz: a pickle of doubled lists, left out": _members(
        more__npy=_object_member(_DOUBLED + b".")
    ),
    "npz: an adjacency in the byte order of another machine": _npz(
        adj_matrix=np.eye(12, k=1, dtype=">f8"), node_attr=_GRAPH.x, node_label=_GRAPH.y
    ),
    "npz: an adjacency of half floats": _npz(
        adj_matrix=np.eye(12, k=1, dtype="f2"), node_attr=_GRAPH.x, node_label=_GRAPH.y
    ),
    "npz: a member that is no array": _members(note__txt=b"hello"),
}

#: Pickles that are refused by themselves.
PICKLES: Final[dict[str, bytes]] = {
    "doubled lists": _DOUBLED + b".",
    "a key of doubled tuples": _DOUBLED_KEY + b"K\x00u.",
    "colliding keys": _colliding(),
    "keys of -1 and -2": pickle.dumps({(-1, -2): 0, (-2, -1): 0}, 2),
    "a set": pickle.dumps({1, 2}, 4),
    "a memo of 2**32 places": b"\x80\x02]r\xff\xff\xff\xff(h\x01e.",
}
