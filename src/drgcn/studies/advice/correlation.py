"""Correlation over observations that come in clusters, each cluster counting once.

Splits of one dataset are no independent witnesses, nor are its raw and its standardised features:
a cluster is a dataset, and its observations share a weight of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

Array = npt.NDArray[np.float64]

DRAWS = 10_000
FEWEST = 3


@dataclass(frozen=True)
class Correlation:
    """How two quantities go together over clusters.

    Attributes:
        observations: Number of observations.
        clusters: Number of clusters.
        spearman: Rank correlation; ties have the mean of their ranks.
        low: Lower end of its 95 % interval, by drawing clusters with replacement.
        high: Upper end.
        p: Share of permutations with a rank correlation at least as far from zero.
        pearson: Correlation of the values themselves.
        without: The rank correlation when one cluster is left out, by its name; NaN if nothing
            varies without it.
        pearson_without: The same for the correlation of the values.
    """

    observations: int
    clusters: int
    spearman: float
    low: float
    high: float
    p: float
    pearson: float
    without: dict[str, float]
    pearson_without: dict[str, float]

    @property
    def weightiest(self) -> str:
        """The cluster without which the rank correlation changes most, or is gone."""
        return _farthest(self.without, self.spearman)

    @property
    def pearson_weightiest(self) -> str:
        """The same for the correlation of the values."""
        return _farthest(self.pearson_without, self.pearson)


def correlate(
    x: Sequence[float],
    y: Sequence[float],
    clusters: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Correlation:
    """The correlation of ``x`` and ``y``, with an interval and a p-value that respect clusters.

    Permutations move the ``x`` of a whole cluster, in order, to another cluster of as many
    observations. That is exact if clusters of a size may be exchanged; one that is alone in its
    size keeps its place.

    Args:
        x: One number per observation.
        y: The other.
        clusters: Name of the cluster of each observation.
        draws: Bootstrap samples, and permutations.
        seed: Of the draws.

    Example:
        >>> found = correlate([1, 2, 3, 4, 5], [2, 4, 5, 9, 7], list("abcde"), draws=100)
        >>> round(found.spearman, 3), found.clusters
        (0.9, 5)
    """
    a, b, names = np.asarray(x, float), np.asarray(y, float), np.asarray(clusters)
    kinds, member = np.unique(names, return_inverse=True)
    if not len(a) == len(b) == len(names) or len(kinds) < FEWEST:
        raise InputError(
            f"Expected as many x, y and clusters, and {FEWEST} clusters or more; found {len(a)}, "
            f"{len(b)}, {len(names)} of {len(kinds)} clusters."
        )
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        raise InputError("Expected x and y that vary; found one that is the same everywhere.")
    weight = 1 / np.bincount(member)[member]
    spearman = float(_spearman(a, b, weight[None])[0])
    draw = np.random.default_rng(seed)
    resampled = _spearman(a, b, cluster_resamples(member, draws, draw) * weight)
    low, high = np.nanquantile(resampled, [0.025, 0.975])  # nothing varies in a few of them
    ranks_a, ranks_b = (_ranks(values, weight[None])[0] for values in (a, b))
    moved = [ranks_a[order] for order in cluster_permutations(member, draws, draw)]
    null = _pearson(np.array(moved), ranks_b[None], weight[None])
    beyond = int((np.abs(null) >= abs(spearman) - 1e-12).sum())
    left_out = (1.0 - np.eye(len(kinds))[:, member]) * weight
    without = {"ranks": _spearman(a, b, left_out), "values": _pearson(a[None], b[None], left_out)}
    by_name = {
        kind: dict(zip(kinds.tolist(), found.tolist(), strict=True))
        for kind, found in without.items()
    }
    return Correlation(
        observations=len(a),
        clusters=len(kinds),
        spearman=spearman,
        low=float(low),
        high=float(high),
        p=(1 + beyond) / (1 + draws),
        pearson=float(_pearson(a[None], b[None], weight[None])[0]),
        without=by_name["ranks"],
        pearson_without=by_name["values"],
    )


def cluster_resamples(
    member: npt.NDArray[np.int64], draws: int, draw: np.random.Generator
) -> Array:
    """How often each observation is in each bootstrap sample, ``[draws, n]``: clusters are drawn
    with replacement, and come with all their observations."""
    kinds = int(member.max()) + 1
    counts = draw.multinomial(kinds, np.full(kinds, 1 / kinds), size=draws)
    return counts[:, member].astype(float)


def cluster_permutations(
    member: npt.NDArray[np.int64], draws: int, draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Orders of the observations, ``[draws, n]``, that exchange whole clusters of one size."""
    places = [np.flatnonzero(member == kind) for kind in range(int(member.max()) + 1)]
    orders = np.tile(np.arange(len(member)), (draws, 1))
    for size in sorted({len(place) for place in places}):
        alike = np.array([place for place in places if len(place) == size])
        shuffled = draw.permuted(np.tile(np.arange(len(alike)), (draws, 1)), axis=1)
        orders[:, alike.ravel()] = alike[shuffled].reshape(draws, -1)
    return orders


def holm(p: Sequence[float]) -> list[float]:
    """P-values corrected for looking several times, by Holm's method."""
    order = np.argsort(p, kind="stable")
    raised = np.asarray(p, float)[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(value) for value in corrected]


def _farthest(values: dict[str, float], whole: float) -> str:
    changes = {name: abs(value - whole) for name, value in values.items()}
    return max(changes, key=lambda name: np.nan_to_num(changes[name], nan=np.inf))


def _spearman(a: Array, b: Array, weights: Array) -> Array:
    return _pearson(_ranks(a, weights), _ranks(b, weights), weights)


def _ranks(values: Array, weights: Array) -> Array:
    """Weight of what is smaller and half the weight of what is equal, ``[draws, n]``: linear in
    the weights, so that all bootstrap samples are one product."""
    below = (values[:, None] > values).astype(float) + 0.5 * (values[:, None] == values)
    return weights @ below.T


def _pearson(a: Array, b: Array, weights: Array) -> Array:
    total = weights.sum(-1, keepdims=True)
    a = a - (weights * a).sum(-1, keepdims=True) / total
    b = b - (weights * b).sum(-1, keepdims=True) / total
    product = (weights * a * b).sum(-1)
    square = (weights * a * a).sum(-1) * (weights * b * b).sum(-1)
    undefined = np.full(product.shape, np.nan)  # where nothing varies
    return np.divide(product, np.sqrt(square), out=undefined, where=square > 0)
