"""Features that give the class away, against what chance alone would do."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.leaks.binning import Groups
from drgcn.audit.leaks.mutual_information import (
    Counts,
    entropy,
    group_counts,
    information_of_counts,
    mutual_information,
)
from drgcn.audit.leaks.telling_feature import TellingFeature
from drgcn.data.features import Features
from drgcn.data.splits import Labels, Mask
from drgcn.errors import InputError

_BIT: Final = log(2)
# Columns and numbers of a block of counts: memory stays bounded whatever the data.
_COLUMNS: Final = 512
_COUNTS: Final = 1 << 23


@dataclass(frozen=True)
class TellingFeatures:
    """The features whose information on the class is more than chance.

    Attributes:
        found: They, the most telling of a class first.
        threshold: Least mutual information that counts, in bits.
        rate: Chance that any feature passes where none says anything of the class.
        permutations: How many times the labels were shuffled.
        information: Mutual information of every feature with the class, in bits.
        entropy: What there is to know of the class, in bits.
        nodes: How many labelled nodes were looked at.
    """

    found: tuple[TellingFeature, ...]
    threshold: float
    rate: float
    permutations: int
    information: npt.NDArray[np.float64]
    entropy: float
    nodes: int


def telling_features(
    x: Features,
    y: Labels,
    mask: Mask | None = None,
    *,
    rate: float = 0.05,
    permutations: int = 199,
    bins: int = 8,
    most_nodes: int = 20_000,
    seed: int = 0,
) -> TellingFeatures:
    """Test every feature for mutual information with the class.

    Labels are shuffled among the nodes again and again, and each time the largest information
    of all features is kept. A feature passes if it says more than all but a share ``rate`` of
    these. So the chance that any feature passes by luck, all features together, is at most
    ``rate``, exactly and for any data. Values are grouped by
    :meth:`drgcn.audit.leaks.binning.Groups.of`.

    Args:
        x: Features, an array or a sparse array.
        y: Class numbers, -1 where there is none.
        mask: The nodes whose labels may be seen, such as the training nodes. All if not given.
        rate: Chance of any false alarm.
        permutations: How many times labels are shuffled.
        bins: Groups that a column of many values is cut into.
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
        groups = Groups.of(chosen[:, start : start + _COLUMNS], bins)
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
        _told(column, information[column], *_counts_of(details, column), classes)
        for column in np.flatnonzero(information > threshold).tolist()
    ]
    found.sort(key=lambda feature: (-feature.share, feature.column))
    return TellingFeatures(
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
    if not np.isfinite(x.data if sparse.issparse(x) else x).all():
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


def _told(
    column: int, information: float, inside: Counts, whole: Counts, classes: Labels
) -> TellingFeature:
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
    return TellingFeature(
        column=column,
        information=float(information / _BIT),
        label=int(classes[label]),
        share=float(max(shares[label], 0.0)),
        precision=float(inside[group, label] / sizes[group]),
        recall=float(inside[group, label] / whole[label]),
    )
