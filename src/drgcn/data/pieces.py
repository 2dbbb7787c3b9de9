"""Several graphs as one: cut a union into its graphs, or join graphs into a union."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.assemble import RawGraph
from drgcn.data.features import Features
from drgcn.data.splits import AnyLabels, Masks, labelled
from drgcn.errors import InputError


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
    """The graphs of a union in the order of their numbers, their nodes in the order given.

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
    """The disjoint union; the nodes of a graph are together, and all have the graph's part.

    Unlabelled nodes are in no part.

    Args:
        parts: The graphs to train, validate and test on, in this order and under these names.
        split: Name of the split.
        class_names: Names of the classes.
        feature_source: Where the features come from.
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
