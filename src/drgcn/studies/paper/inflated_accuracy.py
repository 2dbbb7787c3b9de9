"""The accuracy that AS-GCN's script for Reddit prints, which is not the accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

CHUNK: Final = 2048


def inflated_accuracy(correct: Sequence[bool] | npt.NDArray[Any], *, chunk: int = CHUNK) -> float:
    """What the script would print for these predictions; it can exceed 1.

    The script goes through the nodes in chunks, multiplies each chunk's mean accuracy by the
    size of a full chunk, adds up, and divides by the number of nodes. The last chunk is rarely
    full, and then counts as if it were: 38 of Reddit's 55,334 test nodes weigh as much as 2,048.

    The script works out a chunk's mean in single precision; this function does not, so the two
    agree to about seven digits. It prints five decimals.

    Args:
        correct: Whether each node was classified correctly, in the order of evaluation.
        chunk: Nodes per chunk.

    Example:
        >>> inflated_accuracy([True, True, False, True, True], chunk=4)
        1.4
    """
    hits = np.asarray(correct)
    if hits.ndim != 1 or not len(hits) or not np.isin(hits, (0, 1)).all():
        raise InputError(
            "Expected true or false for each of at least one node; found values of shape "
            f"{hits.shape}: compare predictions with labels first"
        )
    starts = np.arange(0, len(hits), _checked(chunk))
    counts = np.add.reduceat(hits.astype(np.int64), starts)
    sizes = np.minimum(starts + chunk, len(hits)) - starts
    return float((counts / sizes).sum() * chunk / len(hits))


def inflation(nodes: int, *, chunk: int = CHUNK) -> float:
    """The factor between printed and true accuracy where all chunks are equally accurate.

    Example:
        >>> round(inflation(55_334), 4)
        1.0363
    """
    if nodes < 1:
        raise InputError(f"Expected at least one node; found {nodes}: count the test nodes")
    return -(-nodes // _checked(chunk)) * chunk / nodes


def _checked(chunk: int) -> int:
    if chunk < 1:
        raise InputError(f"Expected at least one node per chunk; found {chunk}: use 2048")
    return chunk
