"""A PyG ``Data`` that a user saved with ``torch.save``, opened without running its pickle."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from drgcn.data.checks import Parts
from drgcn.data.edges import UNUSED
from drgcn.data.info import DatasetInfo
from drgcn.data.labels import from_stored
from drgcn.data.layouts import as_mask, given_split
from drgcn.data.npz import count_rows
from drgcn.data.splits import AnyLabels, Masks
from drgcn.data.tensors import as_array, as_features
from drgcn.errors import DrgcnWarning, InputError

_PARTS = ("train", "val", "test")


def read_saved(path: Path) -> Parts:
    """A graph from ``torch.save(data, path)`` or ``torch.save(data.to_dict(), path)``.

    Masks of shape ``[nodes, splits]``, as PyG stores several splits, are named ``0``, ``1``, ...
    A union of graphs that this package made stays one.
    """
    source = str(path)
    stored = _stored(path)
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
        splits=_splits(arrays, nodes, source),
        graph=arrays.get("graph"),
        graph_names=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _stored(path: Path) -> Mapping[Any, Any]:
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


def _splits(arrays: Mapping[str, npt.NDArray[Any]], nodes: int, source: str) -> dict[str, Masks]:
    stacks = [arrays.get(f"{part}_mask") for part in _PARTS]
    if any(stack is None or stack.ndim != 2 for stack in stacks):
        return given_split(arrays, nodes, source)
    columns = zip(*(stack.T for stack in stacks if stack is not None), strict=False)
    return {
        str(number): Masks(*(as_mask(column, nodes, source) for column in parts))
        for number, parts in enumerate(columns)
    }
