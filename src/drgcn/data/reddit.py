"""Reddit: posts joined where one user commented on both, their communities as classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.assemble import RawGraph
from drgcn.data.checks import Parts, checked_pairs
from drgcn.data.downloader import Request
from drgcn.data.features import numeric_matrix, read_matrix
from drgcn.data.readers import Arrays, csr_from_parts, read_arrays, read_json
from drgcn.data.splits import Labels, Masks, from_indices
from drgcn.errors import InputError


@dataclass(frozen=True)
class Sizes:
    """Counts by which the published graph is recognised.

    Attributes:
        nodes: Posts.
        edges: Undirected edges.
        features: Columns; the first two are the number of comments and the score.
        classes: Communities.
        val: Validation nodes.
        test: Test nodes; all other nodes are for training.
        labels: Digest of the parts and their labels in FastGCN's files; empty for any.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    val: int
    test: int
    labels: str = ""


# The sparse graph of FastGCN, GraphSAINT and the paper (PyG: Reddit2). The graph that PyG and DGL
# call Reddit has 57,307,946 undirected edges and another split.
PUBLISHED: Final = Sizes(
    nodes=232_965,
    edges=11_606_919,
    features=602,
    classes=41,
    val=23_699,
    test=55_334,
    labels="ef1e28d28446597dbc715ed20da941ba04bf06eae4edf32f6ee655efd7f956e8",
)

# Labelled nodes of each class in FastGCN's reddit.npz, all parts together. The file labels
# 231,443 nodes: 152,410 of its nodes train, and the other 1,522 are in no part.
CLASS_SIZES: Final = (
    *(13065, 3538, 3279, 15163, 2304, 3588, 3930, 2117, 11151, 2232, 4898, 2960, 1696, 2689),
    *(4849, 28166, 993, 2630, 13963, 10242, 1588, 4044, 7944, 12043, 328, 1645, 4212, 5869),
    *(4668, 5052, 2797, 4548, 1554, 4937, 3422, 4184, 4161, 4188, 12742, 2977, 5087),
)

# Parts of the split, as GraphSAINT's role.json names them.
_PARTS: Final = {"train": "tr", "val": "va", "test": "te"}
# What may be done to the two columns of counts.
_CHOICES: Final = ("auto", "log", "raw")
# The logarithm of a count of anything on Reddit stays below this.
_LARGEST_LOGARITHM: Final = 50.0


def read(request: Request) -> RawGraph:
    """Read the graph of 11,606,919 edges, from GraphSAINT's files or else from FastGCN's.

    The split ``full`` has all training nodes that the files name, ``graphsage`` those with a
    neighbour among them. The option ``counts`` is explained at :func:`with_counts`.
    """
    request.require_files()
    whole = all((request.root / file.path).is_file() for file in request.entry.files)
    parts = (_read_saint if whole else _read_fastgcn)(request.root / "reddit")
    _require_published_sizes(parts)
    if not whole and PUBLISHED.labels not in ("", label_digest(parts)):
        raise InputError(
            f"{parts.source}: expected the labels and parts of reddit.npz as they were published; "
            "found others. Fetch the file again, or load your own graph by its path."
        )
    x, words = with_counts(parts.x, request.options.get("counts", "auto"), parts.source)
    return RawGraph(
        x=x,
        y=parts.y,
        pairs=parts.pairs,
        masks=split_masks(parts.splits["full"], request.split, parts.pairs),
        split=request.split,
        class_names=tuple(str(label) for label in range(PUBLISHED.classes)),
        feature_source=f"published; {words}",
    )


def _require_published_sizes(parts: Parts) -> None:
    """Refuse another graph, such as the one of 57 million edges that also goes as Reddit."""
    masks = parts.splits["full"]
    found = {
        "nodes": len(parts.x),
        "features": parts.x.shape[1],
        "val": int(masks.val.sum()),
        "test": int(masks.test.sum()),
    }
    for word, number in found.items():
        if number != getattr(PUBLISHED, word):
            raise InputError(
                f"{parts.source}: Reddit has {getattr(PUBLISHED, word):,} {word}"
                f"{' nodes' if word in ('val', 'test') else ''}, but the files hold {number:,}: "
                "fetch the published ones, or load your own graph by its path"
            )
    if parts.y.max() >= PUBLISHED.classes:
        raise InputError(
            f"{parts.source}: Reddit has the classes 0 to {PUBLISHED.classes - 1}, but the files "
            f"name {parts.y.max()}: fetch the published ones"
        )
    # An edge may be listed in one direction or in both.
    listed = int(np.count_nonzero(parts.pairs[0] != parts.pairs[1]))
    if not PUBLISHED.edges <= listed <= 2 * PUBLISHED.edges:
        raise InputError(
            f"{parts.source}: this graph of Reddit has {PUBLISHED.edges:,} edges, listed once or "
            f"twice, but the adjacency has {listed:,} entries: there is another graph of that "
            "name with five times as many; fetch the published files"
        )


