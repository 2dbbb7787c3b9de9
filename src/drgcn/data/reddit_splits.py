"""The two training sets of Reddit that code bases use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from drgcn.data.splits import Masks


def split_masks(full: Masks, split: str, pairs: npt.NDArray[np.int64]) -> Masks:
    """The parts as published, or for ``"graphsage"`` without lonely training nodes.

    GraphSAGE's loader drops training nodes that have no neighbour among the training nodes.
    They stay in the graph and are in no part.

    Args:
        full: The parts as published.
        split: ``"full"`` or ``"graphsage"``.
        pairs: Listed edges, in one direction or both; loops are nobody's neighbours.
    """
    if split != "graphsage":
        return full
    source, target = pairs
    both = full.train[source] & full.train[target] & (source != target)
    met = np.zeros(len(full.train), dtype=np.bool_)
    met[source[both]] = True
    met[target[both]] = True
    return Masks(full.train & met, full.val, full.test)
