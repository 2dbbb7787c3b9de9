"""Graphs in one file: three layouts of ``.npz``, or a saved PyG ``Data``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.assemble import DatasetInfo, RawGraph, as_array, as_features
from drgcn.data.checks import (
    Columns,
    Parts,
    checked,
    from_numbers,
    from_stored,
    masks_from_words,
    with_values,
)
from drgcn.data.downloader import Request
from drgcn.data.features import count_rows
from drgcn.data.readers import (
    Arrays,
    csr_from_parts,
    native,
    read_arrays,
    require_sound_archive,
)
from drgcn.data.splits import AnyLabels, Labels, Mask, Masks
from drgcn.errors import InputError, warn

_PARTS: Final = ("train", "val", "test")
_TENSORS: Final = ("edge_index", "edge_weight", "edge_attr", "y", *(f"{p}_mask" for p in _PARTS))
_KNOWN: Final = (*_TENSORS, "x", "x_data", "x_indices", "x_indptr", "x_shape", "split", "graph")
# Names that others give to the labels.
_LABELS: Final = ("label", "labels", "class", "classes", "target", "targets")
_NO_COLUMNS: Final = Columns()


def read(request: Request) -> RawGraph:
    """Read a set of the family ``gnn-benchmark`` or ``heterophilous``."""
    request.require_files()
    entry = request.entry
    parts = read_npz(request.root / entry.files[0].path)
    return checked(
        parts,
        request.split,
        request.split_seed,
        counts=entry.per_class,
        feature_source="published",
    )


def read_npz(path: Path, columns: Columns = _NO_COLUMNS) -> Parts:
    """Read a graph from an ``.npz`` file in any of the three layouts.

    * own: ``x`` (or ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``), ``edge_index``, and
      if known ``edge_weight``, ``y`` and either ``split`` (words) or ``train_mask``, ``val_mask``,
      ``test_mask`` (``[nodes]``, or ``[nodes, splits]`` for the splits ``0``, ``1``, ...), and
      ``graph``, the number of each node's graph if there are several;
    * gnn-benchmark: ``adj_*`` and ``attr_*`` in CSR parts, ``labels``; or matrices, which may be
      pickled, as ``adj_matrix``, ``attr_matrix`` (or ``node_attr``), ``labels`` (``node_label``);
    * heterophilous: ``node_features``, ``node_labels``, ``edges`` and ``train_masks``,
      ``val_masks``, ``test_masks`` with one row per split.

    The array ``columns.target`` holds measured values to predict, NaN where unknown, and
    ``columns.identity`` what thing each node is.
    """
    arrays = dict(read_arrays(path, objects=True))
    identity = _identity(arrays, columns, str(path))
    values = None if columns.target is None else _taken(arrays, columns.target, str(path))
    if "adj_data" in arrays or "adj_matrix" in arrays:
        found = _gnn_benchmark_layout(arrays, str(path))
    elif "node_features" in arrays:
        found = _heterophilous_layout(arrays, str(path))
    elif "x" in arrays or "x_data" in arrays:
        found = _own_layout(arrays, str(path))
    else:
        raise InputError(
            f"{path}: expected the arrays x and edge_index, and if known edge_weight, y, and "
            f"split or train_mask, val_mask, test_mask; found {', '.join(arrays) or 'none'}. "
            "Rename them."
        )
    found = replace(found, identity=identity)
    return found if values is None else with_values(found, values, str(columns.target))


def _identity(arrays: dict[str, Any], columns: Columns, source: str) -> Any:
    """Take what says which thing a node is out of the arrays; ``None`` if it has no name."""
    name = columns.identity
    if name is None:
        return None
    taken = (*_KNOWN, *_LABELS, "node_label", "node_labels", columns.target)
    if name not in arrays or name in taken:
        found = ", ".join(key for key in arrays if key not in taken)
        raise InputError(
            f"{source}: expected an array {name!r} that says what thing a node is; found "
            f"{found or 'none that could'}. Name one of them."
        )
    return arrays.pop(name)


def _taken(arrays: dict[str, Any], target: str, source: str) -> Any:
    """Take the values to predict, and labels beside them, out of the arrays."""
    if target not in arrays:
        raise InputError(
            f"{source}: expected the values to predict as {target!r}; found "
            f"{', '.join(arrays) or 'none'}. Name one of them."
        )
    values = arrays.pop(target)
    arrays.pop("y", None)
    return values


def _own_layout(arrays: Arrays, source: str) -> Parts:
    x: Any = arrays["x"] if "x" in arrays else csr_from_parts(arrays, "x_", source)
    nodes = count_rows(x, source)
    _warn_of_unused(arrays, source)
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
        splits=_splits(arrays, nodes, source),
        weight=_weight(arrays, source),
        graph=arrays.get("graph"),
    )


def _warn_of_unused(arrays: Iterable[str], source: str) -> None:
    """Refuse labels and splits in another form, and warn of all else that is not read."""
    unused = [key for key in arrays if key not in _KNOWN]
    labels = [key for key in unused if key.lower() in _LABELS]
    if labels and "y" not in arrays:
        raise InputError(
            f"{source}: expected the labels as 'y'; found none, but {labels[0]!r}. Name it 'y' if "
            "it holds the classes, else otherwise."
        )
    listed = [
        key for key in unused if re.fullmatch(r"(train|valid|val|test)_(idx|ids|index)", key)
    ]
    if listed and "split" not in arrays and "train_mask" not in arrays:
        raise InputError(
            f"{source}: expected the split as train_mask, val_mask and test_mask, true or false a "
            f"node; found {', '.join(listed)}. Make masks of them."
        )
    if unused:
        warn(f"{source}: {', '.join(unused)} are not used")


def _weight(arrays: Arrays, source: str) -> npt.NDArray[Any] | None:
    """Return ``edge_weight``, or else an ``edge_attr`` that holds one number an edge."""
    weight, other = arrays.get("edge_weight"), arrays.get("edge_attr")
    if other is None:
        return weight
    single = other.ndim == 1 or other.shape[1:] == (1,)
    if weight is not None or not single:
        warn(f"{source}: edge_attr is not used")
        return weight
    warn(f"{source}: edge_attr, one number an edge, is taken for edge weights")
    return other


def _gnn_benchmark_layout(arrays: Arrays, source: str) -> Parts:
    if "adj_matrix" in arrays:
        stored = arrays["adj_matrix"]
        if stored.ndim != 2 or stored.dtype.kind not in "biuf":
            raise InputError(
                f"{source}: expected the adjacency as a matrix of numbers; found {stored.dtype} "
                f"of shape {stored.shape}. Save it again."
            )
        adjacency = sparse.csr_array(native(stored))
    else:
        adjacency = csr_from_parts(arrays, "adj_", source)
    adjacency.eliminate_zeros()
    name = next((key for key in ("attr_matrix", "node_attr") if key in arrays), None)
    x: Any = csr_from_parts(arrays, "attr_", source) if name is None else arrays[name]
    nodes = count_rows(x, source)
    if adjacency.shape != (nodes, nodes):
        raise InputError(f"{source}: the adjacency is {adjacency.shape}, but x has {nodes} nodes")
    listed = sparse.coo_array(adjacency)
    y, names = _labels(arrays, "labels" if "labels" in arrays else "node_label", nodes, source)
    if (listed.data != 1).any():
        # As everywhere in this layout: its first reader made all entries one.
        warn(
            f"{source}: entries of the adjacency that are not 1 are taken for 1; weights would be "
            "given as edge_index and edge_weight"
        )
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


def _splits(arrays: Arrays, nodes: int, source: str) -> dict[str, Masks]:
    """Return the split of a user's file as ``given``, or its several as ``0``, ``1``, ..."""
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
    masks = [arrays[f"{part}_mask"] for part in _PARTS]
    several = {mask.shape[1] for mask in masks if mask.ndim == 2}
    if not several:
        return {"given": Masks(*(_as_mask(mask, nodes, source) for mask in masks))}
    if len(several) > 1:
        raise InputError(
            f"{source}: expected masks of the same number of splits; found "
            f"{', '.join(str(mask.shape) for mask in masks)}. Give [nodes, splits] for each."
        )
    # Where splits share a part, as the test nodes of WikiCS, its mask has no columns.
    stacks = [mask.T if mask.ndim == 2 else [mask] * max(several) for mask in masks]
    return {
        str(number): Masks(*(_as_mask(column, nodes, source) for column in columns))
        for number, columns in enumerate(zip(*stacks, strict=True))
    }


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


