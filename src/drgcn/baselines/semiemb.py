"""SemiEmb: a perceptron with a margin loss on the hidden vectors of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.base import Prediction, SeenGraph, expect_at_least, expect_positive, seeded
from drgcn.nn import SparseMatrix


@dataclass(frozen=True)
class SemiEmbedding:
    """`"Deep Learning via Semi-supervised Embedding"
    <https://doi.org/10.1145/1390156.1390303>`_ (Weston et al., 2008; 2012): a network with one
    hidden layer, trained on labels and, with a weight, on a margin loss that pulls the hidden
    layer together over edges and pushes it apart for drawn pairs. The step that is best on
    validation is kept.

    The paper trains by single examples in turn, and the quoted numbers, of Yang et al. (2016),
    come without settings; where no source is named a setting is ours.

    Attributes:
        channels: Hidden width.
        margin: Least distance of nodes that are no neighbours.
        weights: Weights of the margin loss to choose from by validation accuracy.
        epochs: Steps on all training nodes and all edges.
        lr: Learning rate of Adam.
        weight_decay: L2 coefficient on the first layer, as for the MLP of the same table.
    """

    name: ClassVar[str] = "semiemb"
    row: ClassVar[str] = "SemiEmb"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False

    channels: int = 50
    margin: float = 1.0
    weights: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect_at_least(1, self, "channels", "epochs")
        expect_positive(self, "margin", "weights", "lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`."""
        seen = SeenGraph.of(data)
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
