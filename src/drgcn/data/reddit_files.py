"""Reddit in its two published layouts, read without ever opening a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.checks import Parts, checked_pairs
from drgcn.data.nodelink import read_json
from drgcn.data.npz import Arrays, csr_from_parts, numeric_matrix, read_arrays, read_matrix
from drgcn.data.splits import Labels, Masks, from_indices
from drgcn.errors import InputError

_SAINT_PARTS = {"train": "tr", "val": "va", "test": "te"}


def read_saint(folder: Path) -> Parts:
    """GraphSAINT's files, which PyG's ``Reddit2`` keeps in its folder ``raw``.

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
        for part, key in _SAINT_PARTS.items()
    }
    return _parts(
        folder,
        x,
        np.array(numbers, dtype=np.int64),
        _pairs(folder / "adj_full.npz", nodes),
        parts,
    )


def read_fastgcn(folder: Path) -> Parts:
    """FastGCN's pair of files.

    ``reddit.npz`` holds ``feats``, and for each part ``y_train`` and ``train_index`` and so on;
    ``reddit_adj.npz`` is the adjacency as ``scipy.sparse.save_npz`` writes it, each edge in one
    direction at least. Nodes that no part names have no label.
    """
    path = folder / "reddit.npz"
    arrays = read_arrays(path)
    x = numeric_matrix(_needed(arrays, "feats", path), path)
    y = np.full(len(x), -1, dtype=np.int64)
    parts = {}
    for part in _SAINT_PARTS:
        labels = _needed(arrays, f"y_{part}", path)
        parts[part] = _places(
            _needed(arrays, f"{part}_index", path), len(x), path, f"{part}_index"
        )
        if labels.shape != parts[part].shape or labels.dtype.kind not in "iu" or labels.min() < 0:
            raise InputError(
                f"{path}: y_{part} must hold a class number from 0 on for each of the "
                f"{len(parts[part])} nodes of {part}_index, but it is {labels.dtype} of shape "
                f"{labels.shape}: fetch the file again"
            )
        y[parts[part]] = labels
    return _parts(folder, x, y, _pairs(folder / "reddit_adj.npz", len(x)), parts)


def _parts(
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


def _pairs(path: Path, nodes: int) -> npt.NDArray[np.int64]:
    """The non-zero entries of a square matrix stored in CSR or COO form."""
    arrays = read_arrays(path)
    if "indptr" in arrays:
        matrix = sparse.coo_array(csr_from_parts(arrays, "", path))
        shape, row, column, values = matrix.shape, matrix.row, matrix.col, matrix.data
    else:
        row, column, values, stored = (
            _needed(arrays, key, path) for key in ("row", "col", "data", "shape")
        )
        shape = tuple(stored.tolist()) if stored.ndim == 1 else ()
        if not row.shape == column.shape == values.shape or row.ndim != 1:
            raise InputError(
                f"{path}: row, col and data must be lists of one length, but their shapes are "
                f"{row.shape}, {column.shape} and {values.shape}: fetch the file again"
            )
    if shape != (nodes, nodes):
        raise InputError(
            f"{path}: the adjacency must be {nodes} x {nodes} as there are {nodes} rows of "
            f"features, but its shape is {shape}: the files do not belong together"
        )
    kept = values != 0
    return checked_pairs(np.stack([row[kept], column[kept]]), nodes, str(path))


def _needed(arrays: Arrays, key: str, path: Path) -> npt.NDArray[Any]:
    if key not in arrays:
        raise InputError(
            f"{path} must hold an array {key!r}, but it holds {', '.join(arrays) or 'nothing'}: "
            "fetch the file again"
        )
    return arrays[key]
