"""Twitch: seven graphs with one feature space, an inductive task on several graphs."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.assemble import RawGraph
from drgcn.data.catalog import TWITCH_GRAPHS
from drgcn.data.downloader import Request
from drgcn.data.splits import Labels, Masks, draw
from drgcn.errors import InputError

_FEATURES: Final = 3170
_CLASS_NAMES: Final = ("not mature", "mature")


def read(request: Request) -> RawGraph:
    """Read one graph, or the union of all seven."""
    graph = request.options.get("graph")
    graphs = _graphs_needed(graph, request.named_split)
    request.require_files(tuple(f"twitch/{name}_" for name in graphs))
    folder = request.root / "twitch"
    if graph:
        return _read_one(folder, graph, request.split_seed)
    return _read_all(folder, request.split)


def _graphs_needed(graph: str | None, split: str | None) -> tuple[str, ...]:
    """Return the graphs that a request needs; a graph and a split that do not fit are refused."""
    if graph is None:
        if split == "random-60":
            raise InputError(
                "split 'random-60' is for one twitch graph: add graph='DE' or another"
            )
        return TWITCH_GRAPHS
    if graph not in TWITCH_GRAPHS:
        raise InputError(f"graph must be one of {', '.join(TWITCH_GRAPHS)}, not {graph!r}")
    if split not in (None, "random-60"):
        raise InputError(f"one twitch graph has only the split 'random-60', not {split!r}")
    return (graph,)


def _read_one(folder: Path, graph: str, split_seed: int) -> RawGraph:
    """Read one graph and split its nodes 60/20/20 at random."""
    x, y, pairs = _read_graph(folder, graph)
    return RawGraph(
        x=x,
        y=y,
        pairs=pairs,
        masks=draw("random-60", y, split_seed),
        split="random-60",
        split_seed=split_seed,
        class_names=_CLASS_NAMES,
    )


def _read_all(folder: Path, split: str) -> RawGraph:
    """Join the seven graphs; ``split`` names the validation and the test graph.

    ``data.graph`` is the number of each node's graph, in the manner of PyG's ``batch``.
    """
    parts = [_read_graph(folder, graph) for graph in TWITCH_GRAPHS]
    sizes = [len(y) for _, y, _ in parts]
    offsets = np.cumsum([0, *sizes[:-1]])
    graph = np.repeat(np.arange(len(parts)), sizes)
    val, test = (graph == TWITCH_GRAPHS.index(name) for name in split.split("-"))
    return RawGraph(
        x=sparse.csr_array(sparse.vstack([x for x, _, _ in parts], format="csr")),
        y=np.concatenate([y for _, y, _ in parts]),
        pairs=np.concatenate(
            [pairs + start for (_, _, pairs), start in zip(parts, offsets, strict=True)], axis=1
        ),
        masks=Masks(~(val | test), val, test),
        split=split,
        class_names=_CLASS_NAMES,
        graph=graph,
        graph_names=TWITCH_GRAPHS,
    )


def _read_graph(
    folder: Path, graph: str
) -> tuple[sparse.csr_array, Labels, npt.NDArray[np.int64]]:
    """Read features, labels and listed edges of one graph."""
    try:
        y = _labels(folder / f"{graph}_target.csv")
        x = _features(folder / f"{graph}_features.json", len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without edges: it is refused below
            pairs = np.loadtxt(
                folder / f"{graph}_edges.csv", dtype=np.int64, delimiter=",", skiprows=1, ndmin=2
            ).T
        if pairs.shape[0] != 2 or not 0 <= pairs.min() <= pairs.max() < len(y):
            raise ValueError("an edge leaves the graph")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(
            f"the files {folder / graph}_* are damaged or do not belong together ({error}): "
            "fetch them again"
        ) from None
    return x, y, pairs


def _labels(path: Path) -> Labels:
    with path.open(newline="", encoding="utf-8") as file:
        # The French file lists two streamers twice, with the same label: the last line stands.
        mature = {int(row["new_id"]): row["mature"] == "True" for row in csv.DictReader(file)}
    if sorted(mature) != list(range(len(mature))):
        raise ValueError("new_id is not 0, 1, 2, ...")
    return np.array([mature[node] for node in range(len(mature))], dtype=np.int64)


def _features(path: Path, nodes: int) -> sparse.csr_array:
    listed = {int(node): set(words) for node, words in json.loads(path.read_bytes()).items()}
    rows = np.repeat(list(listed), [len(words) for words in listed.values()])
    columns = np.array([word for words in listed.values() for word in words], dtype=np.int64)
    if len(listed) != nodes or columns.max(initial=0) >= _FEATURES:
        raise ValueError(f"features are not {nodes} lists of numbers below {_FEATURES}")
    ones = np.ones(len(columns), dtype=np.float32)
    return sparse.csr_array((ones, (rows, columns)), shape=(nodes, _FEATURES))
