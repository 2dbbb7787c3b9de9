"""DeepWalk: node vectors from random walks, then logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.base import (
    Prediction,
    SeenGraph,
    expect_at_least,
    logistic_regression,
    seeded,
)
from drgcn.errors import InputError


@dataclass(frozen=True)
class DeepWalk:
    """`"DeepWalk: Online Learning of Social Representations"
    <https://arxiv.org/abs/1403.6652>`_ (Perozzi et al., 2014), with negative sampling in place
    of the hierarchical softmax. It looks neither at features nor, for its vectors, at labels.

    Attributes:
        walks: Walks from each node: 10. The paper's experiments have 80 (gamma), trained online by
            plain gradient steps; ten of them with Adam come to as much on validation.
        length: Nodes in a walk: 40, as there (t).
        window: Greatest distance of a pair in a walk: 10, as there (w).
        channels: Size of a vector: 128, as there (d).
        negatives: Negatives of each pair: 5, the default of word2vec (Mikolov et al., 2013).
        shared_negatives: How many the pairs of a walk share, see
            :func:`~drgcn.baselines.deepwalk.skip_gram_loss`; ours.
        batch_size: Walks in a step; ours.
        lr: Learning rate of Adam, falling to zero in a straight line as word2vec's does; ours.
        inverse_penalty: ``C`` of scikit-learn's logistic regression: 1, its default, which the
            authors' scoring script leaves as it is.
    """

    name: ClassVar[str] = "deepwalk"
    row: ClassVar[str] = "DeepWalk"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = False

    walks: int = 10
    length: int = 40
    window: int = 10
    channels: int = 128
    negatives: int = 5
    shared_negatives: int = 20
    batch_size: int = 256
    lr: float = 0.01
    inverse_penalty: float = 1.0

    def __post_init__(self) -> None:
        expect_at_least(1, self, "walks", "window", "channels", "negatives", "shared_negatives")
        expect_at_least(2, self, "length")
        expect_at_least(1, self, "batch_size")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation is not looked at."""
        seen = SeenGraph.of(data)
        vectors = self.vectors(seen.adjacency, seed).numpy()
        weight, bias = logistic_regression(
            vectors[seen.train.numpy()],
            seen.train_y.numpy(),
            self.inverse_penalty,
            seen.classes,
        )
        return Prediction(torch.from_numpy(vectors @ weight + bias))

    def vectors(self, adjacency: sparse.csr_array, seed: int) -> Tensor:
        """A vector for each node ``[nodes, channels]``."""
        if not adjacency.nnz:
            raise InputError(
                "Expected a graph with edges to walk along; found none. Leave DeepWalk out, or "
                "add edges."
            )
        generator = seeded(seed)
        nodes = adjacency.shape[0]
        # As word2vec begins: small centres, contexts at zero.
        inner = (torch.rand(nodes, self.channels, generator=generator) - 0.5) / self.channels
        outer = torch.zeros(nodes, self.channels)
        inner.requires_grad_()
        outer.requires_grad_()
        optimizer = torch.optim.Adam([inner, outer], lr=self.lr)
        rounds = [part for _ in range(self.walks) for part in self._starts(nodes, generator)]
        # Walks visit a node as often as it has neighbours; word2vec draws by frequency ** 0.75.
        frequency = torch.from_numpy(adjacency.sum(axis=1)).clamp(min=1e-3) ** 0.75
        for step, starts in enumerate(rounds):
            walks = random_walks(adjacency, starts, self.length, generator)
            drawn = torch.multinomial(
                frequency, len(starts) * self.shared_negatives, True, generator=generator
            )
            loss = skip_gram_loss(
                inner,
                outer,
                walks,
                drawn.view(len(starts), -1),
                window=self.window,
                per_pair=self.negatives,
            )
            optimizer.param_groups[0]["lr"] = self.lr * (1 - step / len(rounds))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return inner.detach()

    def _starts(self, nodes: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Every node once, in a new order, in batches."""
        return torch.randperm(nodes, generator=generator).split(self.batch_size)


def skip_gram_loss(
    inner: Tensor,
    outer: Tensor,
    walks: Tensor,
    negatives: Tensor,
    *,
    window: int,
    per_pair: float,
) -> Tensor:
    r"""The loss of word2vec over all pairs of nodes that are near each other in a walk.

    For each pair :math:`(v, c)` at a distance of at most ``window`` places

    .. math::
        -\log \sigma(\mathbf{u}_v \cdot \mathbf{w}_c)
        - \sum_{k} \log \sigma(-\mathbf{u}_v \cdot \mathbf{w}_{n_k}),

    summed over pairs, with ``per_pair`` negatives :math:`n_k` in expectation. word2vec draws
    new ones for each pair; here the pairs of a walk share theirs, each with the weight that
    gives the same expected loss. That turns all pairs of a walk into one small product.

    Args:
        inner: Vectors :math:`\mathbf{u}` of nodes as centres ``[nodes, d]``.
        outer: Vectors :math:`\mathbf{w}` of nodes as contexts ``[nodes, d]``.
        walks: Nodes ``[walks, length]``.
        negatives: Drawn nodes ``[walks, drawn]``.
        window: Greatest distance of a pair.
        per_pair: Number of negatives that a pair counts with.

    Returns:
        The sum over all pairs.
    """
    centres = F.embedding(walks, inner)
    near = torch.bmm(centres, F.embedding(walks, outer).transpose(1, 2))
    far = torch.bmm(centres, F.embedding(negatives, outer).transpose(1, 2))
    place = torch.arange(walks.size(1))
    distance = (place[:, None] - place).abs()
    paired = ((distance > 0) & (distance <= window)).to(inner.dtype)
    positive = (F.softplus(-near) * paired).sum()
    # A centre at the end of a walk has fewer contexts, and so fewer negatives.
    weight = paired.sum(dim=1) * (per_pair / negatives.size(1))
    return positive + (F.softplus(far) * weight[:, None]).sum()


def random_walks(
    adjacency: sparse.csr_array, starts: Tensor, length: int, generator: torch.Generator
) -> Tensor:
    """Nodes visited by walks that go to a uniformly drawn neighbour at every step.

    Args:
        adjacency: Edges of the graph.
        starts: First node of each walk ``[walks]``.
        length: Number of nodes in a walk, the first included.
        generator: Where the draws come from.

    Returns:
        Nodes ``[walks, length]``. A walk that starts at a node without neighbours stays there.
    """
    first = torch.from_numpy(adjacency.indptr).long()
    neighbours = torch.from_numpy(adjacency.indices).long()
    degrees = first.diff()
    walks = torch.empty(len(starts), length, dtype=torch.long)
    walks[:, 0] = now = starts
    for step in range(1, length):
        drawn = torch.rand(len(starts), generator=generator, dtype=torch.float64)
        place = first[now] + (drawn * degrees[now]).long()
        alone = degrees[now] == 0
        # A place beyond the last entry is read only for nodes that stay where they are.
        now = torch.where(alone, now, neighbours[place.clamp(max=len(neighbours) - 1)])
        walks[:, step] = now
    return walks
