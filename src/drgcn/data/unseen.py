"""Classes that are tested but never learnt, which a split by hand or by chance can bring."""

from __future__ import annotations

import warnings

import numpy as np

from drgcn.data.assemble import RawGraph
from drgcn.data.splits import Mask
from drgcn.errors import DrgcnWarning


def warn_of_unseen_classes(raw: RawGraph, source: str, stacklevel: int) -> None:
    """Warn if test nodes have a class that no training node has.

    Args:
        raw: A graph with its class names and its split.
        source: The file, for the message.
        stacklevel: Calls from here up to the user's line.
    """
    unseen = np.flatnonzero(_present(raw, raw.masks.test) & ~_present(raw, raw.masks.train))
    if len(unseen):
        names = [raw.class_names[label] for label in unseen[:5]]
        listed = ", ".join(names) + (", ..." if len(unseen) > 5 else "")
        warnings.warn(
            f"{source}: test nodes have classes that no training node has ({listed}), so no model "
            "can learn them: choose another split, or merge or leave out these classes",
            DrgcnWarning,
            stacklevel=stacklevel,
        )


def _present(raw: RawGraph, mask: Mask) -> Mask:
    y = raw.y[mask]
    if y.ndim == 2:
        return np.asarray(y.any(axis=0))
    return np.isin(np.arange(len(raw.class_names)), y)