def label_digest(parts: Parts) -> str:
    """Return the SHA-256 of the nodes of each part, in order, and of their labels."""
    digest = hashlib.sha256()
    for mask in parts.splits["full"]:
        for values in (np.flatnonzero(mask), parts.y[mask]):
            digest.update(values.astype("<i8").tobytes())
    return digest.hexdigest()


def _read_saint(folder: Path) -> Parts:
    """Read GraphSAINT's files, which PyG's ``Reddit2`` keeps in its folder ``raw``.

    ``adj_full.npz`` holds the adjacency in CSR form, ``feats.npy`` the features,
    ``class_map.json`` the class of each node and ``role.json`` the nodes of each part.
    """
    x = read_matrix(folder / "feats.npy")
    nodes = len(x)
    path = folder / "class_map.json"
    class_of = read_json(path)
    numbers = [class_of.get(str(node)) for node in range(nodes)]
    if len(class_of) != nodes or not all(
        type(number) is int and 0 <= number < 2**31 for number in numbers
    ):
        raise InputError(
            f"{path} must give each of the {nodes} nodes of feats.npy its class as a whole "
            "number from 0 on: the files do not belong together"
        )
    role = read_json(folder / "role.json")
    parts = {
        part: _places(_array(role.get(key)), nodes, folder / "role.json", key)
        for part, key in _PARTS.items()
    }
    return _with_full_split(
        folder,
        x,
        np.array(numbers, dtype=np.int64),
        _read_pairs(folder / "adj_full.npz", nodes),
        parts,
    )


def _read_fastgcn(folder: Path) -> Parts:
    """Read FastGCN's pair of files.

    ``reddit.npz`` holds ``feats``, and for each part ``y_train`` and ``train_index`` and so on;
    ``reddit_adj.npz`` is the adjacency as ``scipy.sparse.save_npz`` writes it, each edge in one
    direction at least. Nodes that no part names have no label.
    """
    path = folder / "reddit.npz"
    arrays = read_arrays(path)
    x = numeric_matrix(_needed(arrays, "feats", path), path)
    y = np.full(len(x), -1, dtype=np.int64)
    parts = {}
    for part in _PARTS:
        labels = _needed(arrays, f"y_{part}", path)
        parts[part] = _places(
            _needed(arrays, f"{part}_index", path), len(x), path, f"{part}_index"
        )
        if (
            labels.shape != parts[part].shape
            or labels.dtype.kind not in "iu"
            or labels.min() < 0
            or labels.max() >= 2**31
        ):
            raise InputError(
                f"{path}: y_{part} must hold a class number from 0 on for each of the "
                f"{len(parts[part])} nodes of {part}_index, but it is {labels.dtype} of shape "
                f"{labels.shape}: fetch the file again"
            )
        y[parts[part]] = labels
    return _with_full_split(folder, x, y, _read_pairs(folder / "reddit_adj.npz", len(x)), parts)


def _with_full_split(
    folder: Path,
    x: Any,
    y: Labels,
    pairs: npt.NDArray[np.int64],
    parts: dict[str, npt.NDArray[np.int64]],
) -> Parts:
    listed = np.concatenate(list(parts.values()))
    twice = np.flatnonzero(np.bincount(listed, minlength=len(x)) > 1)
    if len(twice):
        raise InputError(
            f"{folder}: node {twice[0]} is listed twice among the training, validation and test "
            "nodes, but it belongs to one part: fetch the files again"
        )
    masks: Masks = from_indices(len(x), *(places.tolist() for places in parts.values()))
    return Parts(str(folder), x, pairs, y, (), {"full": masks})


def _array(listed: Any) -> npt.NDArray[Any]:
    try:
        return np.array(listed)
    except ValueError:  # lists of several lengths
        return np.empty(0)


def _places(values: npt.NDArray[Any], nodes: int, path: Path, key: str) -> npt.NDArray[np.int64]:
    if (
        values.ndim != 1
        or not len(values)
        or values.dtype.kind not in "iu"
        or values.min() < 0
        or values.max() >= nodes
    ):
        raise InputError(
            f"{path}: {key!r} must list nodes as whole numbers from 0 to {nodes - 1}, but it is "
            f"{values.dtype} of shape {values.shape}: the files do not belong together"
        )
    return values.astype(np.int64)


