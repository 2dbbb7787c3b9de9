"""CoraR and CiteseerR: the paper's refined graphs, with published or rebuilt features."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
from scipy import sparse

from drgcn.data.assemble import RawGraph
from drgcn.data.features import Features
from drgcn.data.labels import from_published
from drgcn.data.npz import read_matrix
from drgcn.data.planetoid import CLASS_NAMES
from drgcn.data.restricted_pickle import read_pickle
from drgcn.data.splits import from_indices
from drgcn.errors import InputError, MissingDataError

# Stem of the authors' files, training and validation nodes, and the set it was made from.
_SETS: Final = {
    "corar": ("corax", 1180, 500, "cora"),
    "citeseerr": ("citeseerx", 1691, 500, "citeseer"),
}


def read(root: Path, name: str, features: str | PathLike[str] | None = None) -> RawGraph:
    """Read a refined set.

    Args:
        root: Data root.
        name: ``corar`` or ``citeseerr``.
        features: File with features of your own making, one row per node.
    """
    stem, train, val, origin = _SETS[name]
    folder = root / "refined"
    adjacency = read_pickle(folder / f"{stem}_adj.pkl")
    y = from_published(
        np.asarray(read_pickle(folder / f"{stem}_labels.pkl")), f"{stem}_labels.pkl"
    )
    if not sparse.issparse(adjacency) or adjacency.shape != (len(y), len(y)):
        raise InputError(f"{folder / stem}_adj.pkl must be a square matrix of {len(y)} nodes")
    if len(y) <= train + val:
        raise InputError(f"{folder / stem}_labels.pkl has {len(y)} nodes, too few for the split")
    x, source = _features(folder, name, stem, None if features is None else Path(features))
    if x.shape[0] != len(y):
        raise InputError(
            f"{name} has {len(y)} nodes, but its feature file has {x.shape[0]} rows: build the "
            "features in the node order of the published adjacency"
        )
    pairs = adjacency.tocoo()
    return RawGraph(
        x=x,
        y=y,
        pairs=np.stack([pairs.row, pairs.col]).astype(np.int64),
        # NOTE[PAPER]: only the sizes 1180/500/1000 and 1691/500/1000 are stated. The ranges keep
        # Planetoid's order (training, validation, test); the authors' own README names 1,000
        # validation and 500 test nodes and runs one past the end, against the paper.
        masks=from_indices(
            len(y), range(train), range(train, train + val), range(train + val, len(y))
        ),
        split="full",
        class_names=CLASS_NAMES[origin],
        feature_source=source,
    )


def _features(folder: Path, name: str, stem: str, given: Path | None) -> tuple[Features, str]:
    if given is not None:
        if not given.is_file():
            raise InputError(f"the feature file {given} does not exist")
        return read_matrix(given), f"rebuilt: {given.name}"
    published = [folder / f"{stem}_{word}.pkl" for word in ("features", "feature", "feat")]
    rebuilt = [folder / f"{name}_features{suffix}" for suffix in (".npy", ".npz")]
    for path in published + rebuilt:
        if path.is_file():
            return read_matrix(path), "published" if path in published else "rebuilt"
    raise MissingDataError(
        f"{name} has its graph and labels in {folder}, but no features: put the authors' "
        f"{published[0].name} (https://github.com/THUDM/Refined-cora-citeseer) or your own "
        f"{rebuilt[0].name} there, or name a file with features=..."
    )
