"""Checks of the features, labels, edges and splits that a file holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn.data.assemble import RawGraph, undirected_keys
from drgcn.data.features import Features, numeric_matrix
from drgcn.data.splits import SEEDED, AnyLabels, Labels, Mask, Masks, MultiLabels, draw, labelled
from drgcn.errors import InputError, warn

# Words that programs write for a value they do not have.
_UNKNOWN: Final = ("nan", "na", "n/a", "#n/a", "<na>", "null")
_INTEGER: Final = re.compile(r"[-+]?\d{1,400}", re.ASCII)
_WHOLE: Final = re.compile(r"^(-?\d+)\.0*$", re.ASCII)


@dataclass(frozen=True)
class Columns:
    """Names of columns or arrays of a user's own data that have a meaning of their own.

    Attributes:
        target: Measured values to predict.
        identity: What says which thing a node is.
    """

    target: str | None = None
    identity: str | None = None

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Meaning and name of those that are given."""
        pairs = (("identity", self.identity), ("target", self.target))
        return tuple((meaning, name) for meaning, name in pairs if name is not None)


@dataclass(frozen=True)
class Parts:
    """A graph as found in a file, not checked yet.

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
        weight: Weight of each listed edge; ``None`` where edges have none.
        measured: Whether ``y`` holds measurements ``[nodes, values]``, NaN where they are unknown.
        edge_source: The file of the edges, if it is another.
        identity: For each node a number or word, equal for nodes that are the same thing.
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
    weight: npt.NDArray[Any] | None = None
    measured: bool = False
    edge_source: str | None = None
    identity: npt.NDArray[Any] | None = None

    def node(self, index: int) -> str:
        """Name a node for a message."""
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
    """Check a graph and choose its split; a mistake is one sentence in an ``InputError``.

    Args:
        parts: The content of a file.
        split: A split of the file, ``random``, ``random-60``, or ``None`` for the file's first
            split and else ``random-60``.
        split_seed: Seed of a random split.
        require_labels: Whether a graph without labels is an error; if not, its masks are empty.
        counts: Training and validation nodes per class of ``random``.
        feature_source: Source of the features, for the record.
    """
    x = numeric_matrix(parts.x, parts.source)
    nodes, columns = x.shape
    if not nodes or not columns:
        raise InputError(
            f"{parts.source}: a graph needs nodes and features, but the feature matrix is "
            f"{nodes} x {columns}"
        )
    pairs = checked_pairs(parts.pairs, nodes, parts.source)
    name, masks, seed = _choose_split(parts, split, split_seed, require_labels, counts)
    raw = RawGraph(
        x=x,
        y=parts.y,
        pairs=pairs,
        masks=masks,
        split=name,
        split_seed=seed,
        class_names=parts.class_names,
        feature_source=feature_source,
        graph=_checked_graph(parts, pairs),
        graph_names=parts.graph_names,
        weight=_checked_weight(parts, pairs),
        measured=parts.measured,
        identity=None
        if parts.identity is None
        else identity_numbers(parts.identity, nodes, parts.source),
    )
    if not parts.measured:
        warn_of_unseen_classes(raw, parts.source)
    return raw


def with_values(parts: Parts, values: npt.NDArray[Any], target: str) -> Parts:
    """Return a graph whose labels are measurements, NaN where they are not known."""
    nodes = len(parts.y)
    fits = values.ndim in (1, 2) and len(values) == nodes and values[:1].size
    if not fits or values.dtype.kind not in "biuf":
        raise InputError(
            f"{parts.source}: expected {target!r} to hold a number for each of the {nodes} nodes, "
            f"or several; found {values.dtype} of shape {values.shape}. Choose another target."
        )
    with np.errstate(over="ignore"):
        y = values.reshape(nodes, -1).astype(np.float32)
    if np.isinf(y).any():
        row = int(np.isinf(y).any(axis=1).argmax())
        raise InputError(
            f"{parts.source}: expected finite numbers as {target!r}; found {values[row]} at "
            f"{parts.node(row)}. Correct it, or leave it out."
        )
    names = (target,) if y.shape[1] == 1 else tuple(f"{target} {i}" for i in range(y.shape[1]))
    return replace(parts, y=y, class_names=names, measured=True)


def identity_numbers(values: npt.NDArray[Any], nodes: int, source: str) -> npt.NDArray[np.int64]:
    """Return a number a node, equal for nodes that are the same thing, -1 where not known.

    Args:
        values: Whole numbers, -1 where not known, or words, empty where not known.
        nodes: Number of nodes.
        source: The file, for messages.
    """
    if values.shape != (nodes,) or values.dtype.kind not in "iuUS":
        raise InputError(
            f"{source}: expected a whole number or a word for each of the {nodes} nodes, which "
            f"says what thing it is; found {values.dtype} of shape {values.shape}. Give one a "
            "node, -1 or nothing where it is not known."
        )
    if values.dtype.kind == "i":
        return values.astype(np.int64)
    words, numbers = np.unique(values, return_inverse=True)
    if values.dtype.kind in "US":
        words, again = np.unique(np.char.strip(words.astype(np.str_)), return_inverse=True)
        numbers = again[numbers]
        lacking = [word for word in words.tolist() if word.lower() in _UNKNOWN]
        if lacking:
            raise InputError(
                f"{source}: expected nothing where it is not known what thing a node is; found "
                f"{lacking[0]!r}, which would be a thing of its own. Leave it empty."
            )
        numbers = np.where((words == "")[numbers], -1, numbers)
    return numbers.astype(np.int64)


def _checked_graph(parts: Parts, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
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
    if graph.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(f"{parts.source}: graph holds {graph.max()}: number the graphs from 0 on")
    return graph.astype(np.int64)


def _checked_weight(parts: Parts, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    """Return the weights of the listed edges; ``None`` if all are one, which says nothing."""
    if parts.weight is None:
        return None
    source = parts.edge_source or parts.source
    given = parts.weight[:, 0] if parts.weight.shape[1:] == (1,) else parts.weight
    if given.shape != pairs.shape[1:] or given.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: expected a number as the weight of each of the {pairs.shape[1]} "
            f"edges; found {given.dtype} of shape {given.shape}. Give each a weight, or none."
        )
    with np.errstate(over="ignore"):
        weight = given.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if len(wrong):
        raise InputError(
            f"{source}: expected edge weights that are finite and not negative; found "
            f"{given[wrong[0]]} between {parts.node(pairs[0, wrong[0]])} and "
            f"{parts.node(pairs[1, wrong[0]])}. Models divide by sums of weights: shift or drop "
            "them."
        )
    if (weight == 1).all():
        return None
    if parts.graph is not None:
        warn(f"{source}: edge weights are not used where there are several graphs")
        return None
    keys = undirected_keys(pairs, len(parts.y))
    keys[pairs[0] == pairs[1]] = -1  # loops are taken away
    order = np.argsort(keys, kind="stable")
    unequal = np.flatnonzero(
        (np.diff(keys[order]) == 0) & (np.diff(weight[order]) != 0) & (keys[order][1:] >= 0)
    )
    if len(unequal):
        first, second = order[unequal[0]], order[unequal[0] + 1]
        raise InputError(
            f"{source}: expected one weight for the edge between "
            f"{parts.node(pairs[0, first])} and {parts.node(pairs[1, first])}, in either "
            f"direction and however often it is listed; found {weight[first]:g} and "
            f"{weight[second]:g}. Graphs are undirected here: add or average the weights first."
        )
    return weight


def _choose_split(
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
    if classes < 2 and require_labels and not parts.measured:
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


def warn_of_unseen_classes(raw: RawGraph, source: str) -> None:
    """Warn if test nodes have a class that no training node has.

    Args:
        raw: A graph with its class names and its split.
        source: The file, for the message.
    """
    unseen = np.flatnonzero(_present(raw, raw.masks.test) & ~_present(raw, raw.masks.train))
    if len(unseen):
        names = [raw.class_names[label] for label in unseen[:5]]
        listed = ", ".join(names) + (", ..." if len(unseen) > 5 else "")
        warn(
            f"{source}: test nodes have classes that no training node has ({listed}), so no model "
            "can learn them: choose another split, or merge or leave out these classes"
        )


def _present(raw: RawGraph, mask: Mask) -> Mask:
    y = raw.y[mask]
    if y.ndim == 2:
        return np.asarray(y.any(axis=0))
    return np.isin(np.arange(len(raw.class_names)), y)


def checked_pairs(pairs: npt.NDArray[Any], nodes: int, source: str) -> npt.NDArray[np.int64]:
    """Return listed edges, shape ``[2, E]``, after checking that they join known nodes."""
    if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
        raise InputError(
            f"{source}: edge_index must be whole numbers of shape [2, edges], but it is "
            f"{pairs.dtype} of shape {tuple(pairs.shape)}"
        )
    if not pairs.size:  # of whatever type, even of words
        return np.empty((2, 0), dtype=np.int64)
    outside = np.argwhere((pairs < 0) | (pairs >= nodes))
    if len(outside):
        end, edge = outside[0]
        raise InputError(
            f"{source}: edge {edge} names node {pairs[end, edge]}, but the {nodes} nodes "
            f"are 0 to {nodes - 1}"
        )
    return pairs.astype(np.int64)


def masks_from_words(words: Sequence[str], source: str, ids: Sequence[str] | None) -> Masks:
    """Build masks from one of the words ``train``, ``val``, ``test`` or nothing per node."""
    array = np.array([word.lower() for word in words], dtype=np.str_)
    unknown = np.flatnonzero(~np.isin(array, ("train", "val", "test", "")))
    if len(unknown):
        row = int(unknown[0])
        who = f"node {row}" if ids is None else f"node {ids[row]!r}"
        raise InputError(
            f"{source}: split must be train, val, test or empty, but {who} has {words[row]!r}"
        )
    return Masks(array == "train", array == "val", array == "test")


def from_published(labels: npt.NDArray[Any], source: str) -> Labels:
    """Return class numbers from numbers or one-hot rows, of which a zero row is unlabelled."""
    if labels.dtype.kind not in "biuf":
        pass
    elif labels.ndim == 1:
        with np.errstate(invalid="ignore"):  # of NaN, which is no number below
            numbers = labels.astype(np.int64)
        if (numbers == labels).all() and (numbers >= -1).all():
            return numbers
    elif (
        labels.ndim == 2
        and labels.shape[1]
        and np.isin(labels, (0, 1)).all()
        and (labels.sum(axis=1) <= 1).all()
    ):
        return np.where(labels.any(axis=1), labels.argmax(axis=1), -1).astype(np.int64)
    raise InputError(
        f"{source} must hold one class number or one one-hot row per node, but it holds an array "
        f"of shape {labels.shape} that is neither: fetch the file again"
    )


def from_texts(texts: Sequence[str], source: str = "the labels") -> tuple[Labels, tuple[str, ...]]:
    """Return class numbers and names from words; the empty word is an unlabelled node.

    Classes are numbered in sorted order: by value if every word is an integer, else as text. A
    whole number is the same class with a decimal point as without.
    """
    texts = [_WHOLE.sub(r"\1", text.strip()) for text in texts]
    words = set(texts) - {""}
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise InputError(f"{source}: expected labels of whole characters; found halves.") from None
    unknown = sorted(word for word in words if word.lower() in _UNKNOWN)
    # As in files of numbers, where -1 is a node without a label; -1 and 1 are two classes.
    if "-1" in words and words != {"-1", "1"} and all(map(_INTEGER.fullmatch, words)):
        unknown.append("-1")
    if unknown:
        raise InputError(
            f"{source}: expected no label at all where it is not known; found {unknown[0]!r}, "
            "which would be a class of its own. Leave it empty, or give the class another name."
        )
    measured = _measured_value(words)
    if measured is not None:
        raise InputError(
            f"{source}: labels must be classes, but they are {len(words)} numbers such as "
            f"{measured}, which look measured: give class labels, whole numbers or words, or name "
            "the values of a regression with --target"
        )
    alike = sorted(words, key=lambda word: (word.casefold(), word))
    for one, other in pairwise(alike):
        if one.casefold() == other.casefold():
            warn(
                f"{source}: the labels {one!r} and {other!r}, alike but for case, are two classes"
            )
    numbers = all(map(_INTEGER.fullmatch, words))
    ordered = sorted(words, key=lambda word: (int(word), word) if numbers else (0, word))
    number = {word: label for label, word in enumerate(ordered)} | {"": -1}
    return np.array([number[text] for text in texts], dtype=np.int64), tuple(ordered)


def _measured_value(words: set[str]) -> str | None:
    """Return a word that is no whole number, if all words are numbers."""
    try:
        values = {word: float(word) for word in sorted(words)}
    except ValueError:
        return None
    return next((word for word, value in values.items() if value % 1 != 0), None)


def from_numbers(
    values: npt.NDArray[Any], nodes: int, source: str
) -> tuple[Labels, tuple[str, ...]]:
    """Return class numbers and names from integers, of which -1 is an unlabelled node."""
    if values.shape == (nodes, 1):
        values = values[:, 0]
    if values.shape != (nodes,):
        raise InputError(
            f"{source}: y must hold one class number for each of the {nodes} nodes, or zeros and "
            f"ones of which some node has two, but its shape is {values.shape}: of one-hot rows "
            f"take y.argmax(1)"
        )
    if values.dtype.kind in "US":
        return from_texts([str(value) for value in values.astype(np.str_)], source)
    if values.dtype == np.float16:  # which does not reach to 2**31
        values = values.astype(np.float32)
    if values.dtype.kind not in "biu" and not (
        values.dtype.kind == "f" and (np.abs(values) < 2**31).all() and (values % 1 == 0).all()
    ):
        raise InputError(
            f"{source}: y must hold whole numbers or words, but it holds {values.dtype} values: "
            "write -1 for nodes without a label, or name measured values with --target"
        )
    if values.dtype == np.uint64 and values.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(
            f"{source}: y holds {values.max()} at node {values.argmax()}, but class numbers fit "
            "into 64 bits with a sign: number the classes from 0 on"
        )
    numbers = values.astype(np.int64)
    if (numbers < -1).any():
        raise InputError(
            f"{source}: y holds {int(numbers.min())} at node {int(numbers.argmin())}, but class "
            "numbers start at 0, and -1 means no label"
        )
    if set(np.unique(numbers).tolist()) == {-1, 1}:
        raise InputError(
            f"{source}: y holds only -1 and 1, but -1 means no label: write the two classes as "
            "0 and 1"
        )
    known = np.unique(numbers[numbers >= 0])
    y = np.where(numbers >= 0, np.searchsorted(known, numbers), -1).astype(np.int64)
    return y, tuple(str(value) for value in known)


def from_matrix(
    values: npt.NDArray[Any], nodes: int, source: str
) -> tuple[MultiLabels, tuple[str, ...]]:
    """Return several labels a node as a row of zeros and ones each, and names of the columns."""
    shape = values.shape
    if values.ndim != 2 or shape[0] != nodes or shape[1] < 2 or values.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: several labels a node are a row of zeros and ones for each of the {nodes} "
            f"nodes, but these are {values.dtype} values of shape {shape}"
        )
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"{source}: labels must be zeros and ones, but node {row} has {values[row, column]} "
            f"at label {column}"
        )
    return values.astype(np.float32), tuple(str(label) for label in range(shape[1]))


def from_stored(
    values: npt.NDArray[Any], nodes: int, source: str, *, multi_label: bool = False
) -> tuple[AnyLabels, tuple[str, ...]]:
    """Return labels of a user's file: one class a node, or zeros and ones for several labels.

    A matrix holds several labels if ``multi_label`` says so or a node has two of them: where no
    node has, it may be one-hot rows as well, and guessing would change the task.
    """
    matrix = values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "biuf"
    if matrix and (
        multi_label or (np.isin(values, (0, 1)).all() and (values.sum(axis=1) > 1).any())
    ):
        return from_matrix(values, nodes, source)
    return from_numbers(values, nodes, source)
