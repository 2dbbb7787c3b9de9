"""PPI in the files that ``torch_geometric.datasets.PPI`` keeps in its folder ``raw``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn.data.labels import from_matrix
from drgcn.data.nodelink import read_node_link
from drgcn.data.npz import read_array, read_matrix
from drgcn.data.pieces import Piece, cut
from drgcn.errors import InputError

_STEMS: Final = {"train": "train", "val": "valid", "test": "test"}


def read(folder: Path) -> dict[str, list[Piece]]:
    """The training, validation and test graphs, in the order of their numbers."""
    return {part: _part(folder, stem) for part, stem in _STEMS.items()}


def _part(folder: Path, stem: str) -> list[Piece]:
    x = read_matrix(folder / f"{stem}_feats.npy")
    labels = read_array(folder / f"{stem}_labels.npy")
    _same_rows(folder / f"{stem}_labels.npy", len(labels) if labels.ndim else 0, len(x))
    y, _ = from_matrix(labels, len(x), str(folder / f"{stem}_labels.npy"))
    graph = _graph_numbers(folder / f"{stem}_graph_id.npy", len(x))
    path = folder / f"{stem}_graph.json"
    stored = read_node_link(path)
    _same_rows(path, len(stored.nodes), len(x))
    # A node's id is its row; the file may list the nodes in another order.
    rows = [node["id"] for node in stored.nodes]
    if set(rows) != set(range(len(rows))):
        raise InputError(
            f"{path}: ids must be the rows of {stem}_feats.npy, 0 to {len(rows) - 1}: the files "
            "do not belong together"
        )
    pairs = np.array(rows, dtype=np.int64)[stored.pairs]
    return cut(x, y, pairs, graph, path)


def _graph_numbers(path: Path, nodes: int) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[Any] = read_array(path)
    if numbers.shape != (nodes,) or numbers.dtype.kind not in "iuf" or (numbers % 1 != 0).any():
        raise InputError(
            f"{path} must hold the number of its graph for each of the {nodes} nodes, but it "
            f"holds {numbers.dtype} values of shape {numbers.shape}: fetch it again"
        )
    return numbers.astype(np.int64)


def _same_rows(path: Path, found: int, nodes: int) -> None:
    if found != nodes:
        raise InputError(
            f"{path} has {found} nodes, but the features beside it have {nodes}: the files do not "
            "belong together"
        )
