"""``reddit-like``: a synthetic stand-in for Reddit, of its full size."""

from __future__ import annotations

from typing import Final

import numpy as np

from drgcn.data.assemble import RawGraph
from drgcn.data.reddit_counts import with_counts
from drgcn.data.reddit_facts import CLASS_SIZES, PUBLISHED
from drgcn.data.reddit_like_edges import draw_edges, popularity
from drgcn.data.reddit_like_features import Numbers, draw_counts, draw_texts
from drgcn.data.reddit_splits import split_masks
from drgcn.data.splits import from_indices
from drgcn.errors import InputError

_TOPICS: Final = 8
# Posts whose neighbours come from another community than the one they are labelled with.
_STRAYS: Final = 0.06
# Below this scale, degrees shrink with the graph: else small communities would be complete.
_SAME_DEGREES: Final = 0.1


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
    """Nodes of each class in the shares of Reddit, by largest remainders."""
    exact = np.array(CLASS_SIZES) * nodes / sum(CLASS_SIZES)
    sizes = np.floor(exact).astype(np.int64)
    first = np.argsort(sizes - exact, kind="stable")[: nodes - int(sizes.sum())]
    sizes[first] += 1
    return sizes


def _communities(y: Numbers, rng: np.random.Generator) -> Numbers:
    """The class of each post but for strays, which have that of a post drawn at random."""
    strays = rng.random(len(y)) < _STRAYS
    return np.where(strays, y[rng.integers(len(y), size=len(y))], y)
