"""Features that predict the class: mutual information against shuffled labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import floor, log
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.finding import Finding, Severity, not_done
from drgcn.audit.graph_view import GraphView, is_finite
from drgcn.data.features import Features
from drgcn.data.splits import Labels, Mask
from drgcn.errors import InputError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# A column with so few values keeps them; one with more is cut.
_FEW_VALUES: Final = 16
_BIT: Final = log(2)
# Columns and numbers of a block of counts: memory stays bounded whatever the data.
_COLUMNS: Final = 512
_COUNTS: Final = 1 << 23
_SHOWN: Final = 20
# How much of whether a node is of a class a feature must settle to be more than a note: less if
# it is a word of a class name, since a strong feature need not be a leak.
_LABEL_WORD: Final = 0.25
_WARNING: Final = 0.8
_SERIOUS: Final = 0.95


def predictive_finding(
    view: GraphView,
    class_names: Sequence[str],
    feature_names: Sequence[str | None] | None = None,
    label_columns: Collection[int] = (),
    labels: Literal["all", "train"] = "all",
    seed: int = 0,
) -> Finding:
    """Test every feature, and list the most predictive ones.

    Args:
        view: The graph.
        class_names: One name per class.
        feature_names: One word per column, if they are known.
        label_columns: Columns that are named after a word of a class name.
        labels: Whose labels may be seen.
        seed: Seed of the permutations.
    """
    name = "features that give the class away"
    mask = view.mask("train") if labels == "train" else None
    try:
        result = predictive_features(view.x, view.y, mask, seed=seed)  # type: ignore[arg-type]
    except InputError as error:
        return not_done(name, error)
    strongest = result.found[0] if result.found else None
    summary = "No feature says more of the class than chance."
    if strongest is not None:
        word = feature_names[strongest.column] if feature_names is not None else None
        summary = (
            f"{len(result.found):,} of {len(result.information):,} features say more of the class "
            f"than chance; column {strongest.column}{f' ({word})' if word else ''} alone settles "
            f"{100 * strongest.share:.0f} % of whether a node is "
            f"{_class_name(class_names, strongest.label)}."
        )
    seen = "training nodes" if labels == "train" else "all labelled nodes"
    return Finding(
        name=name,
        severity=_severity(result, label_columns),
        summary=summary,
        definition="Mutual information of each feature (zero or not, or cut into groups) with the "
        f"class over {seen}, against the largest of all features when labels are "
        f"shuffled {result.permutations} times: the chance of any false alarm is at most "
        f"{result.rate:g}. A feature may say much because it is good, not because it leaks: look "
        f"at the words. A warning if it settles {100 * _WARNING:.0f} % of whether a node is of a "
        f"class, {100 * _LABEL_WORD:.0f} % for a word of a class name; serious from "
        f"{100 * _SERIOUS:.0f} % on.",
        numbers={
            "found": len(result.found),
            "features": len(result.information),
            "threshold in bits": result.threshold,
            "entropy of the class in bits": result.entropy,
            "rate of false alarms": result.rate,
            "permutations": result.permutations,
            "nodes": result.nodes,
            "labels": labels,
        },
        columns=("column", "word", "label word", "bits", "class", "share", "precision", "recall"),
        rows=tuple(
            (
                feature.column,
                (feature_names[feature.column] or "") if feature_names is not None else "",
                feature.column in label_columns,
                round(feature.information, 4),
                _class_name(class_names, feature.label),
                round(feature.share, 4),
                round(feature.precision, 4),
                round(feature.recall, 4),
            )
            for feature in result.found[:_SHOWN]
        ),
    )


def _severity(result: PredictiveFeatures, label_columns: Collection[int]) -> Severity:
    if any(feature.share >= _SERIOUS for feature in result.found):
        return "serious"
    for feature in result.found:
        if feature.share >= (_LABEL_WORD if feature.column in label_columns else _WARNING):
            return "warning"
    return "note" if result.found else "fine"


def _class_name(names: Sequence[str], label: int) -> str:
    return names[label] if label < len(names) else str(label)


@dataclass(frozen=True)
class PredictiveFeature:
    """A feature, and the class that it predicts best.

    Attributes:
        column: Its column.
        information: Mutual information with the class, in bits.
        label: The class that it predicts best.
        share: Share of the entropy of "is of this class" that it removes: 1 if it settles the
            question, 0 if it says nothing.
        precision: Among the nodes in the group of values that fits the class best, the share of
            this class.
        recall: Share of the class that is in this group.
    """

    column: int
    information: float
    label: int
    share: float
    precision: float
    recall: float


@dataclass(frozen=True)
class PredictiveFeatures:
    """The features whose information on the class is more than chance.

    Attributes:
        found: These features, the one that settles most of a class first.
        threshold: Least mutual information that counts, in bits.
        rate: Chance that any feature passes where none says anything of the class.
        permutations: How many times the labels were shuffled.
        information: Mutual information of every feature with the class, in bits.
        entropy: Entropy of the class, in bits.
        nodes: How many labelled nodes were looked at.
    """

    found: tuple[PredictiveFeature, ...]
    threshold: float
    rate: float
    permutations: int
    information: npt.NDArray[np.float64]
    entropy: float
    nodes: int


def predictive_features(
    x: Features,
    y: Labels,
    mask: Mask | None = None,
    *,
    rate: float = 0.05,
    permutations: int = 199,
    bins: int = 8,
    most_nodes: int = 20_000,
    seed: int = 0,
) -> PredictiveFeatures:
    """Test every feature for mutual information with the class.

    Labels are shuffled among the nodes again and again, and each time the largest information
    of all features is kept. A feature passes if it says more than all but a share ``rate`` of
    these. So the chance that any feature passes by luck, all features together, is at most
    ``rate``, exactly and for any data. Values are grouped by
    :meth:`drgcn.audit.leaks.features.ValueGroups.of`.

    Args:
        x: Features, an array or a sparse array.
        y: Class numbers, -1 where there is none.
        mask: The nodes whose labels may be seen, such as the training nodes. All if not given.
        rate: Chance of any false alarm.
        permutations: How many times labels are shuffled.
        bins: ValueGroups that a column of many values is cut into.
        most_nodes: A random choice of so many nodes is enough.
        seed: Seed of shuffling and choice.

    Raises:
        InputError: If features are not finite, fewer than two classes are left, or there are too
            few permutations for ``rate``.
    """
    place = floor(rate * (permutations + 1) + 1e-9)
    if not 0 < rate < 1 or place < 1:
        raise InputError(
            f"Expected a rate between 0 and 1 and at least 1 / rate - 1 permutations; found "
            f"{rate} and {permutations}. Shuffle more often, or allow a higher rate."
        )
    rng = np.random.default_rng(seed)
    rows = _rows(x, y, mask, most_nodes, rng)
    labels = np.unique(y[rows], return_inverse=True)
    classes, codes = labels[0], labels[1].astype(np.int16)
    shuffled = np.stack([rng.permutation(codes) for _ in range(permutations)])
    chosen = sparse.csc_array(x[rows])
    largest = np.zeros(permutations)
    information, details = np.zeros(x.shape[1]), []
    for start in range(0, x.shape[1], _COLUMNS):
        groups = ValueGroups.of(chosen[:, start : start + _COLUMNS], bins)
        counts = group_counts(groups, codes[None], len(classes))
        observed = information_of_counts(counts, groups.starts)[:, 0]
        information[start : start + len(observed)] = observed
        details.append((groups.starts, counts[:, 0]))
        step = max(1, _COUNTS // (max(groups.indicators.shape) * len(classes)))
        for first in range(0, permutations, step):
            part = slice(first, first + step)
            null = mutual_information(groups, shuffled[part], len(classes)).max(axis=0)
            largest[part] = np.maximum(largest[part], null)
    # Rounding must not make a tie with the null a discovery.
    threshold = float(np.sort(largest)[-place]) * (1 + 1e-9)
    found = [
        _predictive(column, information[column], *_counts_of(details, column), classes)
        for column in np.flatnonzero(information > threshold).tolist()
    ]
    found.sort(key=lambda feature: (-feature.share, feature.column))
    return PredictiveFeatures(
        found=tuple(found),
        threshold=threshold / _BIT,
        rate=rate,
        permutations=permutations,
        information=information / _BIT,
        entropy=entropy(np.bincount(codes)) / _BIT,
        nodes=len(rows),
    )


def _rows(
    x: Features, y: Labels, mask: Mask | None, most: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    if y.shape != (x.shape[0],):
        raise InputError(
            f"Expected one class number for each of {x.shape[0]} nodes; found the shape "
            f"{y.shape}. Several labels a node are not tested: give one column of them."
        )
    if not x.shape[1]:
        raise InputError("Expected at least one feature column; found none.")
    if not is_finite(x):
        raise InputError("Expected finite features; found NaN or infinity. Replace them first.")
    seen = (y >= 0) if mask is None else (y >= 0) & mask
    rows = np.flatnonzero(seen)
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    classes = len(np.unique(y[rows]))
    if classes < 2:
        raise InputError(
            f"Expected labels of at least 2 classes; found {classes} among {len(rows)} labelled "
            "nodes. There is nothing to give away."
        )
    return rows


def _counts_of(
    details: list[tuple[npt.NDArray[np.int64], Counts]], column: int
) -> tuple[Counts, Counts]:
    """Counts of a column's groups, the unwritten one last, and of all nodes."""
    starts, counts = details[column // _COLUMNS]
    place = column % _COLUMNS
    end = starts[place + 1] if place + 1 < len(starts) else len(counts) - 1
    inside, whole = counts[starts[place] : end], counts[-1]
    return np.concatenate([inside, (whole - inside.sum(axis=0))[None]]), whole


def _predictive(
    column: int, information: float, inside: Counts, whole: Counts, classes: Labels
) -> PredictiveFeature:
    nodes, sizes = whole.sum(), inside.sum(axis=1)
    shares = []
    for count, all_of_it in zip(inside.T, whole, strict=True):
        left = entropy(np.array([all_of_it, nodes - all_of_it]))
        within = sum(
            size / nodes * entropy(np.array([here, size - here]))
            for here, size in zip(count, sizes, strict=True)
            if size
        )
        shares.append(1 - within / left)
    label = int(np.argmax(shares))
    # Twice the overlap over both sizes: the group that fits the class best.
    fit = 2 * inside[:, label] / (sizes + whole[label])
    group = int(np.argmax(fit))
    return PredictiveFeature(
        column=column,
        information=float(information / _BIT),
        label=int(classes[label]),
        share=float(max(shares[label], 0.0)),
        precision=float(inside[group, label] / sizes[group]),
        recall=float(inside[group, label] / whole[label]),
    )


@dataclass(frozen=True)
class ValueGroups:
    """ValueGroups of values that the nodes are in, for some columns.

    Attributes:
        indicators: ``[nodes, groups]``, one where a node is in a group. Every column has one
            group more that is not written down: the nodes in none of its groups.
        starts: Where the groups of each column begin; every column has at least one.
    """

    indicators: sparse.csc_array
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, x: Features, bins: int = 8) -> ValueGroups:
        """Return the groups of all columns.

        A column that is zero for half of the nodes or more, as word counts are, has two groups:
        zero and not zero. One with at most 16 values has a group for each. Any other is cut at
        its quantiles.

        Args:
            x: Features, an array or a sparse array, all finite.
            bins: How many groups a column is cut into.
        """
        columns = sparse.csc_array(x, copy=True)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        nodes, width = columns.shape
        parts, starts, groups = [], [], 0
        for number in range(width):
            entries = slice(columns.indptr[number], columns.indptr[number + 1])
            rows, values = columns.indices[entries], columns.data[entries]
            starts.append(groups)
            if 2 * len(rows) <= nodes:
                parts.append((rows, np.full(len(rows), groups)))
                groups += 1
                continue
            whole = np.zeros(nodes, dtype=columns.dtype)
            whole[rows] = values
            code = _cut(whole, bins)
            inside = np.flatnonzero(code)
            parts.append((inside, groups + code[inside] - 1))
            groups += max(int(code.max(initial=0)), 1)
        ones = np.ones(sum(len(rows) for rows, _ in parts), dtype=np.float32)
        rows, places = (np.concatenate(part) for part in zip(*parts, strict=True))
        indicators = sparse.csc_array((ones, (rows, places)), shape=(nodes, groups))
        return cls(indicators, np.array(starts, dtype=np.int64))