def _read_pairs(path: Path, nodes: int) -> npt.NDArray[np.int64]:
    """Read the non-zero entries of a square matrix stored in CSR or COO form."""
    arrays = read_arrays(path)
    if "indptr" in arrays:
        matrix = sparse.coo_array(csr_from_parts(arrays, "", path))
        shape, row, column, values = matrix.shape, matrix.row, matrix.col, matrix.data
    else:
        row, column, values, stored = (
            _needed(arrays, key, path) for key in ("row", "col", "data", "shape")
        )
        shape = tuple(stored.tolist()) if stored.ndim == 1 else ()
        kinds = (row.dtype.kind, column.dtype.kind, values.dtype.kind)
        fits = all(kind in of for kind, of in zip(kinds, ("iu", "iu", "biuf"), strict=True))
        if not fits or row.ndim != 1 or not row.shape == column.shape == values.shape:
            found = ", ".join(f"{one.dtype} {one.shape}" for one in (row, column, values))
            raise InputError(
                f"{path}: row, col and data must be lists of one length, of whole numbers and "
                f"numbers, but they are {found}: fetch the file again"
            )
    if shape != (nodes, nodes):
        raise InputError(
            f"{path}: the adjacency must be {nodes} x {nodes} as there are {nodes} rows of "
            f"features, but its shape is {shape}: the files do not belong together"
        )
    if np.isnan(values).any():
        raise InputError(f"{path}: data must be numbers, but some are none: fetch the file again")
    kept = values != 0
    return checked_pairs(np.stack([row[kept], column[kept]]), nodes, str(path))


def _needed(arrays: Arrays, key: str, path: Path) -> npt.NDArray[Any]:
    if key not in arrays:
        raise InputError(
            f"{path} must hold an array {key!r}, but it holds {', '.join(arrays) or 'nothing'}: "
            "fetch the file again"
        )
    return arrays[key]


def with_counts(
    x: npt.NDArray[np.float32], choice: str, source: object
) -> tuple[npt.NDArray[np.float32], str]:
    """Transform columns 0 (comments) and 1 (score) as asked for, and say what was done.

    ``"log"`` replaces them by log(x0 + 1) and log(x1 + 1 - m), where m is the lowest score, or 0
    if none is negative. ``"raw"`` leaves them. ``"auto"`` takes logarithms if both columns are
    clearly counts: whole numbers, the largest above 50. It leaves them if neither is, because
    then somebody has taken logarithms already, or scaled.

    Args:
        x: Features, changed in place.
        choice: One of ``"auto"``, ``"log"``, ``"raw"``.
        source: The file, for messages.
    """
    if choice not in _CHOICES:
        raise InputError(f"counts must be one of {', '.join(_CHOICES)}, not {choice!r}")
    if choice == "raw":
        return x, "columns 0 and 1 as stored"
    counts = [_clearly_counts(x[:, column]) for column in (0, 1)]
    if choice == "auto" and counts[0] != counts[1]:
        raise InputError(
            f"{source}: of the columns 0 and 1 one holds counts (whole numbers, some above "
            f"{_LARGEST_LOGARITHM:.0f}) and the other does not: look at them, and say "
            "counts='log' or counts='raw'"
        )
    if choice == "auto" and not counts[0]:
        return x, "columns 0 and 1 as stored, no counts"
    comments, scores = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)
    if comments.min(initial=0) < 0:
        raise InputError(
            f"{source}: column 0 counts comments, but node {int(comments.argmin())} has "
            f"{comments.min():g}: logarithms of these cannot be taken; use counts='raw'"
        )
    # NOTE[DIFF]: FastGCN's script subtracts min(min(x1), -1), which leaves the logarithm of zero
    # for the lowest score if that is -1 or below. Here one more is subtracted then.
    x[:, 0] = np.log(comments + 1.0)
    x[:, 1] = np.log(scores - scores.min(initial=0) + 1.0)
    return x, "columns 0 and 1 as logarithms"


def _clearly_counts(column: npt.NDArray[Any]) -> bool:
    return bool((column == np.rint(column)).all() and column.max(initial=0) > _LARGEST_LOGARITHM)


def split_masks(full: Masks, split: str, pairs: npt.NDArray[np.int64]) -> Masks:
    """Return the parts as published, or for ``"graphsage"`` without lonely training nodes.

    GraphSAGE's loader drops training nodes that have no neighbour among the training nodes.
    They stay in the graph and are in no part.

    Args:
        full: The parts as published.
        split: ``"full"`` or ``"graphsage"``.
        pairs: Listed edges, in one direction or both; loops are nobody's neighbours.
    """
    if split != "graphsage":
        return full
    source, target = pairs
    both = full.train[source] & full.train[target] & (source != target)
    met = np.zeros(len(full.train), dtype=np.bool_)
    met[source[both]] = True
    met[target[both]] = True
    return Masks(full.train & met, full.val, full.test)
