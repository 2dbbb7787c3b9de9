"""How many words two rows share by chance, given the words of one and how many the other has.

Rows of two words are often equal, rows of twenty never: a threshold for all rows alike calls the
short ones duplicates. So each pair is held against its own lengths too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float64]

_STEPS = 5
_LARGEST = 40.0
_CHUNK = 1 << 12


def log_chance(words: sparse.csr_array, pairs: npt.NDArray[np.int64]) -> Floats:
    """Upper bound of the log probability that a pair shares so many words or more.

    Row A has its words; row B has b words, each word k with probability f_k b / m by itself,
    where f_k is the share of rows with k and m the mean number of words. The bound is that of
    the likelier of the two ways round. Rare words in common weigh more than common ones.

    Args:
        words: Bags of words, zeros and ones.
        pairs: Pairs of rows, ``[P, 2]``.
    """
    sizes = np.diff(words.indptr).astype(np.float64)
    frequency = np.bincount(words.indices, minlength=words.shape[1]) / max(words.shape[0], 1)
    each = frequency / max(float(sizes.mean()), 1e-12) if len(sizes) else frequency
    result = np.empty(len(pairs))
    for at in range(0, len(pairs), _CHUNK):
        a, b = pairs[at : at + _CHUNK].T
        shared = np.asarray(words[a].multiply(words[b]).sum(axis=1)).ravel()
        ways = (_bound(words[one], sizes[other], shared, each) for one, other in ((a, b), (b, a)))
        result[at : at + _CHUNK] = np.maximum(*ways)
    return result


def _bound(rows: sparse.csr_array, sizes: Floats, shared: Floats, each: Floats) -> Floats:
    count = rows.shape[0]
    owner = np.repeat(np.arange(count), np.diff(rows.indptr))
    probability = np.minimum(each[rows.indices] * sizes[owner], 1.0)

    def per_row(values: Floats) -> Floats:
        return np.bincount(owner, weights=values, minlength=count).astype(np.float64)

    # Chernoff's bound holds at every scale: a few Newton steps need not end at the best one.
    mean = np.maximum(per_row(probability), 1e-300)
    scale = np.clip(np.log(np.maximum(shared, 1e-300) / mean), 0.0, _LARGEST)
    best = np.zeros(count)
    for _ in range(_STEPS):
        grown = probability * np.exp(scale)[owner]
        total = grown + 1 - probability
        best = np.minimum(best, per_row(np.log(total)) - scale * shared)
        tilted = grown / total
        slope = shared - per_row(tilted)
        curvature = np.maximum(per_row(tilted * (1 - tilted)), 1e-3)
        scale = np.clip(scale + np.clip(slope / curvature, -3.0, 3.0), 0.0, _LARGEST)
    return best
