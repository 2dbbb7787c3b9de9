"""MinHash: sets whose hashes agree as often as their Jaccard similarity says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.lsh_forest import Pairs, candidates, most_different

TREES = 64
_PER_TREE = 4  # hashes of 16 bits in a key of 64
_WINDOW = 8
_CHUNK = 1 << 14


def similar_sets(sets: sparse.csr_array, least: float, seed: int) -> Pairs:
    """Pairs of rows whose columns may have a Jaccard similarity of ``least`` or more.

    Of pairs of similarity s, at least 1 - (1 - s^4)^64 stand side by side in one of the 64 trees
    (0.98 at 0.5, more where columns are rare, since a tree needs fewer than four hashes to tell
    rows apart there). What is returned has to be measured still.

    Args:
        sets: Rows as sets of columns; the stored values do not matter. No row may be empty.
        least: The similarity looked for.
        seed: Seed of the hash functions. They belong to columns: the order of rows is nothing.
    """
    rows, columns = sets.shape
    if rows < 2:
        return np.empty((0, 2), dtype=np.int64)
    random = np.random.default_rng(seed)
    keys = np.zeros((TREES, rows), dtype=np.uint64)
    bits = np.zeros((rows, TREES * _PER_TREE // 64), dtype=np.uint64)
    for tree in range(TREES):
        for place in range(_PER_TREE):
            number = tree * _PER_TREE + place
            least_hash = _least_hash(sets, random.permutation(columns).astype(np.uint32))
            # The rank of a column says too much about its neighbours: only mixed bits are even.
            mixed = least_hash * np.uint64(0x9E3779B97F4A7C15)
            keys[tree] = (keys[tree] << np.uint64(16)) | (mixed >> np.uint64(48))
            bit = (mixed >> np.uint64(40)) & np.uint64(1)
            bits[:, number // 64] |= bit << np.uint64(number % 64)
    # One bit of a hash agrees always if the hashes do, and else half the time.
    limit = most_different(TREES * _PER_TREE, (1 - least) / 2)
    pairs = candidates(keys, bits, limit, _WINDOW)
    return pairs[_agree(keys, pairs) >= TREES * _PER_TREE - _most_unlike(least)]


def _agree(keys: npt.NDArray[np.uint64], pairs: Pairs) -> npt.NDArray[np.int64]:
    """How many of the hashes agree: a sharper sieve than bits, and dearer."""
    hashes = np.ascontiguousarray(keys.T).view(np.uint16)
    agree = np.empty(len(pairs), dtype=np.int64)
    for at in range(0, len(pairs), _CHUNK):
        a, b = pairs[at : at + _CHUNK].T
        agree[at : at + _CHUNK] = np.count_nonzero(hashes[a] == hashes[b], axis=1)
    return agree


def _most_unlike(least: float) -> int:
    return most_different(TREES * _PER_TREE, 1 - least)


def _least_hash(sets: sparse.csr_array, rank: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    return np.minimum.reduceat(rank[sets.indices], sets.indptr[:-1]).astype(np.uint64)
