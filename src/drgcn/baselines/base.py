"""Common parts of the baselines: the graph they see, predictions, logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import InputError, warn

Numbers = npt.NDArray[np.float64]

_STEPS = 1000


@dataclass(frozen=True, eq=False)
class Prediction:
    """Scores of classes, and what was chosen on validation to get them.

    Attributes:
        scores: One row per node, one column per class ``[nodes, classes]``; the highest counts.
        chosen: Settings that were picked by validation accuracy, by name; empty if none was.
    """

    scores: Tensor
    chosen: dict[str, Any] = field(default_factory=dict)


class Baseline(Protocol):
    """A method that classifies nodes; its fields are its settings.

    Attributes:
        name: What it is called on the command line and in records.
        row: Its row in the paper's table.
        scaling: What to give :func:`drgcn.load` as ``normalize``.
        deterministic: Whether the seed changes nothing.
        follows_data: Whether it computes on the device of the data; others use the CPU.
    """

    name: ClassVar[str]
    row: ClassVar[str]
    scaling: ClassVar[str]
    deterministic: ClassVar[bool]
    follows_data: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """Scores for all nodes, from training labels; validation serves for choosing alone."""
        ...


def expect_at_least(least: int, settings: object, *names: str) -> None:
    """Raise unless the named settings are whole numbers of at least ``least``."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(
                f"Expected {name} of {type(settings).__name__} to be a whole number from {least} "
                f"on; found {value!r}. Change it."
            )


def expect_positive(settings: object, *names: str) -> None:
    """Raise unless the named settings are numbers above zero, or tuples of such numbers."""
    for name in names:
        value = getattr(settings, name)
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(isinstance(one, int | float) and one > 0 for one in values):
            raise InputError(
                f"Expected {name} of {type(settings).__name__} to be above zero; found {value!r}. "
                f"Change it."
            )


@dataclass(frozen=True, eq=False)
class SeenGraph:
    """A graph without the labels of its test nodes.

    Every method reads this and nothing else, so no method can see what it is tested on.

    Attributes:
        x: Features ``[nodes, features]``, dense.
        adjacency: Ones at the edges, both ways, nothing on the diagonal.
        classes: Number of classes among training nodes; others cannot be learnt.
        train: Training nodes, in rising order.
        train_y: Their classes.
        val: Validation nodes.
        val_y: Their classes; for choosing settings alone.
        test: Test nodes, which an inductive method leaves out of its training.
    """

    x: Tensor
    adjacency: sparse.csr_array
    classes: int
    train: Tensor
    train_y: Tensor
    val: Tensor
    val_y: Tensor
    test: Tensor

    @classmethod
    def of(cls, data: Data) -> SeenGraph:
        """Return the part of a loaded graph that a baseline may use, on the CPU.

        Raises:
            InputError: If something is missing, or nodes have several labels.
        """
        for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
            if data.get(name) is None:
                raise InputError(
                    f"Expected a graph with {name}; found none. Load it with drgcn.load."
                )
        if data.y.dim() != 1:
            raise InputError(
                f"Expected one class per node; found {data.y.size(1)} labels per node. The "
                f"baselines are for sets of one class per node, such as cora."
            )
        masks = (data.train_mask, data.val_mask, data.test_mask)
        train, val, test = (mask.nonzero().flatten().cpu() for mask in masks)
        y = data.y.cpu()
        train_y = y[train]
        if len(train_y.unique()) < 2 or int(train_y.min()) < 0:
            raise InputError(
                f"Expected labelled training nodes of two classes or more; found "
                f"{len(train_y[train_y >= 0].unique())} classes on {len(train)} training nodes. "
                f"Use a split that has them."
            )
        if len(val) == 0:
            raise InputError(
                "Expected validation nodes; found none. Use a split that has them: settings are "
                "chosen on them."
            )
        if data.get("edge_weight") is not None:
            warn("baselines take no edge weights: those of the data are not used")
        x = data.x.to_dense().float().cpu()
        return cls(
            x=x,
            adjacency=_adjacency(data.edge_index.cpu(), len(x)),
            classes=int(train_y.max()) + 1,
            train=train,
            train_y=train_y,
            val=val,
            val_y=y[val],
            test=test,
        )

    def without_edges_of(self, nodes: Tensor) -> SeenGraph:
        """Return the graph as a method sees it that is to predict these nodes unseen."""
        kept = torch.ones(self.nodes, dtype=torch.bool)
        kept[nodes] = False
        edge_index = self.edge_index
        edge_index = edge_index[:, kept[edge_index].all(dim=0)]
        return replace(self, adjacency=_adjacency(edge_index, self.nodes))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.x)

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """Number of neighbours of each node."""
        return np.diff(self.adjacency.indptr).astype(np.int64)

    @property
    def train_targets(self) -> npt.NDArray[np.float64]:
        """A row with a single one for each training node, in the order of ``train``."""
        return np.eye(self.classes)[self.train_y.numpy()]

    @property
    def edge_index(self) -> Tensor:
        """Both directions of every edge ``[2, edges]``, in the order of ``adjacency``."""
        ends = sparse.coo_array(self.adjacency).coords
        return torch.stack([torch.from_numpy(end).long() for end in ends])

    def val_accuracy(self, scores: Tensor) -> float:
        """Share of validation nodes whose class has the highest score."""
        return float((scores[self.val].argmax(dim=1).cpu() == self.val_y).double().mean())


def _adjacency(edge_index: Tensor, nodes: int) -> sparse.csr_array:
    row, col = edge_index[:, edge_index[0] != edge_index[1]].numpy()
    both = (np.concatenate([row, col]), np.concatenate([col, row]))
    matrix = sparse.csr_array((np.ones(len(both[0])), both), shape=(nodes, nodes))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def seeded(seed: int) -> torch.Generator:
    """Return a generator of its own for a baseline, independent of the global random state."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"Expected a seed that is a whole number from 0 on; found {seed!r}.")
    return torch.Generator().manual_seed(seed)


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from the global generators as this seed says, and put them back behind it."""
    first = seeded(seed).initial_seed()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(first)
        yield


def logistic_regression(
    x: sparse.csr_array | Numbers,
    y: npt.NDArray[np.int64],
    inverse_penalty: float,
    classes: int,
) -> tuple[Numbers, Numbers]:
    """Fit scikit-learn's regression with an L2 penalty.

    Args:
        x: One row per labelled node.
        y: Their classes.
        inverse_penalty: scikit-learn's ``C``.
        classes: Number of classes; those that no node has get a score of minus infinity.

    Returns:
        Weights ``[features, classes]`` and biases ``[classes]``.
    """
    model = LogisticRegression(C=inverse_penalty, max_iter=_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(x, y)
        except ConvergenceWarning:
            warn(
                f"a logistic regression has not come to an end in {_STEPS:,} steps; scale the "
                f"features (normalize='standard') for one that does"
            )
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x, y)
    weight = np.zeros((x.shape[1], classes))
    bias = np.full(classes, -np.inf)
    if len(model.classes_) == 2:  # scikit-learn keeps one row of weights for two classes
        weight[:, model.classes_[1]] = model.coef_[0]
        bias[model.classes_] = 0.0, model.intercept_[0]
    else:
        weight[:, model.classes_] = model.coef_.T
        bias[model.classes_] = model.intercept_
    return weight, bias
