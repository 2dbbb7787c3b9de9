"""Small datasets without files: tables of scikit-learn as graphs, and a planted graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from drgcn.data.assemble import RawGraph
from drgcn.data.downloader import Request
from drgcn.data.features import normalized
from drgcn.data.splits import Labels, draw, per_class
from drgcn.errors import InputError


def read(request: Request) -> RawGraph:
    """Make a set of the family ``table`` or ``planted``."""
    if request.entry.family == "planted":
        return make_planted(request.split_seed, **request.options)
    counts = request.entry.per_class or (20, 30)
    return _read_table(
        request.entry.name, request.split, request.split_seed, counts, **request.options
    )


def _read_table(
    name: str, split: str, split_seed: int, counts: tuple[int, int], k: int = 10
) -> RawGraph:
    """Join each row of a table of scikit-learn to its ``k`` nearest rows.

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


def make_planted(
    split_seed: int,
    *,
    nodes: int = 2000,
    classes: int = 4,
    features: int = 64,
    informative: int = 16,
    signal: float = 1.0,
    nuisance_scale: float = 10.0,
    homophily: float = 0.6,
    mean_degree: float = 5.0,
    labels_per_class: int = 30,
    val_per_class: int = 125,
    seed: int = 0,
) -> RawGraph:
    """Draw a graph of blocks whose class signal sits in a few features of unit noise.

    Node :math:`v` of class :math:`c` has :math:`x_v = (m_c + e_v,\\; n_v)` with class means
    :math:`m_c \\sim N(0, \\text{signal}^2)`, noise :math:`e_v \\sim N(0, 1)` in the
    ``informative`` columns and :math:`n_v \\sim N(0, \\text{nuisance\\_scale}^2)` in the others.
    The informative columns come first. Classes are of equal size (up to one node).

    Args:
        split_seed: Seed of the split alone.
        nodes: Number of nodes.
        classes: Number of classes.
        features: Number of columns in all.
        informative: Number of columns that carry the class.
        signal: Standard deviation of the class means.
        nuisance_scale: Standard deviation of the columns that carry nothing.
        homophily: Share of drawn edges that join two nodes of one class.
        mean_degree: Edges drawn per node, times two; merged repetitions make it a little less.
        labels_per_class: Training nodes of each class.
        val_per_class: Validation nodes of each class; the rest is the test part.
        seed: Seed of everything but the split.
    """
    _require(nodes >= 2 * classes and classes >= 2, "classes >= 2 and nodes >= 2 * classes")
    _require(0 <= informative <= features and features >= 1, "0 <= informative <= features")
    _require(0 <= homophily <= 1 and mean_degree >= 0, "homophily in [0, 1] and mean_degree >= 0")
    _require(signal >= 0 and nuisance_scale >= 0, "signal >= 0 and nuisance_scale >= 0")
    _require(labels_per_class >= 1 and val_per_class >= 1, "at least one node per class and part")
    _require(seed >= 0, "seed >= 0")

    rng = np.random.Generator(np.random.PCG64(seed))
    y = rng.permutation(np.arange(nodes) % classes)
    means = rng.normal(0.0, signal, (classes, informative))
    quiet = means[y] + rng.normal(0.0, 1.0, (nodes, informative))
    loud = rng.normal(0.0, nuisance_scale, (nodes, features - informative))
    pairs = _block_edges(y, classes, round(nodes * mean_degree / 2), homophily, rng)
    return RawGraph(
        x=np.concatenate([quiet, loud], axis=1),
        y=y,
        pairs=pairs,
        masks=per_class(y, labels_per_class, val_per_class, split_seed),
        split="random",
        split_seed=split_seed,
        feature_source="generated",
    )


def _block_edges(
    y: Labels, classes: int, count: int, homophily: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw ``count`` edges: a uniform source, and a uniform target in its own or another class."""
    order = np.argsort(y, kind="stable")
    sizes = np.bincount(y, minlength=classes)
    starts = np.cumsum(sizes) - sizes
    source = rng.integers(len(y), size=count)
    shift = np.where(rng.random(count) < homophily, 0, rng.integers(1, classes, size=count))
    block = (y[source] + shift) % classes
    place = starts[block] + np.floor(rng.random(count) * sizes[block]).astype(np.int64)
    return np.stack([source, order[place]])


def _require(holds: bool, condition: str) -> None:
    if not holds:
        raise InputError(f"the planted graph needs {condition}: change these options")
