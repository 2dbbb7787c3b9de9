"""Graphs in one file: three layouts of ``.npz``, or a saved PyG ``Data``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.assemble import UNUSED, DatasetInfo, RawGraph, as_array, as_features
from drgcn.data.checks import Parts, checked, from_numbers, from_stored, masks_from_words
from drgcn.data.downloader import Request
from drgcn.data.features import count_rows
from drgcn.data.readers import Arrays, csr_from_parts, read_arrays
from drgcn.data.splits import AnyLabels, Labels, Mask, Masks
from drgcn.errors import DrgcnWarning, InputError

_PARTS: Final = ("train", "val", "test")


def read(request: Request) -> RawGraph:
    """Read a set of the family ``gnn-benchmark`` or ``heterophilous``."""
    request.fetch_missing()
    entry = request.entry
    parts = read_npz(request.root / entry.files[0].path)
    return checked(
        parts,
        request.split,
        request.split_seed,
        counts=entry.per_class,
        feature_source="published",
    )


def read_npz(path: Path) -> Parts:
    """Read a graph from an ``.npz`` file in any of the three layouts.

    * own: ``x`` (or ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``), ``edge_index``, and
      if known ``y`` and either ``split`` (words) or ``train_mask``, ``val_mask``, ``test_mask``;
    * gnn-benchmark: ``adj_*`` and ``attr_*`` in CSR parts, ``labels``;
    * heterophilous: ``node_features``, ``node_labels``, ``edges`` and ``train_masks``,
      ``val_masks``, ``test_masks`` with one row per split.
    """
    arrays = read_arrays(path)
    if "adj_data" in arrays:
        return _gnn_benchmark_layout(arrays, str(path))
    if "node_features" in arrays:
        return _heterophilous_layout(arrays, str(path))
    if "x" in arrays or "x_data" in arrays:
        return _own_layout(arrays, str(path))
    raise InputError(
        f"{path} must hold x and edge_index, but it holds {', '.join(arrays) or 'nothing'}"
    )


def _own_layout(arrays: Arrays, source: str) -> Parts:
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
        splits=_given_split(arrays, nodes, source),
    )


def _gnn_benchmark_layout(arrays: Arrays, source: str) -> Parts:
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


def _heterophilous_layout(arrays: Arrays, source: str) -> Parts:
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
            str(number): Masks(*(_as_mask(row, nodes, source) for row in rows))
            for number, rows in enumerate(zip(*stacks, strict=True))
        },
    )


def _given_split(arrays: Arrays, nodes: int, source: str) -> dict[str, Masks]:
    """Return the split that a user's file brings along, under the name ``given``."""
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
    return {"given": Masks(*(_as_mask(arrays[f"{part}_mask"], nodes, source) for part in _PARTS))}


def _as_mask(values: npt.NDArray[Any], nodes: int, source: str) -> Mask:
    """Return a boolean mask over the nodes from booleans or from zeros and ones."""
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


def read_saved(path: Path) -> Parts:
    """Read a graph from ``torch.save(data, path)`` or ``torch.save(data.to_dict(), path)``.

    Masks of shape ``[nodes, splits]``, as PyG stores several splits, are named ``0``, ``1``, ...
    A union of graphs that this package made stays one.
    """
    source = str(path)
    stored = _load_saved(path)
    for key in ("x", "edge_index"):
        if not isinstance(stored.get(key), torch.Tensor):
            raise InputError(
                f"{path} must hold the tensors x and edge_index, but it holds "
                f"{', '.join(map(str, stored)) or 'nothing'}"
            )
    nodes = count_rows(stored["x"], source)
    x = as_features(stored["x"], source)
    arrays = {
        key: as_array(stored[key], source)
        for key in ("edge_index", "y", *(f"{part}_mask" for part in _PARTS))
        if stored.get(key) is not None
    }
    unused = [key for key in UNUSED if stored.get(key) is not None]
    if unused:
        warnings.warn(f"{source}: {' and '.join(unused)} are not used", DrgcnWarning, stacklevel=4)
    info = stored.get("dataset")
    y: AnyLabels = np.full(nodes, -1, dtype=np.int64)
    class_names: tuple[str, ...] = ()
    if "y" in arrays:
        multi_label = isinstance(info, DatasetInfo) and info.multi_label
        y, class_names = from_stored(arrays["y"], nodes, source, multi_label=multi_label)
    if isinstance(info, DatasetInfo):
        if class_names == tuple(map(str, range(info.classes))):
            class_names = info.class_names
        if stored.get("graph") is not None:
            arrays["graph"] = as_array(stored["graph"], source)
    names = stored.get("graph_names")
    return Parts(
        source=source,
        x=x,
        pairs=arrays["edge_index"],
        y=y,
        class_names=class_names,
        splits=_saved_splits(arrays, nodes, source),
        graph=arrays.get("graph"),
        graph_names=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _load_saved(path: Path) -> Mapping[Any, Any]:
    """Load a ``.pt`` file that holds a PyG ``Data`` or a dictionary, running none of its code."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    safe = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, DatasetInfo]
    try:
        with (
            torch.serialization.safe_globals(safe),
            # Indices past the end of a sparse tensor would be followed into foreign memory.
            torch.sparse.check_sparse_tensor_invariants(True),
        ):
            stored = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(stored, Data):
            return dict(stored.to_dict())
    except Exception as error:  # a damaged file can raise nearly anything
        refused = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it asks for {refused[1]}" if refused else type(error).__name__
        raise InputError(
            f"{path} is damaged or holds more than a PyG Data of plain tensors ({reason}): save "
            "it again with torch.save(data.to_dict(), path)"
        ) from None
    if isinstance(stored, Mapping):
        return stored
    raise InputError(f"{path} must hold a PyG Data or its dict, not a {type(stored).__name__}")


def _saved_splits(
    arrays: Mapping[str, npt.NDArray[Any]], nodes: int, source: str
) -> dict[str, Masks]:
    stacks = [arrays.get(f"{part}_mask") for part in _PARTS]
    if any(stack is None or stack.ndim != 2 for stack in stacks):
        return _given_split(arrays, nodes, source)
    columns = zip(*(stack.T for stack in stacks if stack is not None), strict=False)
    return {
        str(number): Masks(*(_as_mask(column, nodes, source) for column in parts))
        for number, parts in enumerate(columns)
    }
