"""What a baseline may look at: graph, features, and the labels of training and validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import InputError


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
        """The part of a loaded graph that a baseline may use.

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
        train, val, test = (
            mask.nonzero().flatten() for mask in (data.train_mask, data.val_mask, data.test_mask)
        )
        train_y = data.y[train]
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
        x = data.x.to_dense().float()
        return cls(
            x=x,
            adjacency=_adjacency(data.edge_index, len(x)),
            classes=int(train_y.max()) + 1,
            train=train,
            train_y=train_y,
            val=val,
            val_y=data.y[val],
            test=test,
        )

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

    def val_accuracy(self, scores: Tensor) -> float:
        """Share of validation nodes whose class has the highest score."""
        return float((scores[self.val].argmax(dim=1) == self.val_y).double().mean())


def _adjacency(edge_index: Tensor, nodes: int) -> sparse.csr_array:
    row, col = edge_index.numpy()
    row, col = row[row != col], edge_index[1].numpy()[row != col]
    both = (np.concatenate([row, col]), np.concatenate([col, row]))
    matrix = sparse.csr_array((np.ones(len(both[0])), both), shape=(nodes, nodes))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def seeded(seed: int) -> torch.Generator:
    """A generator of a baseline's own: nobody else's draws change its numbers."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"Expected a seed that is a whole number from 0 on; found {seed!r}.")
    return torch.Generator().manual_seed(seed)
