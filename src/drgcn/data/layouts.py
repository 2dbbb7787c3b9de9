"""Three ways to keep a graph in one ``.npz`` file, told apart by the names of the arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.checks import Parts, masks_from_words
from drgcn.data.labels import from_numbers, from_stored
from drgcn.data.npz import Arrays, count_rows, csr_from_parts, read_arrays
from drgcn.data.splits import AnyLabels, Labels, Mask, Masks
from drgcn.errors import InputError

_PARTS = ("train", "val", "test")


def read_npz(path: Path) -> Parts:
    """A graph from an ``.npz`` file in any of the three layouts.

    * own: ``x`` (or ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``), ``edge_index``, and
      if known ``y`` and either ``split`` (words) or ``train_mask``, ``val_mask``, ``test_mask``;
    * gnn-benchmark: ``adj_*`` and ``attr_*`` in CSR parts, ``labels``;
    * heterophilous: ``node_features``, ``node_labels``, ``edges`` and ``train_masks``,
      ``val_masks``, ``test_masks`` with one row per split.
    """
    arrays = read_arrays(path)
    if "adj_data" in arrays:
        return _gnn_benchmark(arrays, str(path))
    if "node_features" in arrays:
        return _heterophilous(arrays, str(path))
    if "x" in arrays or "x_data" in arrays:
        return _own(arrays, str(path))
    raise InputError(
        f"{path} must hold x and edge_index, but it holds {', '.join(arrays) or 'nothing'}"
    )


def _own(arrays: Arrays, source: str) -> Parts:
    x: Any = arrays["x"] if "x" in arrays else csr_from_parts(arrays, "x_", source)
    nodes = count_rows(x, source)
    y: AnyLabels
    if "y" in arrays:
        y, names = from_stored(arrays["y"], nodes, source)
    else:
        y, names = np.full(nodes, -1, dtype=np.int64), ()
    return Parts(
        source=source,
        x=x,
        pairs=_needed(arrays, "edge_index", source),
        y=y,
        class_names=names,
        splits=given_split(arrays, nodes, source),
    )


def _gnn_benchmark(arrays: Arrays, source: str) -> Parts:
    adjacency = csr_from_parts(arrays, "adj_", source)
    adjacency.eliminate_zeros()
    x: Any = (
        arrays["attr_matrix"]
        if "attr_matrix" in arrays
        else csr_from_parts(arrays, "attr_", source)
    )
    nodes = count_rows(x, source)
    if adjacency.shape != (nodes, nodes):
        raise InputError(f"{source}: the adjacency is {adjacency.shape}, but x has {nodes} nodes")
    listed = sparse.coo_array(adjacency)
    y, names = _labels(arrays, "labels", nodes, source)
    return Parts(source, x, np.stack([listed.row, listed.col]).astype(np.int64), y, names)


def _heterophilous(arrays: Arrays, source: str) -> Parts:
    x = arrays["node_features"]
    nodes = count_rows(x, source)
    y, names = _labels(arrays, "node_labels", nodes, source)
    stacks = [_needed(arrays, f"{part}_masks", source) for part in _PARTS]
    if any(stack.ndim != 2 or len(stack) != len(stacks[0]) for stack in stacks):
        raise InputError(f"{source}: the three mask arrays must have shape [splits, {nodes}]")
    return Parts(
        source=source,
        x=x,
        pairs=_needed(arrays, "edges", source).T,
        y=y,
        class_names=names,
        splits={
            str(number): Masks(*(as_mask(row, nodes, source) for row in rows))
            for number, rows in enumerate(zip(*stacks, strict=True))
        },
    )


def given_split(arrays: Arrays, nodes: int, source: str) -> dict[str, Masks]:
    """The split that an own file brings along, under the name ``given``."""
    if "split" in arrays:
        words = arrays["split"]
        if words.shape != (nodes,) or words.dtype.kind not in "US":
            raise InputError(f"{source}: split must hold one word for each of the {nodes} nodes")
        return {"given": masks_from_words(words.astype(np.str_).tolist(), source, None)}
    present = [part for part in _PARTS if f"{part}_mask" in arrays]
    if not present:
        return {}
    if len(present) < len(_PARTS):
        missing = next(part for part in _PARTS if part not in present)
        raise InputError(f"{source}: {present[0]}_mask is there, but {missing}_mask is not")
    return {"given": Masks(*(as_mask(arrays[f"{part}_mask"], nodes, source) for part in _PARTS))}


def as_mask(values: npt.NDArray[Any], nodes: int, source: str) -> Mask:
    """A boolean mask over the nodes, given as booleans or as zeros and ones."""
    if (
        values.shape != (nodes,)
        or values.dtype.kind not in "biu"
        or not np.isin(values, (0, 1)).all()
    ):
        raise InputError(
            f"{source}: a mask must hold true or false for each of the {nodes} nodes, but one is "
            f"{values.dtype} of shape {values.shape}"
        )
    return values.astype(np.bool_)


def _labels(arrays: Arrays, key: str, nodes: int, source: str) -> tuple[Labels, tuple[str, ...]]:
    if key not in arrays:
        return np.full(nodes, -1, dtype=np.int64), ()
    return from_numbers(arrays[key], nodes, source)


def _needed(arrays: Arrays, key: str, source: str) -> npt.NDArray[Any]:
    if key not in arrays:
        raise InputError(f"{source} has no array {key!r}: it holds {', '.join(arrays)}")
    return arrays[key]
