"""``reddit-like``: a synthetic graph of Reddit's size, shares and degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from drgcn.data.assemble import RawGraph
from drgcn.data.downloader import Request
from drgcn.data.reddit import CLASS_SIZES, PUBLISHED, split_masks, with_counts
from drgcn.data.splits import from_indices
from drgcn.errors import InputError

Numbers = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float32]

_TOPICS: Final = 8
# Posts whose neighbours come from another community than the one they are labelled with.
_STRAYS: Final = 0.06
# Below this scale, degrees shrink with the graph: else small communities would be complete.
_SAME_DEGREES: Final = 0.1

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
# Most rounds of drawing again in place of loops and repeats.
_ROUNDS: Final = 100

# Columns of one text, and factors behind the columns.
_TEXT: Final = 300
_FACTORS: Final = 64
# Distance of the classes, and of the topics, in units of a factor's deviation inside a class.
_CLASS: Final = 0.3
_TOPIC: Final = 0.3
# Deviations of what belongs to one post and one column alone: titles are short and noisy.
_NOISE: Final = (5000.0, 3000.0)
_UNIT: Final = 2.0**-16
# Rows that are drawn at a time.
_ROWS: Final = 8192


def read(request: Request) -> RawGraph:
    """Make the set ``reddit-like``."""
    return make(request.split, **request.options)


def make(split: str, *, scale: float = 1.0, seed: int = 0, counts: str = "auto") -> RawGraph:
    """Draw a graph that has Reddit's sizes and shares. It is synthetic.

    Nodes, edges, columns, classes, the shares of the classes and the sizes of the parts are
    Reddit's; degrees, homophily, the spectrum of the texts and the loudness of the counts are of
    Reddit's kind. Nothing else is: no accuracy on it can be compared with one on Reddit.

    The same ``scale`` and ``seed`` give the same bits on every machine, for one version of numpy.

    Args:
        split: ``"full"``, or ``"graphsage"`` without training nodes that have no training
            neighbour.
        scale: Size of the graph as a share of Reddit's, 0.005 to 1. The mean degree is Reddit's
            down to 0.1, and shrinks with the graph below.
        seed: Seed of everything.
        counts: ``"auto"`` or ``"log"`` for logarithms of the first two columns, or ``"raw"``.
    """
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0.005 <= scale <= 1:
        raise InputError(f"scale must be a number from 0.005 to 1, not {scale!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number from 0 on, not {seed!r}")
    nodes = round(PUBLISHED.nodes * scale)
    edges = round(PUBLISHED.edges * scale * min(1.0, scale / _SAME_DEGREES))
    streams = np.random.SeedSequence(seed).spawn(4)
    of_labels, of_edges, of_texts, of_counts = (
        np.random.Generator(np.random.PCG64(stream)) for stream in streams
    )
    y = of_labels.permutation(np.repeat(np.arange(PUBLISHED.classes), class_sizes(nodes)))
    parts = of_labels.permutation(nodes)
    topic_of = of_labels.permutation(np.arange(PUBLISHED.classes) % _TOPICS)
    weight = of_labels.permutation(popularity(nodes))
    pairs = draw_edges(_communities(y, of_labels), topic_of, weight, edges, of_edges)
    columns = [draw_counts(weight, of_counts), draw_texts(y, topic_of, of_texts)]
    x, words = with_counts(np.concatenate(columns, axis=1), counts, "reddit-like")
    val, test = round(PUBLISHED.val * scale), round(PUBLISHED.test * scale)
    masks = from_indices(
        nodes,
        *(part.tolist() for part in np.split(parts, [nodes - val - test, nodes - test])),
    )
    return RawGraph(
        x=x,
        y=y,
        pairs=pairs,
        masks=split_masks(masks, split, pairs),
        split=split,
        feature_source=f"generated: synthetic, not comparable with Reddit; {words}",
    )


def class_sizes(nodes: int) -> Numbers:
    """Return the nodes of each class in Reddit's shares, by largest remainders."""
    exact = np.array(CLASS_SIZES) * nodes / sum(CLASS_SIZES)
    sizes = np.floor(exact).astype(np.int64)
    first = np.argsort(sizes - exact, kind="stable")[: nodes - int(sizes.sum())]
    sizes[first] += 1
    return sizes


