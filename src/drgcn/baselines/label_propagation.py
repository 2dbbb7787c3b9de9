"""Label propagation: every node has the mean score of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from torch_geometric.data import Data

from drgcn.baselines.base import Prediction, SeenGraph


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
            laplacian = sparse.diags_array(seen.degrees.astype(np.float64)) - seen.adjacency
            rows = sparse.csr_array(laplacian)[free]
            given = -(rows[:, train] @ seen.train_targets)
            scores[free] = splu(sparse.csc_array(rows[:, free])).solve(given)
        if self.class_mass and free.any():
            share = np.bincount(seen.train_y.numpy(), minlength=seen.classes)
            mass = scores[free].sum(axis=0)
            scores[free] *= np.divide(share, mass, out=np.zeros_like(mass), where=mass > 0)
        return Prediction(torch.from_numpy(scores))
