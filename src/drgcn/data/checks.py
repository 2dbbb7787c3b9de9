"""What every graph of a user's own must satisfy, whichever file it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from drgcn.data.assemble import RawGraph
from drgcn.data.features import Features
from drgcn.data.npz import numeric_matrix
from drgcn.data.splits import SEEDED, AnyLabels, Masks, draw, labelled
from drgcn.data.unseen import warn_of_unseen_classes
from drgcn.errors import InputError


@dataclass(frozen=True)
class Parts:
    """A graph as found in a file, not judged yet.

    Attributes:
        source: The file, for messages.
        x: Features.
        pairs: Listed edges.
        y: Labels, -1 where there is none; zeros and ones for several labels a node.
        class_names: Names of the classes.
        splits: Splits that the file brings along, the default first.
        ids: The user's names of the nodes, for messages; numbers if there are none.
        graph: For a union of graphs, the graph that each node belongs to.
        graph_names: Names of these graphs.
    """

    source: str
    x: Features
    pairs: npt.NDArray[Any]
    y: AnyLabels
    class_names: tuple[str, ...]
    splits: Mapping[str, Masks] = field(default_factory=dict)
    ids: Sequence[str] | None = None
    graph: npt.NDArray[Any] | None = None
    graph_names: tuple[str, ...] = ()

    def node(self, index: int) -> str:
        """How to call a node in a message."""
        return f"node {index}" if self.ids is None else f"node {self.ids[index]!r}"


def checked(
    parts: Parts,
    split: str | None,
    split_seed: int,
    *,
    require_labels: bool = True,
    counts: tuple[int, int] | None = None,
    feature_source: str = "own",
) -> RawGraph:
    """The graph with the chosen split, or one sentence about what is wrong with it.

    Args:
        parts: What a file holds.
        split: A split of the file, ``random``, ``random-60``, or ``None`` for the file's first
            split and else ``random-60``.
        split_seed: Seed of a random split.
        require_labels: Whether a graph without labels is an error; if not, its masks are empty.
        counts: Training and validation nodes per class of ``random``.
        feature_source: Where the features come from, for the record.
    """
    x = numeric_matrix(parts.x, parts.source)
    nodes, columns = x.shape
    if not nodes or not columns:
        raise InputError(
            f"{parts.source}: a graph needs nodes and features, but the feature matrix is "
            f"{nodes} x {columns}"
        )
    pairs = checked_pairs(parts.pairs, nodes, parts.source)
    name, masks, seed = _split(parts, split, split_seed, require_labels, counts)
    raw = RawGraph(
        x=x,
        y=parts.y,
        pairs=pairs,
        masks=masks,
        split=name,
        split_seed=seed,
        class_names=parts.class_names,
        feature_source=feature_source,
        graph=_graph(parts, pairs),
        graph_names=parts.graph_names,
    )
    warn_of_unseen_classes(raw, parts.source, stacklevel=4)
    return raw


def masks_from_words(words: Sequence[str], source: str, ids: Sequence[str] | None) -> Masks:
    """Masks from one of ``train``, ``val``, ``test`` or nothing per node."""
    array = np.array([word.lower() for word in words], dtype=np.str_)
    unknown = np.flatnonzero(~np.isin(array, ("train", "val", "test", "")))
    if len(unknown):
        row = int(unknown[0])
        who = f"node {row}" if ids is None else f"node {ids[row]!r}"
        raise InputError(
            f"{source}: split must be train, val, test or empty, but {who} has {words[row]!r}"
        )
    return Masks(array == "train", array == "val", array == "test")


def checked_pairs(pairs: npt.NDArray[Any], nodes: int, source: str) -> npt.NDArray[np.int64]:
    """Listed edges as whole numbers below ``nodes``, shape ``[2, E]``."""
    if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
        raise InputError(
            f"{source}: edge_index must be whole numbers of shape [2, edges], but it is "
            f"{pairs.dtype} of shape {tuple(pairs.shape)}"
        )
    outside = np.argwhere((pairs < 0) | (pairs >= nodes))
    if len(outside):
        end, edge = outside[0]
        raise InputError(
            f"{source}: edge {edge} names node {pairs[end, edge]}, but the {nodes} nodes "
            f"are 0 to {nodes - 1}"
        )
    return pairs.astype(np.int64)


def _graph(parts: Parts, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    graph = parts.graph
    if graph is None:
        return None
    if graph.shape != parts.y.shape[:1] or graph.dtype.kind not in "iu":
        raise InputError(
            f"{parts.source}: graph must hold the number of its graph for each of the "
            f"{len(parts.y)} nodes, but it is {graph.dtype} of shape {graph.shape}"
        )
    across = np.flatnonzero(graph[pairs[0]] != graph[pairs[1]])
    if len(across):
        raise InputError(
            f"{parts.source}: edge {across[0]} joins two graphs, but by 'graph' each node belongs "
            "to a graph of its own: drop 'graph' if that is not what it means"
        )
    return graph.astype(np.int64)


def _split(
    parts: Parts,
    split: str | None,
    seed: int,
    require_labels: bool,
    counts: tuple[int, int] | None,
) -> tuple[str, Masks, int | None]:
    classes = len(parts.class_names)
    if not labelled(parts.y).any() and not require_labels:
        nobody = np.zeros(len(parts.y), dtype=np.bool_)
        return "none", Masks(nobody, nobody.copy(), nobody.copy()), None
    if classes < 2 and require_labels:
        found = "none" if not classes else f"only {parts.class_names[0]!r}"
        raise InputError(
            f"{parts.source}: labels of at least two classes are needed, but there is {found}: "
            "label the nodes you know"
        )
    name = split if split is not None else next(iter(parts.splits), "random-60")
    if name in parts.splits:
        _check_masks(parts, name)
        return name, parts.splits[name], None
    if name in SEEDED:
        return name, draw(name, parts.y, seed, counts), seed
    known = ", ".join([*parts.splits, *SEEDED])
    raise InputError(f"{parts.source} has no split {name!r}: choose one of {known}")


def _check_masks(parts: Parts, name: str) -> None:
    named = parts.splits[name]._asdict()
    for word, mask in named.items():
        if not mask.any():
            raise InputError(
                f"{parts.source}: the {word} part of the split is empty: give it nodes, or leave "
                "the split out for a random one"
            )
        nameless = np.flatnonzero(mask & ~labelled(parts.y))
        if len(nameless):
            raise InputError(
                f"{parts.source}: {parts.node(int(nameless[0]))} is in the {word} part but has no "
                "label: label it or take it out of the split"
            )
    for (first, mask), (second, other) in combinations(named.items(), 2):
        both = np.flatnonzero(mask & other)
        if len(both):
            raise InputError(
                f"{parts.source}: {parts.node(int(both[0]))} is in both the {first} and the "
                f"{second} part: each node belongs to one"
            )