def read_saved(path: Path, columns: Columns = _NO_COLUMNS) -> Parts:
    """Read a graph from ``torch.save(data, path)`` or ``torch.save(data.to_dict(), path)``, or
    from the ``processed/data.pt`` of a PyG dataset of one graph.

    Masks of shape ``[nodes, splits]``, as PyG stores several splits, are named ``0``, ``1``, ...
    A union of graphs that this package made stays one. The tensor ``columns.target`` holds
    measured values to predict, NaN where unknown, ``columns.identity`` what thing each node is.
    """
    stored = dict(_load_saved(path))
    source, target = str(path), columns.target
    if isinstance(stored.get("dataset"), DatasetInfo) and columns.identity is None:
        things = stored.pop("identity", None)
    else:
        things = _identity(stored, columns, source)
    identity = None if things is None else as_array(things, source)
    values = None if target is None else as_array(_taken(stored, target, source), source)
    found = replace(_saved_layout(stored, source), identity=identity)
    return found if values is None else with_values(found, values, str(target))


def _saved_layout(stored: Mapping[Any, Any], source: str) -> Parts:
    for key in ("x", "edge_index"):
        if not isinstance(stored.get(key), torch.Tensor) or stored[key].is_nested:
            raise InputError(
                f"{source} must hold the tensors x and edge_index, but it holds "
                f"{', '.join(map(str, stored)) or 'nothing'}"
            )
    nodes = count_rows(stored["x"], source)
    x = as_features(stored["x"], source)
    given = {str(key): value for key, value in stored.items() if value is not None}
    arrays = {key: as_array(value, source) for key, value in given.items() if key in _TENSORS}
    _warn_of_unused([key for key, value in given.items() if torch.is_tensor(value)], source)
    info = stored.get("dataset")
    y: AnyLabels = np.full(nodes, -1, dtype=np.int64)
    class_names: tuple[str, ...] = ()
    if "y" in arrays:
        multi_label = isinstance(info, DatasetInfo) and info.multi_label
        y, class_names = from_stored(arrays["y"], nodes, source, multi_label=multi_label)
    if isinstance(info, DatasetInfo):
        class_names = _stored_names(info, class_names)
        if stored.get("graph") is not None:
            arrays["graph"] = as_array(stored["graph"], source)
    names = stored.get("graph_names")
    return Parts(
        source=source,
        x=x,
        pairs=arrays["edge_index"],
        y=y,
        class_names=class_names,
        splits=_splits(arrays, nodes, source),
        weight=_weight(arrays, source),
        graph=arrays.get("graph"),
        graph_names=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _stored_names(info: DatasetInfo, numbers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of classes that were saved, if they are those of the numbers found."""
    names = info.class_names
    fits = isinstance(names, tuple) and len(names) == len(set(names)) == len(numbers)
    if fits and all(isinstance(name, str) for name in names):
        return names if numbers == tuple(map(str, range(len(numbers)))) else numbers
    return numbers


def _load_saved(path: Path) -> Mapping[Any, Any]:
    """Load a ``.pt`` file that holds a PyG ``Data`` or a dictionary, running none of its code."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    safe = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, DatasetInfo]
    try:
        require_sound_archive(path)
        with (
            torch.serialization.safe_globals(safe),
            # Indices past the end of a sparse tensor would be followed into foreign memory.
            torch.sparse.check_sparse_tensor_invariants(True),
        ):
            stored = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(stored, tuple) and len(stored) > 1 and _is_uncut(stored[1]):
            stored = stored[0]
        if isinstance(stored, Data):
            return dict(stored.to_dict())
    except InputError as error:
        raise InputError(f"{path} was not read: {error}") from None
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


def _is_uncut(slices: Any) -> bool:
    """True for the slices that PyG keeps beside the data of a dataset if it is one graph."""
    if slices is None:
        return True
    return isinstance(slices, Mapping) and all(len(cuts) == 2 for cuts in slices.values())
