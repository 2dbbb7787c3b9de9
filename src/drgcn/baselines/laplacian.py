"""Methods solved exactly on the graph's Laplacian: label propagation, manifold regularisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from torch_geometric.data import Data

from drgcn.baselines.base import Prediction, SeenGraph, expect_positive


@dataclass(frozen=True)
class LabelPropagation:
    """The harmonic function of Zhu, Ghahramani and Lafferty (2003), "Semi-Supervised Learning
    Using Gaussian Fields and Harmonic Functions": training nodes keep their classes, all others
    have the mean score of their neighbours. Solved exactly; nothing is drawn, nothing is chosen.

    Nodes from which no training node can be reached score zero for every class, and so count as
    of the first.

    Attributes:
        class_mass: Whether scores are scaled so that each class has the share of all scores
            that it has of the training nodes (the paper's "class mass normalization"). Without
            it almost everything on Pubmed is given to one class.
    """

    name: ClassVar[str] = "label-propagation"
    row: ClassVar[str] = "LP"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = True

    class_mass: bool = True

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; the seed changes nothing."""
        seen = SeenGraph.of(data)
        train = seen.train.numpy()
        scores = np.zeros((seen.nodes, seen.classes))
        scores[train] = seen.train_targets
        _, piece = connected_components(seen.adjacency, directed=False)
        free = np.isin(piece, piece[train])
        free[train] = False
        if free.any():
            rows = _laplacian(seen)[free]
            given = -(rows[:, train] @ seen.train_targets)
            scores[free] = splu(sparse.csc_array(rows[:, free])).solve(given)
        if self.class_mass and free.any():
            share = np.bincount(seen.train_y.numpy(), minlength=seen.classes)
            mass = scores[free].sum(axis=0)
            scores[free] *= np.divide(share, mass, out=np.zeros_like(mass), where=mass > 0)
        return Prediction(torch.from_numpy(scores))


@dataclass(frozen=True)
class ManifoldRegularization:
    r"""Linear Laplacian-regularised least squares of Belkin, Niyogi and Sindhwani (2006),
    "Manifold Regularization". With :math:`l` training nodes, :math:`n` nodes and the graph's
    Laplacian :math:`\mathbf{L}` it minimises

    .. math::
        \frac{1}{l} \|\mathbf{X}_l \mathbf{W} - \mathbf{Y}\|^2 + \gamma_A \|\mathbf{W}\|^2
        + \frac{\gamma_I}{n^2} \mathrm{tr}(\mathbf{W}^\top \mathbf{X}^\top \mathbf{L} \mathbf{X}
        \mathbf{W}),

    where rows of :math:`\mathbf{X}` end in a one and :math:`\mathbf{Y}` holds ones and minus
    ones. Solved exactly; nothing is drawn.

    Attributes:
        ambient: Values of :math:`\gamma_A` to choose from by validation accuracy.
        intrinsic: Values of :math:`\gamma_I` likewise. The paper has no graph of its own here,
            so both lists are ours: powers of ten wide enough that none of the ends is chosen.
    """

    name: ClassVar[str] = "manireg"
    row: ClassVar[str] = "ManiReg"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = True

    ambient: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    intrinsic: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5, 1e6)

    def __post_init__(self) -> None:
        expect_positive(self, "ambient", "intrinsic")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; the seed changes nothing."""
        seen = SeenGraph.of(data)
        x = sparse.csr_array(np.column_stack([seen.x.double().numpy(), np.ones(seen.nodes)]))
        smooth = (x.T @ (_laplacian(seen) @ x)).toarray() / seen.nodes**2
        fitted = x[seen.train.numpy()]
        square = (fitted.T @ fitted).toarray() / fitted.shape[0]
        target = fitted.T @ (2 * seen.train_targets - 1) / fitted.shape[0]
        best, scores, chosen = -1.0, torch.empty(0), {}
        for intrinsic in self.intrinsic:
            for ambient in self.ambient:
                system = square + intrinsic * smooth + ambient * np.eye(len(square))
                weights = linalg.solve(system, target, assume_a="pos")
                found = torch.from_numpy(x @ weights)
                accuracy = seen.val_accuracy(found)
                if accuracy > best:
                    best, scores = accuracy, found
                    chosen = {"ambient": ambient, "intrinsic": intrinsic}
        return Prediction(scores, chosen)


def _laplacian(seen: SeenGraph) -> sparse.csr_array:
    """Degrees on the diagonal less the adjacency matrix."""
    degrees = sparse.diags_array(seen.degrees.astype(np.float64))
    return sparse.csr_array(degrees - seen.adjacency)
