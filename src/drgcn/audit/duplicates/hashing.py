"""Candidate pairs of similar rows, by MinHash or random projections in an LSH forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

Pairs = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.uint32]

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

TREES = 64
_WINDOW = 8  # followers that a row is compared with in each tree
# MinHash: hashes of 16 bits in a key of 64.
_PER_TREE = 4
_MINHASH_CHUNK = 1 << 14
_TREES_AT_ONCE = 8  # whose pairs are held before those found twice are dropped
# Rows whose numbers stay in a core's own cache.
_PIECE = 1 << 12
# Random projections: bits of the key of a tree, and words of 64 bits of a signature.
_BITS = 32
_SIGNATURE = 4
_PROJECTION_CHUNK = 1 << 13
_SIGNS = 1 << 8  # rows whose signs are packed at once


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
        ranks = [random.permutation(columns).astype(np.uint32) for _ in range(_PER_TREE)]

        def fill(piece: slice, tree: int = tree, ranks: list[Ranks] = ranks) -> None:
            pointers = sets.indptr[piece.start : piece.stop + 1]
            members = sets.indices[pointers[0] : pointers[-1]]
            starts = pointers[:-1] - pointers[0]
            for number, rank in enumerate(ranks, tree * _PER_TREE):
                least_hash = np.minimum.reduceat(rank[members], starts).astype(np.uint64)
                # Ranks of columns say too much about their neighbours: only mixed bits are even.
                mixed = least_hash * np.uint64(0x9E3779B97F4A7C15)
                keys[tree, piece] = (keys[tree, piece] << np.uint64(16)) | (mixed >> np.uint64(48))
                bit = (mixed >> np.uint64(40)) & np.uint64(1)
                bits[piece, number // 64] |= bit << np.uint64(number % 64)

        _in_threads(fill, _pieces(rows, _MINHASH_CHUNK))
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
    for chunk in _pieces(len(rows), _PROJECTION_CHUNK):
        product = rows[chunk] @ directions

        def fill(piece: slice, start: int = chunk.start, product: Any = product) -> None:
            packed = np.packbits(product[piece] > 0, axis=1)
            there = slice(start + piece.start, start + piece.stop)
            keys[:, there] = packed.view(">u4").T
            bits[there] = np.ascontiguousarray(packed[:, : _SIGNATURE * 8]).view(np.uint64)

        _in_threads(fill, _pieces(len(product), _SIGNS))
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

    def in_order(key: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
        order, codes = _stable_order(key), []
        for piece in _pieces(rows, _PIECE):
            # A row's followers may lie behind the piece.
            nodes = order[piece.start : piece.stop + window]
            words = np.ascontiguousarray(signatures[nodes].T)
            for step in range(1, window + 1):
                count = min(piece.stop - piece.start, len(nodes) - step)
                if count <= 0:
                    break
                different = words[:, :count] ^ words[:, step : step + count]
                apart = np.bitwise_count(different).sum(axis=0, dtype=np.int16)
                close = np.flatnonzero(apart <= most_different)
                a, b = nodes[close], nodes[close + step]
                codes.append(np.minimum(a, b) * rows + np.maximum(a, b))
        return np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)

    trees, codes = list(keys), np.empty(0, dtype=np.int64)
    for at in range(0, len(trees), _TREES_AT_ONCE):
        found = _in_threads(in_order, trees[at : at + _TREES_AT_ONCE])
        codes = np.unique(np.concatenate([codes, *found]))
    return np.stack(np.divmod(codes, max(rows, 1)), axis=1)


def _stable_order(key: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    """Return ``np.argsort(key, kind="stable")``, by sorts of plain numbers, which are faster."""
    if key.dtype.itemsize > 4:  # ranks take the place of long keys
        order = np.argsort(key)
        ranked = key[order]
        key = np.empty(len(key), dtype=np.uint64)
        key[order] = np.append(0, np.cumsum(ranked[1:] != ranked[:-1]))[: len(key)]
    half = np.uint64(32)
    numbers = (key.astype(np.uint64) << half) | np.arange(len(key), dtype=np.uint64)
    numbers.sort()
    return (numbers & np.uint64(2**32 - 1)).astype(np.int64)


def _pieces(count: int, size: int) -> list[slice]:
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]


def _in_threads(function: Callable[[_Item], _Made], items: Iterable[_Item]) -> list[_Made]:
    """Return what a function makes of each item; NumPy lets threads work side by side."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(function, items))


def most_different(bits: int, share: float) -> int:
    """Largest number of bits that differ, but for one pair in 30,000, at this share a bit."""
    return int(np.ceil(bits * share + 4 * np.sqrt(bits * share * (1 - share))))
