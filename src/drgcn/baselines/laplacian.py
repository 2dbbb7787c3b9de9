"""Methods that pull neighbours together: label propagation, manifold regularisation, SemiEmb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.base import Prediction, SeenGraph, expect_at_least, expect_positive, seeded
from drgcn.nn import SparseMatrix


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
    follows_data: ClassVar[bool] = False

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
    follows_data: ClassVar[bool] = False

    inductive: ClassVar[bool] = False

    ambient: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    intrinsic: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5, 1e6)

    def __post_init__(self) -> None:
        expect_positive(self, "ambient", "intrinsic")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; the seed changes nothing."""
        seen = SeenGraph.of(data)
        seen = seen.without_edges_of(seen.test) if self.inductive else seen
        fitted = chooser = _LeastSquares(seen)
        if self.inductive:
            # Judged on nodes that are as unseen as those of the test will be.
            chooser = _LeastSquares(seen.without_edges_of(seen.val))
        best, scores, chosen = -1.0, torch.empty(0), {}
        for intrinsic in self.intrinsic:
            for ambient in self.ambient:
                found = chooser.scores(ambient, intrinsic)
                accuracy = seen.val_accuracy(found)
                if accuracy > best:
                    best, scores = accuracy, found
                    chosen = {"ambient": ambient, "intrinsic": intrinsic}
        return Prediction(scores if chooser is fitted else fitted.scores(**chosen), chosen)


class _LeastSquares:
    """The parts of manifold regularisation's linear system that no strength changes."""

    def __init__(self, seen: SeenGraph) -> None:
        ones = np.ones(seen.nodes)
        self._x = x = sparse.csr_array(np.column_stack([seen.x.double().numpy(), ones]))
        self._smooth = (x.T @ (_laplacian(seen) @ x)).toarray() / seen.nodes**2
        fitted = x[seen.train.numpy()]
        self._square = (fitted.T @ fitted).toarray() / fitted.shape[0]
        self._target = fitted.T @ (2 * seen.train_targets - 1) / fitted.shape[0]

    def scores(self, ambient: float, intrinsic: float) -> Tensor:
        """Outputs of all nodes ``[nodes, classes]``."""
        ridge = ambient * np.eye(len(self._square))
        system = self._square + intrinsic * self._smooth + ridge
        return torch.from_numpy(self._x @ linalg.solve(system, self._target, assume_a="pos"))


@dataclass(frozen=True)
class InductiveManifoldRegularization(ManifoldRegularization):
    """:class:`ManifoldRegularization` that does not see the edges of test nodes: Yang et al.
    (2016), where the quoted numbers come from, have it among their inductive methods. Strengths
    are chosen without the edges of validation nodes either."""

    name: ClassVar[str] = "manireg-inductive"
    inductive: ClassVar[bool] = True


def _laplacian(seen: SeenGraph) -> sparse.csr_array:
    """Degrees on the diagonal less the adjacency matrix."""
    degrees = sparse.diags_array(seen.degrees.astype(np.float64))
    return sparse.csr_array(degrees - seen.adjacency)


