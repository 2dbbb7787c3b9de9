"""Reddit's two count columns: whether they are counts still, and their logarithms."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

CHOICES: Final = ("auto", "log", "raw")
# The logarithm of a count of anything on Reddit stays below this.
_LARGEST_LOGARITHM: Final = 50.0


def with_counts(
    x: npt.NDArray[np.float32], choice: str, source: object
) -> tuple[npt.NDArray[np.float32], str]:
    """The features with columns 0 (comments) and 1 (score) as asked for, and words about it.

    ``"log"`` replaces them by log(x0 + 1) and log(x1 + 1 - m), where m is the lowest score, or 0
    if none is negative. ``"raw"`` leaves them. ``"auto"`` takes logarithms if both columns are
    clearly counts: whole numbers, the largest above 50. It leaves them if neither is, because
    then somebody has taken logarithms already, or scaled.

    Args:
        x: Features, changed in place.
        choice: One of ``"auto"``, ``"log"``, ``"raw"``.
        source: The file, for messages.
    """
    if choice not in CHOICES:
        raise InputError(f"counts must be one of {', '.join(CHOICES)}, not {choice!r}")
    if choice == "raw":
        return x, "columns 0 and 1 as stored"
    counts = [_clearly_counts(x[:, column]) for column in (0, 1)]
    if choice == "auto" and counts[0] != counts[1]:
        raise InputError(
            f"{source}: of the columns 0 and 1 one holds counts (whole numbers, some above "
            f"{_LARGEST_LOGARITHM:.0f}) and the other does not: look at them, and say "
            "counts='log' or counts='raw'"
        )
    if choice == "auto" and not counts[0]:
        return x, "columns 0 and 1 as stored, no counts"
    comments, scores = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)
    if comments.min(initial=0) < 0:
        raise InputError(
            f"{source}: column 0 counts comments, but node {int(comments.argmin())} has "
            f"{comments.min():g}: logarithms of these cannot be taken; use counts='raw'"
        )
    # NOTE[DIFF]: FastGCN's script subtracts min(min(x1), -1), which leaves the logarithm of zero
    # for the lowest score if that is -1 or below. Here one more is subtracted then.
    x[:, 0] = np.log(comments + 1.0)
    x[:, 1] = np.log(scores + 1.0 - scores.min(initial=0))
    return x, "columns 0 and 1 as logarithms"


def _clearly_counts(column: npt.NDArray[Any]) -> bool:
    return bool((column == np.rint(column)).all() and column.max(initial=0) > _LARGEST_LOGARITHM)
