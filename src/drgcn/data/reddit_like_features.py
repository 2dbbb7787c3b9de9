"""The features of ``reddit-like``: two loud counts and two texts of 300 dimensions."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float32]

_TEXT: Final = 300
_FACTORS: Final = 64
# Distance of the classes, and of the topics, in units of a factor's deviation inside a class.
_CLASS: Final = 0.3
_TOPIC: Final = 0.3
# Deviations of what belongs to one post and one column alone: titles are short and noisy.
_NOISE: Final = (5000.0, 3000.0)
_UNIT: Final = 2.0**-16
_ROWS: Final = 8192


def draw_texts(y: Numbers, topic_of: Numbers, rng: np.random.Generator) -> Matrix:
    """Two texts a post, side by side: signed, correlated, with a decaying spectrum.

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
    """Comments (from 0 on) and scores (a few below 0): log-normal, louder where a post is popular.

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
