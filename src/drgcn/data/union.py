"""Disjoint unions of graphs: joining, cutting apart, and sizes of the graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.assemble import UNUSED, RawGraph, as_array, as_features, assemble
from drgcn.data.checks import checked_pairs, from_matrix, from_numbers, warn_of_unseen_classes
from drgcn.data.features import Features, numeric_matrix
from drgcn.data.splits import AnyLabels, Masks, labelled
from drgcn.errors import InputError, warn

if TYPE_CHECKING:
    from torch_geometric.data import Data


def unite(
    train: Sequence[Data],
    val: Sequence[Data],
    test: Sequence[Data],
    *,
    normalize: str = "none",
    name: str = "union",
) -> Data:
    """Join training, validation and test graphs into a disjoint union for :func:`drgcn.fit`.

    The result has the form of ``load("ppi")`` and ``load("twitch")``: ``graph`` is the number of
    each node's graph, ``graph_names`` their names (``train-0``, ...), the three masks are true on
    all labelled nodes of the part's graphs. Edges become undirected, without loops and repeated
    edges; their weights and features are not kept.

    Args:
        train: Graphs to train on, each with ``x``, ``edge_index`` and ``y``: one class number a
            node (-1 for none), or a row of zeros and ones a node for several labels at once. A
            PyG dataset such as ``PPI(root, split="train")`` may be given as it is.
        val: Graphs to validate on.
        test: Graphs to test on.
        normalize: ``"row"``, ``"standard"`` (by the training nodes) or ``"none"``.
        name: A name for the record, ``data.dataset``.

    Example:
        >>> graph = load("wine")
        >>> data = unite([graph, graph], [graph], [graph])
        >>> data.graph.bincount().tolist(), int(data.train_mask.sum())
        ([178, 178, 178, 178], 356)

    Raises:
        InputError: If a list is empty, or the graphs do not fit together.
    """
    given = {"train": train, "val": val, "test": test}
    parts = {part: _as_list(listed, part) for part, listed in given.items()}
    graphs = {
        f"{part} graph {number}": graph
        for part, listed in parts.items()
        for number, graph in enumerate(listed)
    }
    unused = [key for key in UNUSED if any(key in graph for graph in graphs.values())]
    if unused:
        warn(f"{' and '.join(unused)} of the graphs are not used")
    stored = {source: _checked(graph, source) for source, graph in graphs.items()}
    pieces, class_names = _pieces(stored)
    rest = iter(pieces)
    raw = join(
        {part: list(islice(rest, len(listed))) for part, listed in parts.items()},
        split="given",
        class_names=class_names,
        feature_source="own",
    )
    for part, mask in raw.masks._asdict().items():
        if not mask.any():
            raise InputError(f"the {part} graphs have no labelled node: label some, or add graphs")
    warn_of_unseen_classes(raw, name)
    return assemble(raw, name=name, normalize=normalize, as_sparse=False)


def _as_list(graphs: Any, part: str) -> list[Data]:
    from torch_geometric.data import Data

    if isinstance(graphs, Data):
        raise InputError(f"{part} must be a list of graphs, not one: write [graph]")
    listed = list(graphs)
    if not listed:
        raise InputError(f"{part} has no graphs: each of train, val and test needs one or more")
    for number, graph in enumerate(listed):
        if not isinstance(graph, Data):
            raise InputError(
                f"{part} graph {number} must be a PyG Data, not a {type(graph).__name__}"
            )
    return listed


class _CheckedGraph(NamedTuple):
    """A checked graph of the caller, its labels a matrix, one column or several."""

    x: Features
    y: npt.NDArray[Any]
    pairs: npt.NDArray[np.int64]


def _checked(graph: Data, source: str) -> _CheckedGraph:
    for key in ("x", "edge_index", "y"):
        if not isinstance(getattr(graph, key, None), torch.Tensor):
            raise InputError(
                f"{source} has no {key}: every graph needs the tensors x, edge_index and y"
            )
    x = numeric_matrix(as_features(graph.x, source), source)
    y = as_array(graph.y, source)
    nodes = x.shape[0]
    if not nodes or y.ndim not in (1, 2) or len(y) != nodes:
        raise InputError(
            f"{source} must have features and labels of the same nodes, but x is "
            f"{tuple(x.shape)} and y is {tuple(y.shape)}"
        )
    pairs = checked_pairs(as_array(graph.edge_index, source), nodes, source)
    return _CheckedGraph(x, y.reshape(nodes, -1), pairs)


def _pieces(stored: dict[str, _CheckedGraph]) -> tuple[list[Piece], tuple[str, ...]]:
    """Return the graphs with labels in one numbering, and the names of the classes."""
    first, reference = next(iter(stored.items()))
    for source, graph in stored.items():
        for word, own, other in (
            ("features", graph.x, reference.x),
            ("labels a node", graph.y, reference.y),
        ):
            if own.shape[1] != other.shape[1]:
                raise InputError(
                    f"{source} has {own.shape[1]} {word}, but {first} has {other.shape[1]}: all "
                    "graphs must have the same"
                )
    together = np.concatenate([graph.y for graph in stored.values()])
    y: AnyLabels
    if together.shape[1] == 1:
        y, class_names = from_numbers(together, len(together), "the graphs")
    else:
        y, class_names = from_matrix(together, len(together), "the graphs")
    stops = np.cumsum([len(graph.y) for graph in stored.values()]).tolist()
    pieces = [
        Piece(graph.x, y[stop - len(graph.y) : stop], graph.pairs)
        for graph, stop in zip(stored.values(), stops, strict=True)
    ]
    return pieces, class_names


@dataclass(frozen=True)
class Piece:
    """One graph of several: checked features, labels, and edges in its own numbering."""

    x: Features
    y: AnyLabels
    pairs: npt.NDArray[np.int64]


def cut(
    x: Features,
    y: AnyLabels,
    pairs: npt.NDArray[np.int64],
    graph: npt.NDArray[np.int64],
    source: object,
) -> list[Piece]:
    """Cut a union into its graphs, in the order of their numbers, nodes in the order given.

    Args:
        x: Features of all nodes.
        y: Labels of all nodes.
        pairs: Listed edges, shape ``[2, E]``.
        graph: The number of the graph that each node belongs to.
        source: The file, for messages.

    Raises:
        InputError: If an edge joins two graphs.
    """
    homes = graph[pairs]
    across = np.flatnonzero(homes[0] != homes[1])
    if len(across):
        (source_node, target_node), (first, second) = pairs[:, across[0]], homes[:, across[0]]
        raise InputError(
            f"{source}: edge {across[0]} joins node {source_node} of graph {first} and node "
            f"{target_node} of graph {second}, but edges stay inside a graph: the files do not "
            "belong together"
        )
    place = np.empty(len(graph), dtype=np.int64)
    pieces = []
    for number in np.unique(graph):
        rows = np.flatnonzero(graph == number)
        place[rows] = np.arange(len(rows))
        pieces.append(Piece(x[rows], y[rows], place[pairs[:, homes[0] == number]]))
    return pieces


def join(
    parts: Mapping[str, Sequence[Piece]],
    *,
    split: str,
    class_names: tuple[str, ...] = (),
    feature_source: str = "published",
) -> RawGraph:
    """Join graphs into a disjoint union; all nodes of a graph have the graph's part.

    Unlabelled nodes are in no part.

    Args:
        parts: The graphs to train, validate and test on, in this order and under these names.
        split: Name of the split.
        class_names: Names of the classes.
        feature_source: Source of the features.
    """
    pieces = [piece for part in parts.values() for piece in part]
    sizes = [len(piece.y) for piece in pieces]
    starts = np.cumsum([0, *sizes[:-1]])
    y = np.concatenate([piece.y for piece in pieces])
    known = labelled(y)
    borders = np.cumsum([sum(len(piece.y) for piece in part) for part in parts.values()])
    part_of = np.searchsorted(borders, np.arange(len(y)), side="right")
    return RawGraph(
        x=_stack([piece.x for piece in pieces]),
        y=y,
        pairs=np.concatenate(
            [piece.pairs + start for piece, start in zip(pieces, starts, strict=True)], axis=1
        ),
        masks=Masks(*((part_of == number) & known for number in range(3))),
        split=split,
        class_names=class_names,
        feature_source=feature_source,
        graph=np.repeat(np.arange(len(pieces)), sizes),
        graph_names=tuple(
            f"{word}-{number}" for word, part in parts.items() for number in range(len(part))
        ),
    )


def _stack(blocks: Sequence[Features]) -> Features:
    if any(sparse.issparse(block) for block in blocks):
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))
    return np.concatenate(blocks)


@dataclass(frozen=True)
class GraphSize:
    """Size of one of several graphs.

    Attributes:
        name: Its name.
        nodes: Number of nodes.
        edges: Number of undirected edges.
        parts: Parts that its labelled nodes are in: ``train``, ``val``, ``test``.
    """

    name: str
    nodes: int
    edges: int
    parts: tuple[str, ...]

    def __str__(self) -> str:
        words = f"{self.name}: {self.nodes:,} nodes, {self.edges:,} edges"
        return f"{words} ({', '.join(self.parts)})" if self.parts else words


def graph_sizes(data: Data) -> list[GraphSize]:
    """Return name, size and parts of every graph in ``data``; empty where it is one graph.

    Args:
        data: As :func:`drgcn.load` returns it; several graphs have ``graph`` and ``graph_names``.
    """
    if "graph" not in data:
        return []
    count = int(data.graph.max()) + 1
    names = data.get("graph_names") or [f"graph {number}" for number in range(count)]
    nodes = data.graph.bincount(minlength=count).tolist()
    edges = data.graph[data.edge_index[0]].bincount(minlength=count).tolist()
    used = {
        part: set(data.graph[data[f"{part}_mask"]].tolist()) for part in ("train", "val", "test")
    }
    return [
        GraphSize(
            names[number],
            nodes[number],
            edges[number] // 2,
            tuple(part for part, graphs in used.items() if number in graphs),
        )
        for number in range(count)
    ]
