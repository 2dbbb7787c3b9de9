"""DeepWalk: vectors of nodes out of random walks, then a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.checks import expect_at_least
from drgcn.baselines.logistic_regression import logistic_regression
from drgcn.baselines.prediction import Prediction
from drgcn.baselines.random_walks import random_walks
from drgcn.baselines.seen_graph import SeenGraph, seeded
from drgcn.baselines.skip_gram import skip_gram_loss
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
            :func:`~drgcn.baselines.skip_gram.skip_gram_loss`; ours.
        batch_size: Walks in a step; ours.
        lr: Learning rate of Adam, falling to zero in a straight line as word2vec's does; ours.
        inverse_penalty: ``C`` of scikit-learn's logistic regression: 1, its default, which the
            authors' scoring script leaves as it is.
    """

    name: ClassVar[str] = "deepwalk"
    row: ClassVar[str] = "DeepWalk"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False

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
