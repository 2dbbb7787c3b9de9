"""Candidate pairs of similar rows, by MinHash or random projections in an LSH forest."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy import sparse

Pairs = npt.NDArray[np.int64]

TREES = 64
_WINDOW = 8  # followers that a row is compared with in each tree
# MinHash: hashes of 16 bits in a key of 64.
_PER_TREE = 4
_MINHASH_CHUNK = 1 << 14
# Random projections: bits of the key of a tree, and words of 64 bits of a signature.
_BITS = 32
_SIGNATURE = 4
_PROJECTION_CHUNK = 1 << 13


def similar_sets(sets: sparse.csr_array, least: float, seed: int) -> Pairs:
    """Return pairs of rows whose columns may have a Jaccard similarity of ``least`` or more.

    Of pairs of similarity s, at least 1 - (1 - s^4)^64 stand side by side in one of the 64 trees
    (0.98 at 0.5, more where columns are rare, since a tree needs fewer than four hashes to tell
    rows apart there). The pairs are candidates: their similarity has still to be measured.

    Args:
        sets: Rows as sets of columns; the stored values do not matter. No row may be empty.
        least: The similarity looked for.
        seed: Seed of the hash functions, which belong to columns: the order of rows is free.
    """
    rows, columns = sets.shape
    if rows < 2:
        return np.empty((0, 2), dtype=np.int64)
    random = np.random.default_rng(seed)
    hashes = TREES * _PER_TREE
    keys = np.zeros((TREES, rows), dtype=np.uint64)
    bits = np.zeros((rows, hashes // 64), dtype=np.uint64)
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
    pairs = candidates(keys, bits, most_different(hashes, (1 - least) / 2), _WINDOW)
    return pairs[_agree(keys, pairs) >= hashes - most_different(hashes, 1 - least)]


def _agree(keys: npt.NDArray[np.uint64], pairs: Pairs) -> npt.NDArray[np.int64]:
    """Count the hashes that agree: a sharper sieve than single bits, and slower."""
    hashes = np.ascontiguousarray(keys.T).view(np.uint16)
    agree = np.empty(len(pairs), dtype=np.int64)
    for at in range(0, len(pairs), _MINHASH_CHUNK):
        a, b = pairs[at : at + _MINHASH_CHUNK].T
        agree[at : at + _MINHASH_CHUNK] = np.count_nonzero(hashes[a] == hashes[b], axis=1)
    return agree


def _least_hash(sets: sparse.csr_array, rank: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    return np.minimum.reduceat(rank[sets.indices], sets.indptr[:-1]).astype(np.uint64)


def similar_directions(rows: npt.NDArray[np.float32], least: float, seed: int) -> Pairs:
    """Return pairs of rows whose cosine may be ``least`` or more.

    The pairs are candidates: their cosine has still to be measured. For the share of pairs that
    are missed see :func:`expected_recall`.

    Args:
        rows: Rows of any length.
        least: The cosine looked for.
        seed: Seed of the directions.
    """
    if len(rows) < 2:
        return np.empty((0, 2), dtype=np.int64)
    random = np.random.default_rng(seed)
    directions = random.standard_normal((rows.shape[1], TREES * _BITS), dtype=np.float32)
    keys = np.empty((TREES, len(rows)), dtype=np.uint32)
    bits = np.empty((len(rows), _SIGNATURE), dtype=np.uint64)
    for at in range(0, len(rows), _PROJECTION_CHUNK):
        signs = rows[at : at + _PROJECTION_CHUNK] @ directions > 0
        packed = np.packbits(signs, axis=1)
        keys[:, at : at + _PROJECTION_CHUNK] = packed.view(">u4").T
        bits[at : at + _PROJECTION_CHUNK] = np.ascontiguousarray(packed[:, : _SIGNATURE * 8]).view(
            np.uint64
        )
    limit = most_different(_SIGNATURE * 64, math.acos(min(least, 1.0)) / math.pi)
    return candidates(keys, bits, limit, _WINDOW)


def expected_recall(rows: int, cosine: float) -> float:
    """Share of the pairs of a cosine that meet in a tree, if the other rows lie anywhere.

    A pair meets if it agrees in the first bits, as many as it takes until no more rows than the
    window are left. Rows that crowd in some directions take more bits, and recall is lower.
    """
    agree = 1 - math.acos(max(-1.0, min(cosine, 1.0))) / math.pi
    bits = max(math.log2(max(rows, 1) / _WINDOW), 0.0)
    return 1 - (1 - agree**bits) ** TREES


def candidates(
    keys: Iterable[npt.NDArray[np.unsignedinteger]],
    signatures: npt.NDArray[np.uint64],
    most_different: int,
    window: int,
) -> Pairs:
    """Return pairs of rows that are close in some order and have similar signatures.

    Each array of keys is one tree of an LSH forest: rows are sorted by keys whose bits agree the
    more often, the more similar the rows are, and every row is compared with the next few. In a
    crowd that agrees in the first bits the later bits decide, so no length of key has to be
    chosen for the data, and a tree costs as much on a million equal keys as on different ones.

    Args:
        keys: One key per row, for each tree.
        signatures: Bits that agree the more often, the more similar rows are, ``[rows, words]``.
        most_different: Pairs whose signatures differ in more bits are no candidates.
        window: Number of following rows that each row is compared with.

    Returns:
        Pairs ``[P, 2]`` without repeats, the smaller row first.
    """
    rows = len(signatures)
    found: list[npt.NDArray[np.int64]] = []
    for key in keys:
        order = np.argsort(key, kind="stable")
        sorted_bits = signatures[order]
        for step in range(1, min(window, rows - 1) + 1):
            apart = np.bitwise_count(sorted_bits[:-step] ^ sorted_bits[step:])
            close = np.flatnonzero(apart.sum(axis=1, dtype=np.int64) <= most_different)
            a, b = order[close], order[close + step]
            found.append(np.minimum(a, b) * rows + np.maximum(a, b))
        if len(found) > window * 8:
            found = [np.unique(np.concatenate(found))]
    codes = np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    return np.stack(np.divmod(codes, max(rows, 1)), axis=1)


def most_different(bits: int, share: float) -> int:
    """Largest number of bits that differ, but for one pair in 30,000, at this share a bit."""
    return int(np.ceil(bits * share + 4 * np.sqrt(bits * share * (1 - share))))