def _cut(values: npt.NDArray[np.floating], bins: int) -> npt.NDArray[np.int64]:
    """Return the group of each value, from 0."""
    distinct, code = np.unique(values, return_inverse=True)
    if len(distinct) <= _FEW_VALUES:
        return code.astype(np.int64)
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def mutual_information(groups: ValueGroups, labellings: npt.NDArray[Any], classes: int) -> Floats:
    """Mutual information of every column with every labelling, in nats.

    The plug-in estimate: frequencies stand for probabilities. It is above zero by chance, the
    more so the more groups and classes there are, so it means little without a null.

    Args:
        groups: Nodes in groups, column by column.
        labellings: Class of each node, ``[labellings, nodes]``.
        classes: Number of classes.

    Returns:
        ``[columns, labellings]``.
    """
    counts = group_counts(groups, labellings, classes)
    return information_of_counts(counts, groups.starts)


def group_counts(groups: ValueGroups, labellings: npt.NDArray[Any], classes: int) -> Counts:
    """Count the nodes of each class in each group, ``[groups, labellings, classes]``.

    The last group of all holds all nodes.
    """
    number, nodes = labellings.shape
    flags = labellings.T[:, :, None] == np.arange(classes)
    flat = flags.reshape(nodes, number * classes)
    inside = groups.indicators.T @ flat.astype(np.float32)
    counts = np.concatenate([inside, flat.sum(axis=0)[None]])
    return counts.reshape(-1, number, classes).astype(np.int64)


def information_of_counts(counts: Counts, starts: npt.NDArray[np.int64]) -> Floats:
    """Mutual information from :func:`group_counts`; ``[columns, labellings]``."""
    inside, whole = counts[:-1], counts[-1]
    rest = whole - np.add.reduceat(inside, starts, axis=0)
    # n I = sum f(n_gc) - sum f(n_g) - sum f(n_c) + f(n) with f(k) = k log k.
    nodes = int(whole[0].sum())
    f = np.zeros(nodes + 1)
    f[1:] = np.arange(1, nodes + 1) * np.log(np.arange(1, nodes + 1))
    per_group = f[inside].sum(axis=2) - f[inside.sum(axis=2)]
    per_rest = f[rest].sum(axis=2) - f[rest.sum(axis=2)]
    total = np.add.reduceat(per_group, starts, axis=0) + per_rest
    return np.maximum((total - f[whole].sum(axis=1) + f[nodes]) / max(nodes, 1), 0.0)


def entropy(counts: npt.NDArray[np.int64]) -> float:
    """Entropy of frequencies, in nats."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
