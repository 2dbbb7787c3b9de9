"""Random projections: rows whose signs agree as often as the angle between them says."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from drgcn.audit.duplicates.lsh_forest import Pairs, candidates, most_different

TREES = 64
_BITS = 32  # of the key of a tree
_SIGNATURE = 4  # words of 64 bits
_WINDOW = 8
_CHUNK = 1 << 13


def similar_directions(rows: npt.NDArray[np.float32], least: float, seed: int) -> Pairs:
    """Pairs of rows whose cosine may be ``least`` or more.

    What is returned has to be measured still; for what is missed see :func:`expected_recall`.

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
    for at in range(0, len(rows), _CHUNK):
        signs = rows[at : at + _CHUNK] @ directions > 0
        packed = np.packbits(signs, axis=1)
        keys[:, at : at + _CHUNK] = packed.view(">u4").T
        bits[at : at + _CHUNK] = np.ascontiguousarray(packed[:, : _SIGNATURE * 8]).view(np.uint64)
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
