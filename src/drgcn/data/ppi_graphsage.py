"""PPI in GraphSAGE's files: one graph for all, flags for the parts, no numbers of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from drgcn.data.labels import from_matrix
from drgcn.data.nodelink import read_json, read_node_link
from drgcn.data.npz import read_matrix
from drgcn.data.pieces import Piece, cut
from drgcn.data.splits import MultiLabels
from drgcn.errors import InputError

_Numbers = npt.NDArray[np.int64]


def read(folder: Path, graphs: Mapping[str, int]) -> dict[str, list[Piece]]:
    """The training, validation and test graphs.

    The graphs of a part are its largest connected components, as many as ``graphs`` says, in the
    order of their first rows. Every other component, usually a protein or two without ties to the
    rest of its tissue, goes to the graph of the nearest row above its first (below, if there is
    none above) of the same part: the rows of a tissue are stored together.

    """
    # NOTE[DIFF]: GAT's preprocessing takes the components of three nodes and more for graphs, and
    # adds all smaller ones to the first graph of their part.
    path = folder / "ppi-G.json"
    stored = read_node_link(path)
    ids = [str(node["id"]) for node in stored.nodes]
    rows = _rows(folder / "ppi-id_map.json", ids)
    x = read_matrix(folder / "ppi-feats.npy")
    if len(x) != len(ids):
        raise InputError(
            f"{folder / 'ppi-feats.npy'} has {len(x)} rows, but ppi-G.json has {len(ids)} nodes: "
            "the files do not belong together"
        )
    y = _labels(folder / "ppi-class_map.json", ids, rows)
    part_of = np.empty(len(ids), dtype=np.int64)
    part_of[rows] = _parts(path, stored.nodes, list(graphs))
    pairs = rows[stored.pairs]
    across = np.flatnonzero(part_of[pairs[0]] != part_of[pairs[1]])
    if len(across):
        raise InputError(
            f"{path}: edge {across[0]} joins nodes of different parts, but training, validation "
            "and test nodes are in graphs of their own: fetch the file again"
        )
    graph = _number(part_of, pairs, graphs, path)
    pieces = iter(cut(x, y, pairs, graph, path))
    return {part: [next(pieces) for _ in range(count)] for part, count in graphs.items()}


def _rows(path: Path, ids: list[str]) -> _Numbers:
    """The row of each node in the feature matrix."""
    row_of = read_json(path)
    rows = [row_of.get(name) for name in ids]
    if (
        len(row_of) != len(ids)
        or any(type(row) is not int for row in rows)
        or set(rows) != set(range(len(ids)))
    ):
        raise InputError(
            f"{path} must give each of the {len(ids)} nodes of ppi-G.json its row, 0 to "
            f"{len(ids) - 1}: the files do not belong together"
        )
    return np.array(rows, dtype=np.int64)


def _labels(path: Path, ids: list[str], rows: _Numbers) -> MultiLabels:
    labels_of = read_json(path)
    missing = next((name for name in ids if name not in labels_of), None)
    if missing is not None or len(labels_of) != len(ids):
        found = f"node {missing!r} has none" if missing is not None else f"{len(labels_of)} have"
        raise InputError(
            f"{path} must give each of the {len(ids)} nodes of ppi-G.json its labels, but "
            f"{found}: the files do not belong together"
        )
    try:
        listed = np.array([labels_of[name] for name in ids])
    except (ValueError, OverflowError):
        raise InputError(
            f"{path}: every node must have a list of zeros and ones, all of one length"
        ) from None
    y = np.empty_like(listed)
    y[rows] = listed
    return from_matrix(y, len(ids), str(path))[0]


def _parts(path: Path, nodes: list[dict[str, Any]], words: list[str]) -> list[int]:
    """0, 1 or 2 for a training, validation or test node."""
    numbers = []
    for node in nodes:
        val, test = node.get("val"), node.get("test")
        if not isinstance(val, bool) or not isinstance(test, bool) or (val and test):
            raise InputError(
                f"{path}: node {node['id']!r} must have the flags 'val' and 'test', at most one "
                f"of them true, but they are {val!r} and {test!r}"
            )
        numbers.append(words.index("val" if val else "test" if test else "train"))
    return numbers


def _number(part_of: _Numbers, pairs: _Numbers, graphs: Mapping[str, int], path: Path) -> _Numbers:
    """The graph of each row; numbers go up from part to part."""
    nodes = len(part_of)
    ones = np.ones(pairs.shape[1], dtype=np.int8)
    adjacency = sparse.coo_array((ones, (pairs[0], pairs[1])), shape=(nodes, nodes))
    _, component = csgraph.connected_components(adjacency, directed=False)
    names, first, label, size = np.unique(
        component, return_index=True, return_inverse=True, return_counts=True
    )
    graph_of = np.full(len(names), -1, dtype=np.int64)
    start = 0
    for number, (part, count) in enumerate(graphs.items()):
        here = np.flatnonzero(part_of[first] == number)
        if len(here) < count:
            raise InputError(
                f"{path}: PPI has {count} {part} graphs, but the {part} nodes form only "
                f"{len(here)} connected components: fetch the file again"
            )
        largest = here[np.lexsort((first[here], -size[here]))[:count]]
        largest = largest[np.argsort(first[largest])]
        graph_of[largest] = start + np.arange(count)
        settled = np.flatnonzero(np.isin(label, largest))
        others = np.setdiff1d(here, largest)
        nearest = settled[np.maximum(np.searchsorted(settled, first[others]) - 1, 0)]
        graph_of[others] = graph_of[label[nearest]]
        start += count
    return graph_of[label]
