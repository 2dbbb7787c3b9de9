"""scikit-learn's built-in tables as graphs of nearest neighbours: real data without a file."""

from __future__ import annotations

import numpy as np

from drgcn.data.assemble import RawGraph
from drgcn.data.features import normalized
from drgcn.data.splits import draw
from drgcn.errors import InputError


def read(name: str, split: str, split_seed: int, counts: tuple[int, int], k: int = 10) -> RawGraph:
    """A table whose rows are joined to their ``k`` nearest rows.

    Distances are Euclidean on the standardised table (all rows: a transductive graph); ``x``
    stays the raw table, whose columns differ widely in scale.

    Args:
        name: ``digits``, ``breast-cancer`` or ``wine``.
        split: ``random`` or ``random-60``.
        split_seed: Seed of the split.
        counts: Training and validation nodes per class of ``random``.
        k: Neighbours of each row; an edge needs only one of its ends to choose the other.
    """
    from sklearn import datasets
    from sklearn.neighbors import NearestNeighbors

    table = getattr(datasets, f"load_{name.replace('-', '_')}")()
    x = np.asarray(table.data, dtype=np.float32)
    y = np.asarray(table.target, dtype=np.int64)
    if not isinstance(k, int) or not 1 <= k < len(y):
        raise InputError(f"k must be a whole number from 1 to {len(y) - 1}, not {k!r}")
    standardised = normalized(x, "standard", np.ones(len(y), dtype=np.bool_))
    # A tree compares coordinates one by one; the brute-force way goes through a matrix product
    # whose rounding, and with it the choice among near ties, differs between machines.
    neighbours = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(standardised)
    chosen = neighbours.kneighbors(return_distance=False)
    return RawGraph(
        x=x,
        y=y,
        pairs=np.stack([np.repeat(np.arange(len(y)), k), chosen.ravel()]).astype(np.int64),
        masks=draw(split, y, split_seed, counts),
        split=split,
        split_seed=split_seed,
        class_names=tuple(str(label) for label in table.target_names),
    )
