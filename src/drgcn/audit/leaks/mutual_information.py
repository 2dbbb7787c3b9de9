"""What groups of nodes say of their classes, for many columns and many labellings at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from drgcn.audit.leaks.binning import Groups

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def mutual_information(groups: Groups, labellings: npt.NDArray[Any], classes: int) -> Floats:
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


def group_counts(groups: Groups, labellings: npt.NDArray[Any], classes: int) -> Counts:
    """How many nodes of each class are in each group, ``[groups, labellings, classes]``.

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
