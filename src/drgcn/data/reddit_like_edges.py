"""The edges of ``reddit-like``: communities, topics of communities, and hubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

# Share of edges inside a community. Strays, whose label is not their community, bring the share
# of edges between equal labels down to about 0.78.
_INSIDE: Final = 0.875
# Share of the other edges that are drawn among the communities of one topic.
_SAME_TOPIC: Final = 0.5
# Tail exponent of the weights, and their scale before the tail: a few hubs have degrees near
# 20,000 among 232,965 nodes, where the median is 50 and the mean 100.
_TAIL: Final = 1.9
_SCALE: Final = 90.0
# No node chooses more neighbours in its community than this share of it, in expectation.
_REACH: Final = 0.5
# Where a node is chosen, weights count up to this: two hubs cannot be joined twice.
_ORDINARY: Final = 300
_ROUNDS: Final = 100


def popularity(nodes: int) -> Numbers:
    """Weights in ascending order, in sixteenths: quantiles of a Pareto law of the second kind.

    Quantiles instead of draws, so that every seed has the same tail.
    """
    below = np.arange(1, nodes + 1) / (nodes + 1)
    weights = 1.0 + _SCALE * ((1.0 - below) ** (-1.0 / _TAIL) - 1.0)
    # Whole numbers add up exactly, and hide the last bits in which machines may differ.
    return np.rint(16.0 * weights).astype(np.int64)


def draw_edges(
    community: Numbers,
    topic_of: Numbers,
    weight: Numbers,
    count: int,
    rng: np.random.Generator,
) -> Numbers:
    """``count`` different undirected edges without loops, shape ``[2, count]``.

    An edge has a node that chooses, drawn in proportion to its weight, and one that is chosen,
    likewise but for the weights of hubs, out of the same community or another. Loops and repeats
    are drawn again.

    Args:
        community: The community of each node.
        topic_of: The topic of each community.
        weight: The popularity of each node.
        count: Number of edges.
        rng: The only source of chance.
    """
    topic = topic_of[community]
    order = np.lexsort((community, topic))
    community, topic, weight = community[order], topic[order], weight[order]
    inside = np.minimum(_INSIDE * weight, _most_inside(community, weight, count))
    inside = np.rint(inside).astype(np.int64)
    inside_sums, across_sums = _sums(inside), _sums(weight - inside)
    plain_sums = _sums(np.minimum(weight, 16 * _ORDINARY))
    home, field = _blocks(community), _blocks(topic)

    def within(number: int) -> tuple[Numbers, Numbers]:
        source = _pick(inside_sums, 0, len(order), number, rng)
        return source, _pick(plain_sums, home[0][source], home[1][source], number, rng)

    def between(number: int) -> tuple[Numbers, Numbers]:
        source = _pick(across_sums, 0, len(order), number, rng)
        near = rng.random(number) < _SAME_TOPIC
        low = np.where(near, field[0][source], 0)
        high = np.where(near, field[1][source], len(order))
        target = _pick(plain_sums, low, high, number, rng)
        other = community[source] != community[target]
        return source[other], target[other]

    first = round(_INSIDE * count)
    keys = np.concatenate(
        [
            _distinct(within, first, len(order), rng),
            _distinct(between, count - first, len(order), rng),
        ]
    )
    return np.stack([order[keys // len(order)], order[keys % len(order)]])


def _most_inside(community: Numbers, weight: Numbers, count: int) -> npt.NDArray[np.float64]:
    """The weight that stands for a fixed share of a node's own community."""
    return _REACH * np.bincount(community)[community] * (weight.sum() / count)


def _distinct(
    draw: Callable[[int], tuple[Numbers, Numbers]],
    count: int,
    nodes: int,
    rng: np.random.Generator,
) -> Numbers:
    """Keys of different pairs without loops, drawn until there are enough."""
    keys = np.empty(0, dtype=np.int64)
    for _ in range(_ROUNDS):
        if len(keys) >= count:
            break
        source, target = draw(int(1.1 * (count - len(keys))) + 64)
        low, high = np.minimum(source, target), np.maximum(source, target)
        keys = np.sort(np.concatenate([keys, (low * nodes + high)[low != high]]))
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    surplus = rng.choice(len(keys), max(len(keys) - count, 0), replace=False)
    return np.delete(keys, surplus)


def _sums(weight: Numbers) -> Numbers:
    return np.concatenate([[0], np.cumsum(weight)])


def _blocks(label: Numbers) -> tuple[Numbers, Numbers]:
    """First and behind-the-last place of each node's block, for equal labels side by side."""
    starts = np.flatnonzero(np.concatenate([[True], label[1:] != label[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(label)]]))
    return np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)


def _pick(
    sums: Numbers,
    low: Numbers | int,
    high: Numbers | int,
    number: int,
    rng: np.random.Generator,
) -> Numbers:
    """Places from ``low`` to below ``high``, drawn in proportion to their weights."""
    start, width = sums[low], sums[high] - sums[low]
    point = start + np.floor(rng.random(number) * width).astype(np.int64)
    return np.searchsorted(sums, point, side="right") - 1