@dataclass(frozen=True)
class SemiEmbedding:
    """`"Deep Learning via Semi-supervised Embedding"
    <https://doi.org/10.1145/1390156.1390303>`_ (Weston et al., 2008; 2012): a network with one
    hidden layer, trained on labels and, with a weight, on a margin loss that pulls the hidden
    layer together over edges and pushes it apart for drawn pairs. The step that is best on
    validation is kept.

    It sees the edges of all nodes, and its weight is chosen; :class:`InductiveSemiEmbedding` is
    the method behind the quoted numbers. The paper trains by single examples in turn, and the
    quoted numbers, of Yang et al. (2016), come without settings; where no source is named a
    setting is ours.

    Attributes:
        channels: Hidden width.
        margin: Least distance of nodes that are no neighbours.
        weights: Weights of the margin loss to choose from by validation accuracy. Beyond 1,000
            hardly anything but the margin loss is left, and accuracies stay as they are (Cora,
            Citeseer).
        epochs: Steps on all training nodes and all edges.
        lr: Learning rate of Adam.
        weight_decay: L2 coefficient on the first layer, as for the MLP of the same table.
    """

    name: ClassVar[str] = "semiemb"
    row: ClassVar[str] = "SemiEmb"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = False

    inductive: ClassVar[bool] = False

    channels: int = 50
    margin: float = 1.0
    weights: tuple[float, ...] = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect_at_least(1, self, "channels", "epochs")
        expect_positive(self, "margin", "weights", "lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`."""
        seen = SeenGraph.of(data)
        seen = seen.without_edges_of(seen.test) if self.inductive else seen
        x = SparseMatrix.from_tensor(seen.x)
        best, scores, chosen = -1.0, torch.empty(0), {}
        for weight in self.weights:
            accuracy, found, epoch = self._train(seen, x, weight, seed)
            if accuracy > best:
                best, scores, chosen = accuracy, found, {"weight": weight, "epoch": epoch}
        return Prediction(scores, chosen)

    def _train(
        self, seen: SeenGraph, x: SparseMatrix, weight: float, seed: int
    ) -> tuple[float, Tensor, int]:
        """The best validation accuracy, the scores it came with, and its epoch."""
        generator = seeded(seed)
        sizes = (seen.x.size(1), self.channels), (self.channels, seen.classes)
        first, last = (
            torch.nn.init.xavier_uniform_(torch.empty(size), generator=generator) for size in sizes
        )
        shift, bias = torch.zeros(self.channels), torch.zeros(seen.classes)
        parameters = [one.requires_grad_() for one in (first, shift, last, bias)]
        groups: list[dict[str, Any]] = [
            {"params": [first], "weight_decay": self.weight_decay},
            {"params": parameters[1:]},
        ]
        optimizer = torch.optim.Adam(groups, lr=self.lr)
        edges = _edges(seen.adjacency)
        best, kept, kept_epoch = -1.0, torch.empty(0), 0
        for epoch in range(1, self.epochs + 1):
            hidden = torch.tanh(x @ first + shift)
            scores = hidden @ last + bias
            accuracy = seen.val_accuracy(scores.detach())
            if accuracy > best:
                best, kept, kept_epoch = accuracy, scores.detach().clone(), epoch - 1
            drawn = torch.randint(seen.nodes, edges.shape, generator=generator)
            loss = F.cross_entropy(scores[seen.train], seen.train_y)
            loss = loss + weight * margin_loss(hidden, edges, drawn, self.margin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return best, kept, kept_epoch


@dataclass(frozen=True)
class InductiveSemiEmbedding(SemiEmbedding):
    """:class:`SemiEmbedding` as Yang et al. (2016) have it, among their inductive methods: edges
    of test nodes are not seen. Its one weight is that of the paper's algorithm, which takes a step
    on a label, on an edge and on a drawn pair in turn, each with the same rate."""

    name: ClassVar[str] = "semiemb-inductive"
    inductive: ClassVar[bool] = True

    weights: tuple[float, ...] = (1.0,)


def _edges(adjacency: sparse.csr_array) -> Tensor:
    """Each edge once ``[2, edges]``."""
    upper = sparse.coo_array(sparse.triu(adjacency))
    return torch.stack([torch.from_numpy(end).long() for end in upper.coords])


def margin_loss(vectors: Tensor, near: Tensor, far: Tensor, margin: float) -> Tensor:
    r"""The loss of Hadsell et al. (2006) that SemiEmb uses: for neighbours
    :math:`\|\mathbf{h}_i - \mathbf{h}_j\|^2`, for others
    :math:`\max(0, m - \|\mathbf{h}_i - \mathbf{h}_j\|)^2`, each a mean over its pairs.

    Args:
        vectors: One row per node ``[nodes, d]``.
        near: Pairs of neighbours ``[2, pairs]``.
        far: Pairs of other nodes ``[2, pairs]``.
        margin: Distance :math:`m` beyond which pairs add no loss.
    """
    apart = F.embedding(near[0], vectors) - F.embedding(near[1], vectors)
    pulled = (apart * apart).sum(dim=1)
    apart = F.embedding(far[0], vectors) - F.embedding(far[1], vectors)
    # The root has no slope at zero: a node drawn with itself is left out by the small number.
    distance = ((apart * apart).sum(dim=1) + 1e-12).sqrt()
    pushed = (margin - distance).clamp(min=0) ** 2
    return (pulled.sum() + pushed.sum()) / max(near.size(1), 1)
