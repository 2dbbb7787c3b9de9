"""Cora, Citeseer and Pubmed as Planetoid published them, and the paper's CoraR and CiteseerR."""

from __future__ import annotations

from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.assemble import RawGraph
from drgcn.data.checks import from_published
from drgcn.data.downloader import Request
from drgcn.data.features import Features, read_matrix
from drgcn.data.readers import read_pickle, require_memory
from drgcn.data.splits import Labels, Masks, from_indices
from drgcn.errors import InputError, MissingDataError, warn

CLASS_NAMES: Final = {
    "cora": (
        "Theory",
        "Reinforcement_Learning",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Case_Based",
        "Rule_Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": (
        "Diabetes Mellitus, Experimental",
        "Diabetes Mellitus Type 1",
        "Diabetes Mellitus Type 2",
    ),
}

# Validation nodes of every split.
_VALIDATION: Final = 500

# Stem of the authors' files, training nodes, and the set that each refined set was made from.
_REFINED: Final = {
    "corar": ("corax", 1180, "cora"),
    "citeseerr": ("citeseerx", 1691, "citeseer"),
}


def read(request: Request) -> RawGraph:
    """Read a set of the family ``planetoid`` or ``refined``."""
    request.require_files()
    name = request.entry.name
    if request.entry.family == "refined":
        return _read_refined(request.root / "refined", name, **request.options)
    return _read_planetoid(request.root / "planetoid", name, request.split)


def _read_planetoid(folder: Path, name: str, split: str) -> RawGraph:
    """Read one of Planetoid's three sets.

    The files hold ``allx`` (all nodes but the test range), ``tx`` (test nodes in the order of
    ``test.index``) and an adjacency list. Citeseer's test range has 15 nodes that no file
    describes: they get zero features and no label.

    Args:
        folder: Folder of the files.
        name: ``cora``, ``citeseer`` or ``pubmed``.
        split: ``public`` or ``full``, see :func:`_masks`.
    """
    stem = folder / f"ind.{name}"
    allx, ally, tx, ty, x, y, graph = (
        read_pickle(Path(f"{stem}.{end}"))
        for end in ("allx", "ally", "tx", "ty", "x", "y", "graph")
    )
    test = _test_ids(Path(f"{stem}.test.index"))
    matrices, tables = (allx, tx, x), (ally, ty, y)
    if not all(map(sparse.issparse, matrices)) or not all(
        isinstance(table, np.ndarray) and table.ndim == 2 for table in tables
    ):
        raise InputError(
            f"{stem}.*: expected sparse matrices as allx, tx and x, and dense ones as ally, ty "
            "and y; found others. Fetch the files again."
        )
    known, nodes = len(ally), max(int(test.max(initial=0)) + 1, len(ally))
    require_memory(8 * nodes, f"{stem}.test.index")
    if not (
        allx.shape[0] == known
        and allx.shape[1] == tx.shape[1]
        and ally.shape[1] == ty.shape[1]
        and x.shape[0] == len(y) <= known - _VALIDATION
        and tx.shape[0] == len(ty) == len(np.unique(test)) == len(test)
        and test.min(initial=known) >= known
    ):
        raise InputError(f"the files {stem}.* do not belong together: fetch them again")

    # Row of each node in [allx; tx; one empty row].
    row = np.full(nodes, known + len(test))
    row[:known] = np.arange(known)
    row[test] = known + np.arange(len(test))
    nothing = sparse.csr_array((1, allx.shape[1]), dtype=allx.dtype)
    one_hot = np.vstack([ally, ty, np.zeros_like(ty[:1])])
    labels = from_published(one_hot[row], f"{stem}.ally and .ty")
    masks = _masks(split, nodes, len(y), known, test)
    _require_labels(labels, masks, f"{stem}.ally and .ty")
    return RawGraph(
        x=sparse.csr_array(sparse.vstack([allx, tx, nothing], format="csr")[row]),
        y=labels,
        pairs=_pairs(graph, nodes, f"{stem}.graph"),
        masks=masks,
        split=split,
        class_names=CLASS_NAMES[name],
    )


def _masks(split: str, nodes: int, few: int, known: int, test: npt.NDArray[np.int64]) -> Masks:
    if split == "public":
        return from_indices(nodes, range(few), range(few, few + _VALIDATION), test.tolist())
    # NOTE[DIFF]: the paper states 1,827 training nodes for Citeseer; 15 of these have neither
    # features nor a label, and the code bases it builds on train on the other 1,812, as here.
    # PyG's split="full" is another one: it validates on the nodes of the public split.
    start = known - _VALIDATION
    return from_indices(nodes, range(start), range(start, known), test.tolist())


def _require_labels(y: Labels, masks: Masks, source: str) -> None:
    if any((y[mask] < 0).any() for mask in masks):
        raise InputError(f"{source}: a node of the split has no label: fetch the files again")


def _test_ids(path: Path) -> npt.NDArray[np.int64]:
    try:
        return np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise InputError(f"{path} must hold one node number a line: fetch it again") from None


def _pairs(graph: Any, nodes: int, source: str) -> npt.NDArray[np.int64]:
    try:
        listed = [(node, other) for node, others in graph.items() for other in others]
        pairs = np.array(listed, dtype=np.int64).reshape(-1, 2).T
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise InputError(f"{source} must map each node to its neighbours") from None
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < nodes:
        raise InputError(f"{source} names nodes outside 0..{nodes - 1}: fetch it again")
    return pairs


def _read_refined(
    folder: Path, name: str, features: str | PathLike[str] | None = None
) -> RawGraph:
    """Read one of the paper's refined sets.

    Args:
        folder: Folder of the files.
        name: ``corar`` or ``citeseerr``.
        features: File with features of your own making, one row per node.
    """
    stem, train, origin = _REFINED[name]
    adjacency = read_pickle(folder / f"{stem}_adj.pkl")
    y = from_published(
        np.asarray(read_pickle(folder / f"{stem}_labels.pkl")), f"{stem}_labels.pkl"
    )
    if not sparse.issparse(adjacency) or adjacency.shape != (len(y), len(y)):
        raise InputError(f"{folder / stem}_adj.pkl must be a square matrix of {len(y)} nodes")
    if len(y) <= train + _VALIDATION:
        raise InputError(f"{folder / stem}_labels.pkl has {len(y)} nodes, too few for the split")
    x, source = _features(folder, name, stem, None if features is None else Path(features))
    if x.shape[0] != len(y):
        raise InputError(
            f"{name} has {len(y)} nodes, but its feature file has {x.shape[0]} rows: build the "
            "features in the node order of the published adjacency"
        )
    pairs = adjacency.tocoo()
    # NOTE[PAPER]: only the sizes 1180/500/1000 and 1691/500/1000 are stated. The ranges keep
    # Planetoid's order (training, validation, test); the authors' own README names 1,000
    # validation and 500 test nodes and runs one past the end, against the paper.
    ends = (0, train, train + _VALIDATION, len(y))
    masks = from_indices(len(y), *(range(*part) for part in pairwise(ends)))
    _require_labels(y, masks, f"{stem}_labels.pkl")
    return RawGraph(
        x=x,
        y=y,
        pairs=np.stack([pairs.row, pairs.col]).astype(np.int64),
        masks=masks,
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
        if path.is_file() and path in published:
            warn(f"{name}: no digest of {path.name} is known; it is taken for the published file")
            return read_matrix(path), "published"
        if path.is_file():
            return read_matrix(path), "rebuilt"
    raise MissingDataError(
        f"{name} has its graph and labels in {folder}, but no features: put the authors' "
        f"{published[0].name} (https://github.com/THUDM/Refined-cora-citeseer) or your own "
        f"{rebuilt[0].name} there, or name a file with features=..."
    )
