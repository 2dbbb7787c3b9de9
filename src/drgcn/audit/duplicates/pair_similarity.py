"""How alike the pairs are that were taken for duplicates."""

from __future__ import annotations

import numpy as np

from drgcn.audit.duplicates import DuplicateGroups
from drgcn.audit.finding import Finding

_STEPS = 20


def similarity_finding(found: DuplicateGroups) -> Finding:
    """Pairs by similarity in steps of 0.05, for each kind of evidence with pairs.

    A heap far above the threshold speaks for copies, a tail that runs out at it for pairs that
    are merely close.
    """
    kinds = [pairs for pairs in found.pairs() if len(pairs)]
    # Rounding can take a similarity past one.
    steps = [
        np.minimum((np.clip(pairs.score, 0, 1) * _STEPS).astype(np.int64), _STEPS - 1)
        for pairs in kinds
    ]
    counts = np.array([np.bincount(step, minlength=_STEPS) for step in steps])
    lowest = min((int(step.min()) for step in steps), default=_STEPS)
    total = sum(map(len, kinds))
    return Finding(
        name="similarity of the pairs",
        severity="fine",
        summary=f"{total:,} pairs of duplicates, by similarity: "
        + ", ".join(
            f"{len(pairs):,} by {pairs.evidence} (median {np.median(pairs.score):.2f})"
            for pairs in kinds
        )
        + "."
        if total
        else "No pairs of duplicates were found.",
        definition="Similarities of the pairs that make groups of duplicates, equal features "
        f"being 1, counted from each step up to the next, {1 / _STEPS:g} further on.",
        numbers={f"{pairs.evidence}": len(pairs) for pairs in kinds},
        columns=("similarity from", *(str(pairs.evidence) for pairs in kinds)),
        rows=tuple(
            (round(step / _STEPS, 2), *(int(count) for count in counts[:, step]))
            for step in range(lowest, _STEPS)
        ),
    )
