"""Planetoid: class labels and context in the graph predicted from the same vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from drgcn.baselines.base import Prediction, SeenGraph, expect_at_least, expect_positive, seeded
from drgcn.baselines.deepwalk import random_walks
from drgcn.errors import InputError


@dataclass(frozen=True)
class Planetoid:
    """`"Revisiting Semi-Supervised Learning with Graph Embeddings"
    <https://arxiv.org/abs/1603.08861>`_ (Yang et al., 2016) in its transductive and inductive
    form, with settings of ours; :class:`PlanetoidScript` has those of the authors' script.

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
    follows_data: ClassVar[bool] = False

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
        return learn_classes(net, seen, self.lr, self.steps)

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


@dataclass(frozen=True)
class PlanetoidScript:
    """Planetoid-T with the loss, the optimiser and the settings of the authors' script.

    A context is predicted by a softmax over all nodes with a bias for each, and all steps are
    plain gradient steps, those on contexts on the sum over pairs. The one departure: the script
    keeps the step that is best on the nodes it reports, here it is the best on validation.

    Attributes:
        channels: Size of a vector: 50.
        window: Greatest distance of a pair in a walk: 3.
        length: Steps of a walk: 10.
        label_rounds: Steps on pairs of equal labels: 2,000.
        label_pairs: Pairs in each: 100.
        graph_rounds: Steps on pairs out of walks: 70.
        graph_nodes: Walks in each: 200, from nodes in a drawn order until all have had a turn.
        graph_lr: Learning rate of both: 0.01.
        steps: Steps on classes, on all training nodes: 2,000; the script has no end.
        lr: Their learning rate: 0.1.
    """

    name: ClassVar[str] = "planetoid-t-script"
    row: ClassVar[str] = "Planetoid"
    scaling: ClassVar[str] = "none"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = False

    channels: int = 50
    window: int = 3
    length: int = 10
    label_rounds: int = 2000
    label_pairs: int = 100
    graph_rounds: int = 70
    graph_nodes: int = 200
    graph_lr: float = 0.01
    steps: int = 2000
    lr: float = 0.1

    def __post_init__(self) -> None:
        expect_at_least(1, self, "channels", "window", "length", "label_pairs", "graph_nodes")
        expect_at_least(0, self, "label_rounds", "graph_rounds")
        expect_at_least(1, self, "steps")
        expect_positive(self, "lr", "graph_lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation chooses the step that is kept."""
        seen = SeenGraph.of(data)
        generator = seeded(seed)
        net = PlanetoidNet(seen, self.channels, True, generator)
        bias = torch.zeros(seen.nodes, requires_grad=True)
        optimizer = torch.optim.SGD([*net.context_parameters, bias], lr=self.graph_lr)
        for pairs in chain(self._label_pairs(seen, generator), self._walk_pairs(seen, generator)):
            optimizer.zero_grad()
            softmax_context_loss(net.embed, net.context_weight, bias, pairs).backward()
            optimizer.step()
        return learn_classes(net, seen, self.lr, self.steps)

    def _label_pairs(self, seen: SeenGraph, generator: torch.Generator) -> Iterator[Tensor]:
        for _ in range(self.label_rounds):
            yield label_pairs(seen.train, seen.train_y, self.label_pairs, 0, generator)[0]

    def _walk_pairs(self, seen: SeenGraph, generator: torch.Generator) -> Iterator[Tensor]:
        connected = torch.from_numpy(seen.degrees > 0)
        waiting: list[Tensor] = []
        for _ in range(self.graph_rounds):
            if not waiting:
                order = torch.randperm(seen.nodes, generator=generator)
                waiting = [*order.split(self.graph_nodes)]
            starts = waiting.pop(0)
            starts = starts[connected[starts]]
            walks = random_walks(seen.adjacency, starts, self.length + 1, generator)
            yield window_pairs(walks, self.window)


def learn_classes(net: PlanetoidNet, seen: SeenGraph, lr: float, steps: int) -> Prediction:
    """Train on classes by plain steps, and return what the best on validation predicts."""
    optimizer = torch.optim.SGD(net.class_parameters, lr=lr)
    best, kept, kept_step = -1.0, net.state(), 0
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        net.class_loss(seen.train, seen.train_y).backward()
        optimizer.step()
        right = net.scores(seen.val).argmax(dim=1) == seen.val_y
        accuracy = float(right.double().mean())
        if accuracy > best:
            best, kept, kept_step = accuracy, net.state(), step
    net.restore(kept)
    return Prediction(net.scores(torch.arange(seen.nodes)), {"step": kept_step})


class PlanetoidNet:
    """Classes out of features and vectors; vectors are free, or a layer over features.

    As in the authors' code, features and vectors first give class probabilities each on their
    own, both with a loss, and a last layer decides between them.

    Args:
        seen: The graph.
        channels: Size of a vector.
        free: Whether each node has a vector of its own.
        generator: Where initial weights come from.
    """

    def __init__(
        self, seen: SeenGraph, channels: int, free: bool, generator: torch.Generator
    ) -> None:
        features, classes = seen.x.size(1), seen.classes

        def glorot(rows: int, columns: int) -> Tensor:
            weight = torch.empty(rows, columns)
            return torch.nn.init.xavier_uniform_(weight, generator=generator).requires_grad_()

        def zeros(count: int) -> Tensor:
            return torch.zeros(count, requires_grad=True)

        self._x = seen.x
        self._free = free
        if free:
            drawn = 0.01 * torch.randn(seen.nodes, channels, generator=generator)
            self._embedding = [drawn.requires_grad_()]
        else:
            self._embedding = [glorot(features, channels), zeros(channels)]
        self.context_weight = glorot(seen.nodes, channels)
        self._from_x = [glorot(features, classes), zeros(classes)]
        self._from_vector = [glorot(channels, classes), zeros(classes)]
        self._last = [glorot(2 * classes, classes), zeros(classes)]

    @property
    def context_parameters(self) -> list[Tensor]:
        """Parameters that are trained to predict contexts."""
        return [*self._embedding, self.context_weight]

    @property
    def class_parameters(self) -> list[Tensor]:
        """Parameters that are trained to predict classes; vectors are trained for both."""
        return [*self._embedding, *self._from_x, *self._from_vector, *self._last]

    def embed(self, nodes: Tensor) -> Tensor:
        """Vectors of nodes ``[count, channels]``."""
        if self._free:
            return F.embedding(nodes, self._embedding[0])
        weight, bias = self._embedding
        return F.relu(self._x[nodes] @ weight + bias)

    def class_loss(self, nodes: Tensor, y: Tensor) -> Tensor:
        """Cross-entropies of both parts and of the whole, each a mean over nodes."""
        own, vector, whole = self._logits(nodes)
        return F.cross_entropy(own, y) + F.cross_entropy(vector, y) + F.cross_entropy(whole, y)

    @torch.no_grad()
    def scores(self, nodes: Tensor) -> Tensor:
        """Logarithms of class probabilities ``[count, classes]``."""
        return self._logits(nodes)[2].log_softmax(dim=1)

    def state(self) -> list[Tensor]:
        """Return a copy of the class parameters."""
        return [one.detach().clone() for one in self.class_parameters]

    @torch.no_grad()
    def restore(self, state: list[Tensor]) -> None:
        """Set the parameters back to a copy."""
        for one, kept in zip(self.class_parameters, state, strict=True):
            one.copy_(kept)

    def _logits(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own = self._x[nodes] @ self._from_x[0] + self._from_x[1]
        vector = self.embed(nodes) @ self._from_vector[0] + self._from_vector[1]
        both = torch.cat([own.softmax(dim=1), vector.softmax(dim=1)], dim=1)
        return own, vector, both @ self._last[0] + self._last[1]


def context_loss(
    embed: Callable[[Tensor], Tensor], weight: Tensor, pairs: Tensor, wrong: Tensor
) -> Tensor:
    r"""The loss of Planetoid's contexts, summed over pairs: for a centre :math:`i`, its context
    :math:`c` and wrong contexts :math:`n`

    .. math::
        -\log \sigma(\mathbf{w}_c \cdot \mathbf{e}_i)
        - \sum_n \log \sigma(-\mathbf{w}_n \cdot \mathbf{e}_i).

    Args:
        embed: Gives the vectors of nodes ``[count, d]``.
        weight: A vector for each node as context ``[nodes, d]``.
        pairs: Centre and context ``[2, pairs]``.
        wrong: Wrong contexts of each pair ``[pairs, negatives]``.
    """
    # A centre stands in many pairs, and a layer over features is dear.
    centres, place = pairs[0].unique(return_inverse=True)
    vectors = F.embedding(place, embed(centres))
    right = (vectors * F.embedding(pairs[1], weight)).sum(dim=1)
    drawn = (F.embedding(wrong, weight) @ vectors[:, :, None]).squeeze(2)
    return F.softplus(-right).sum() + F.softplus(drawn).sum()


def softmax_context_loss(
    embed: Callable[[Tensor], Tensor], weight: Tensor, bias: Tensor, pairs: Tensor
) -> Tensor:
    r"""The loss of the authors' script, summed over pairs: for a centre :math:`i` and its context
    :math:`c`

    .. math::
        -\log \mathrm{softmax}_c(\mathbf{W} \mathbf{e}_i + \mathbf{b}).

    Args:
        embed: Gives the vectors of nodes ``[count, d]``.
        weight: A vector for each node as context ``[nodes, d]``.
        bias: A number for each node as context ``[nodes]``.
        pairs: Centre and context ``[2, pairs]``.
    """
    # A centre stands in many pairs, and its softmax over all nodes is the same in each.
    centres, place = pairs[0].unique(return_inverse=True)
    scores = torch.addmm(bias, embed(centres), weight.t())
    pairs_of = place.bincount(minlength=len(centres))
    return (pairs_of * scores.logsumexp(dim=1)).sum() - scores[place, pairs[1]].sum()


def window_pairs(walks: Tensor, window: int) -> Tensor:
    """All pairs in a walk at a distance of at most ``window``, a node with itself included.

    Args:
        walks: Nodes ``[walks, length]``.
        window: Greatest distance.

    Returns:
        Centre and context of each pair ``[2, pairs]``.
    """
    place = torch.arange(walks.size(1))
    centre, context = ((place[:, None] - place).abs() <= window).nonzero().unbind(dim=1)
    return torch.stack([walks[:, centre].flatten(), walks[:, context].flatten()])


def label_pairs(
    nodes: Tensor, y: Tensor, count: int, negatives: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Labelled nodes drawn uniformly, each with a node of its class and some of other classes.

    Args:
        nodes: Labelled nodes, of two classes or more.
        y: Their classes.
        count: How many pairs to draw.
        negatives: How many nodes of other classes to draw for each.
        generator: Where the draws come from.

    Returns:
        Centre and context of each pair ``[2, count]``, which may be the same node, and the wrong
        contexts ``[count, negatives]``.
    """
    order = y.argsort(stable=True)
    sizes = y.bincount()
    begins = sizes.cumsum(0) - sizes
    centre = torch.randint(len(nodes), (count,), generator=generator)
    begin, size = begins[y[centre]], sizes[y[centre]]
    drawn = torch.rand(count, 1 + negatives, generator=generator, dtype=torch.float64)
    context = order[begin + (drawn[:, 0] * size).long()]
    # Around the ring of sorted labels, starting behind the own class.
    others = (drawn[:, 1:] * (len(y) - size)[:, None]).long()
    wrong = order[((begin + size)[:, None] + others) % len(y)]
    return torch.stack([nodes[centre], nodes[context]]), nodes[wrong]