def _communities(y: Numbers, rng: np.random.Generator) -> Numbers:
    """Return the class of each post; strays have that of a post drawn at random."""
    strays = rng.random(len(y)) < _STRAYS
    return np.where(strays, y[rng.integers(len(y), size=len(y))], y)


def popularity(nodes: int) -> Numbers:
    """Return ascending weights in sixteenths: quantiles of a Pareto law of the second kind.

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
    """Draw ``count`` different undirected edges without loops, shape ``[2, count]``.

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
    """Return the weight that stands for a fixed share of each node's own community."""
    return _REACH * np.bincount(community)[community] * (weight.sum() / count)


def _distinct(
    draw: Callable[[int], tuple[Numbers, Numbers]],
    count: int,
    nodes: int,
    rng: np.random.Generator,
) -> Numbers:
    """Draw keys of different pairs without loops until there are ``count``."""
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
    """Return where each node's block of equal labels starts and where it ends."""
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
    """Draw places from ``low`` to below ``high`` in proportion to their weights."""
    start, width = sums[low], sums[high] - sums[low]
    point = start + np.floor(rng.random(number) * width).astype(np.int64)
    return np.searchsorted(sums, point, side="right") - 1


def draw_texts(y: Numbers, topic_of: Numbers, rng: np.random.Generator) -> Matrix:
    """Draw two texts a post, side by side: signed, correlated, with a decaying spectrum.

    A post has 64 factors, normal around the sum of a mean of its class and one of its topic.
    Factor k acts on all columns with a strength that falls like k^-0.7; every column adds a mean,
    noise and a scale of its own.

    All terms are whole numbers below 2^24 until the last step, so their sums are exact in single
    precision and no order of summation, number of threads or matrix library changes a bit.

    Args:
        y: The class of each post.
        topic_of: The topic of each class.
        rng: The only source of chance.
    """
    columns = 2 * _TEXT
    topics = rng.standard_normal((int(topic_of.max()) + 1, _FACTORS))
    own = rng.standard_normal((len(topic_of), _FACTORS))
    centres = (_CLASS * own + _TOPIC * topics[topic_of]).astype(np.float32)
    strength = 40.0 * np.arange(1, _FACTORS + 1) ** -0.7
    loadings = _whole(strength[:, None] * _centred(rng.standard_normal((_FACTORS, columns))), 255)
    # Sums over the columns are positive and hardly change, so rows can be divided by them.
    means = _whole(1000.0 + 3000.0 * _centred(rng.standard_normal(columns)), 20_000)
    scale = (rng.integers(32, 97, columns) / 64.0 * _UNIT).astype(np.float32)
    noise = np.repeat(_NOISE, _TEXT).astype(np.float32)

    x = np.empty((len(y), columns), dtype=np.float32)
    for start in range(0, len(y), _ROWS):
        rows = slice(start, start + _ROWS)
        label = y[rows]
        factors = rng.standard_normal((len(label), _FACTORS), dtype=np.float32) + centres[label]
        alone = rng.standard_normal((len(label), columns), dtype=np.float32) * noise
        whole = _whole(64.0 * factors, 400) @ loadings + np.rint(alone) + means
        x[rows] = whole * scale
    return x


def draw_counts(weight: Numbers, rng: np.random.Generator) -> Matrix:
    """Draw comments (from 0 on) and scores (a few negative), log-normal, by popularity.

    Args:
        weight: The popularity of each post, in sixteenths.
        rng: The only source of chance.
    """
    crowd, taste = rng.standard_normal((2, len(weight)))
    comments = np.floor(0.3 * np.sqrt(weight) * np.exp(0.9 * crowd))
    scores = np.floor(8.0 * np.exp(0.8 * crowd + 1.3 * taste))
    unloved = -1.0 - np.floor(3.0 * rng.standard_exponential(len(weight)))
    scores = np.where(rng.random(len(weight)) < 0.04, unloved, scores)
    return np.stack([comments, scores], axis=1).astype(np.float32)


def _centred(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values - values.mean(axis=-1, keepdims=True)


def _whole(values: npt.NDArray[np.floating], most: int) -> Matrix:
    return np.clip(np.rint(values), -most, most).astype(np.float32)
