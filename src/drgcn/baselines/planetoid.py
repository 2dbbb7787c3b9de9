"""Planetoid: class labels and context in the graph predicted from the same vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.checks import expect_at_least, expect_positive
from drgcn.baselines.context_loss import context_loss
from drgcn.baselines.context_pairs import label_pairs, window_pairs
from drgcn.baselines.planetoid_net import PlanetoidNet
from drgcn.baselines.prediction import Prediction
from drgcn.baselines.random_walks import random_walks
from drgcn.baselines.seen_graph import SeenGraph, seeded
from drgcn.errors import InputError


@dataclass(frozen=True)
class Planetoid:
    """`"Revisiting Semi-Supervised Learning with Graph Embeddings"
    <https://arxiv.org/abs/1603.08861>`_ (Yang et al., 2016) in its transductive and inductive
    form.

    Contexts are told from drawn ones, as the paper writes it; the authors' code by default takes
    a softmax over all nodes instead. The code keeps the step that is best on what it tests; here
    it is the best on validation.

    Attributes:
        form: ``T``: a free vector for each node; ``I``: a function of its features, trained
            without test nodes.
        channels: Size of a vector: 50, the code's.
        window: Greatest distance of a pair in a walk: 3, the code's.
        length: Steps of a walk: 10, the code's.
        negatives: Wrong contexts of each pair: 5; the paper names a ratio and no number.
        label_rounds: Steps on pairs of equal labels before all else: 200. The code has 2,000
            plain steps for T; with Adam a tenth of them is better on validation (Cora).
        label_pairs: Pairs in each: 100, the code's for T.
        passes: How often each node starts a walk after that: 10. The code has 70 steps of 200
            walks, four passes over Citeseer and less than one over Pubmed.
        graph_nodes: Walks in a step: 200, the code's for T.
        graph_lr: Learning rate of both, by Adam: 0.003, better on validation (Cora) than 0.01.
        steps: Steps on classes, on all training nodes: 2,000; the script has no end.
        lr: Their learning rate, plain steps: 0.1, the code's.
    """

    name: ClassVar[str] = "planetoid-t"
    row: ClassVar[str] = "Planetoid"
    scaling: ClassVar[str] = "none"
    deterministic: ClassVar[bool] = False

    form: Literal["T", "I"] = "T"
    channels: int = 50
    window: int = 3
    length: int = 10
    negatives: int = 5
    label_rounds: int = 200
    label_pairs: int = 100
    passes: int = 10
    graph_nodes: int = 200
    graph_lr: float = 0.003
    steps: int = 2000
    lr: float = 0.1

    def __post_init__(self) -> None:
        if self.form not in ("T", "I"):
            raise InputError(
                f"Expected Planetoid's form to be T or I; found {self.form!r}. Use one of them."
            )
        expect_at_least(1, self, "channels", "window", "length", "label_pairs", "graph_nodes")
        expect_at_least(0, self, "label_rounds", "passes")
        expect_at_least(1, self, "steps", "negatives")
        expect_positive(self, "lr", "graph_lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation chooses the step that is kept."""
        seen = SeenGraph.of(data)
        generator = seeded(seed)
        net = PlanetoidNet(seen, self.channels, self.form == "T", generator)
        self._learn_contexts(net, seen, generator)
        classes = torch.optim.SGD(net.class_parameters, lr=self.lr)
        best, kept, kept_step = -1.0, net.state(), 0
        for step in range(1, self.steps + 1):
            classes.zero_grad()
            net.class_loss(seen.train, seen.train_y).backward()
            classes.step()
            right = net.scores(seen.val).argmax(dim=1) == seen.val_y
            accuracy = float(right.double().mean())
            if accuracy > best:
                best, kept, kept_step = accuracy, net.state(), step
        net.restore(kept)
        return Prediction(net.scores(torch.arange(seen.nodes)), {"step": kept_step})

    def _learn_contexts(
        self, net: PlanetoidNet, seen: SeenGraph, generator: torch.Generator
    ) -> None:
        optimizer = torch.optim.Adam(net.context_parameters, lr=self.graph_lr)
        equal = (
            label_pairs(seen.train, seen.train_y, self.label_pairs, self.negatives, generator)
            for _ in range(self.label_rounds)
        )
        for pairs, wrong in chain(equal, self._walk_pairs(seen, generator)):
            optimizer.zero_grad()
            context_loss(net.embed, net.context_weight, pairs, wrong).backward()
            optimizer.step()

    def _walk_pairs(
        self, seen: SeenGraph, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs out of walks from every node that has neighbours, and any nodes as wrong ones."""
        known = torch.ones(seen.nodes, dtype=torch.bool)
        if self.form == "I":
            known[seen.test] = False
        anyone = known.nonzero().flatten()
        starts = (known & torch.from_numpy(seen.degrees > 0)).nonzero().flatten()
        for _ in range(self.passes):
            order = starts[torch.randperm(len(starts), generator=generator)]
            for part in order.split(self.graph_nodes):
                walks = random_walks(seen.adjacency, part, self.length + 1, generator)
                pairs = window_pairs(walks, self.window)
                # Walks may pass through unseen nodes, as in the authors' code; pairs may not.
                pairs = pairs[:, known[pairs].all(dim=0)]
                size = (pairs.size(1), self.negatives)
                yield pairs, anyone[torch.randint(len(anyone), size, generator=generator)]


@dataclass(frozen=True)
class PlanetoidI(Planetoid):
    """The inductive form of :class:`Planetoid`."""

    name: ClassVar[str] = "planetoid-i"
    form: Literal["T", "I"] = "I"
