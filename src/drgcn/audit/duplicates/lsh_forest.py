"""Candidates for similar rows: neighbours in many random orders."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Pairs = npt.NDArray[np.int64]


def candidates(
    keys: Iterable[npt.NDArray[np.unsignedinteger]],
    signatures: npt.NDArray[np.uint64],
    most_different: int,
    window: int,
) -> Pairs:
    """Pairs of rows that stand close together in some order and have similar signatures.

    Each array of keys is one tree of an LSH forest: rows are sorted by keys whose bits agree the
    more often, the more similar the rows are, and every row is held against the next few. In a
    crowd that agrees in the first bits the later bits decide, so no length of key has to be
    chosen for the data, and a tree costs as much on a million equal keys as on different ones.

    Args:
        keys: One key per row, for each tree.
        signatures: Bits that agree the more often, the more similar rows are, ``[rows, words]``.
        most_different: Pairs whose signatures differ in more bits are no candidates.
        window: How many followers each row is held against.

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
    """Bits that may differ if each differs with probability ``share``, but for one in 30,000."""
    return int(np.ceil(bits * share + 4 * np.sqrt(bits * share * (1 - share))))
