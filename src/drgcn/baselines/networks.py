"""Networks that the paper quotes and does not run: MoNet, DPFCNN and GraphSGAN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GMMConv
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.utils import add_self_loops, softmax

from drgcn.baselines.base import (
    Prediction,
    SeenGraph,
    expect_at_least,
    expect_positive,
    own_randomness,
)
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.nn.base import Features
from drgcn.nn.base import dropout as drop
from drgcn.nn.gat import attention_coefficients
from drgcn.nn.graph import neighborhoods
from drgcn.nn.sparse import SparseMatrix, SparsePattern, spmm


@dataclass(frozen=True)
class MoNet:
    """`"Geometric Deep Learning on Graphs and Manifolds Using Mixture Model CNNs"
    <https://arxiv.org/abs/1611.08402>`_ (Monti et al., 2017) on a graph: two layers of PyG's
    ``GMMConv``, each with a linear map and a tanh over the degrees of an edge's ends,
    :math:`(1/\\sqrt{d_i}, 1/\\sqrt{d_j})`. The epoch that is best on validation is kept.

    No code of the authors was found; where it says so, a setting is that of DGL's example. That
    sums over neighbours, without the node itself, and has no ReLU; means over neighbours and the
    node, and a ReLU, are better on validation (Cora).

    Attributes:
        channels: Hidden width: 16, DGL's.
        kernels: Gaussians of a layer: 3, DGL's.
        coordinates: Dimensions of the mapped coordinates to choose from by validation accuracy.
            DGL has 2 for Cora and 3 for Pubmed.
        dropout: Of the input of both layers: 0.5, DGL's rate at the second.
        epochs: 200, DGL's.
        lr: Learning rate of Adam: 0.01, DGL's.
        weight_decay: L2 coefficient of all parameters: 5e-4, DGL's.
    """

    name: ClassVar[str] = "monet"
    row: ClassVar[str] = "MoNet"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = True

    channels: int = 16
    kernels: int = 3
    coordinates: tuple[int, ...] = (2, 3)
    dropout: float = 0.5
    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect_at_least(1, self, "channels", "kernels", "epochs")
        expect_positive(self, "coordinates", "lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation chooses coordinates and epoch."""
        seen, device = SeenGraph.of(data), data.x.device
        edge_index, _ = add_self_loops(seen.edge_index.to(device), num_nodes=seen.nodes)
        degrees = torch.from_numpy(seen.degrees + 1).float().to(device)
        ends = degrees.rsqrt()[edge_index].t().contiguous()
        x = SparseMatrix.from_tensor(seen.x).to(device)
        widths = (seen.x.size(1), self.channels, seen.classes)
        best, prediction = -1.0, Prediction(torch.empty(0))
        for coordinates in self.coordinates:
            with own_randomness(seed, device):
                net = MixtureNetwork(widths, coordinates, self.kernels, self.dropout).to(device)
                optimizer = torch.optim.Adam(
                    net.parameters(), lr=self.lr, weight_decay=self.weight_decay
                )
                forward = partial(net, x, edge_index, ends)
                fitted = keep_best(forward, net, optimizer, seen, self.epochs)
            if (accuracy := seen.val_accuracy(fitted.scores)) > best:
                best = accuracy
                chosen = {"coordinates": coordinates, **fitted.chosen}
                prediction = Prediction(fitted.scores, chosen)
        return prediction


class MixtureNetwork(nn.Module):
    """Mixture model convolutions with a ReLU between them.

    Args:
        channels: Widths of the input, of what lies between layers, and of the output.
        coordinates: Dimensions that the coordinates of an edge are mapped to.
        kernels: Gaussians of a layer.
        dropout: Dropout rate of every layer's input.
    """

    def __init__(
        self, channels: tuple[int, ...], coordinates: int, kernels: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        widths = [*pairwise(channels)]
        self.maps = nn.ModuleList(nn.Linear(2, coordinates) for _ in widths)
        layers = [GMMConv(*width, coordinates, kernels, root_weight=False) for width in widths]
        for layer in layers:
            # PyG draws widths of Gaussians around zero, where no coordinate is near a centre.
            nn.init.normal_(layer.mu, std=0.1)
            nn.init.ones_(layer.sigma)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Features, edge_index: Tensor, ends: Tensor) -> Tensor:
        """Scores of classes ``[nodes, classes]``.

        Args:
            x: Features.
            edge_index: Edges.
            ends: Coordinates of each edge ``[edges, 2]``.
        """
        size = (x.shape[0], x.shape[0])
        for layer, mapped in zip(self.layers, self.maps, strict=True):
            x = drop(x, self.dropout, self.training)
            source = x.to_csr() if isinstance(x, SparseMatrix) else x
            # As a pair without targets: PyG looks for a root weight that the layer does not have.
            out: Tensor = layer((source, None), edge_index, torch.tanh(mapped(ends)), size=size)
            x = F.relu(out)
        return out


def keep_best(
    forward: Callable[[], Tensor],
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    seen: SeenGraph,
    epochs: int,
    patience: int | None = None,
) -> Prediction:
    """Train a network on all training nodes at once, and return its scores at the epoch with the
    best validation accuracy, of several the one with the least validation loss.

    Args:
        forward: Scores of all nodes.
        net: The network, for its mode.
        optimizer: Of its parameters.
        seen: The graph.
        epochs: Steps at most.
        patience: Stop after so many epochs without a better one.
    """
    best, kept, kept_epoch = (-1.0, 0.0), torch.empty(0), 0
    learnt = (seen.val_y >= 0) & (seen.val_y < seen.classes)  # others have no score
    val, val_y = seen.val[learnt], seen.val_y[learnt]
    for epoch in range(1, epochs + 1):
        net.train()
        optimizer.zero_grad()
        scores = forward()
        train_y = seen.train_y.to(scores.device)
        F.cross_entropy(scores[seen.train], train_y).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            scores = forward().cpu()
        loss = float(F.cross_entropy(scores[val], val_y))
        reached = (seen.val_accuracy(scores), -loss)
        if reached > best:
            best, kept, kept_epoch = reached, scores, epoch
        if patience is not None and epoch - kept_epoch >= patience:
            break
    return Prediction(kept, {"epoch": kept_epoch})


@dataclass(frozen=True)
class DualPrimal:
    """`"Dual-Primal Graph Convolutional Networks" <https://arxiv.org/abs/1806.00770>`_ (Monti et
    al., 2018), quoted as DPFCNN: two layers of :class:`DualPrimalConv`.

    No code of the authors was found, nor their settings; these are GAT's for citation graphs,
    which the paper generalises.

    Attributes:
        heads: Attention heads of the first layer: 8. The last has one.
        channels: Width of a head, of nodes and of edges alike: 8.
        dropout: Of features and of attention: 0.6.
        epochs: At most 1,000.
        patience: Epochs without a better one on validation: 100.
        lr: Learning rate of Adam: 0.005.
        weight_decay: L2 coefficient of all parameters: 5e-4.
    """

    name: ClassVar[str] = "dpfcnn"
    row: ClassVar[str] = "DPFCNN"
    scaling: ClassVar[str] = "row"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = True

    heads: int = 8
    channels: int = 8
    dropout: float = 0.6
    epochs: int = 1000
    patience: int = 100
    lr: float = 0.005
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect_at_least(1, self, "heads", "channels", "epochs", "patience")
        expect_positive(self, "lr")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation chooses the epoch."""
        seen, device = SeenGraph.of(data), data.x.device
        edges = neighborhoods(seen.edge_index, seen.nodes)
        pairs = edges_that_meet(edges).to(device)
        edges, x = edges.to(device), SparseMatrix.from_tensor(seen.x).to(device)
        with own_randomness(seed, device):
            first = DualPrimalConv(x.shape[1], self.channels, self.heads, self.dropout)
            last = DualPrimalConv(self.heads * self.channels, seen.classes, 1, self.dropout)
            net = nn.ModuleList([first, last]).to(device)
            optimizer = torch.optim.Adam(
                net.parameters(), lr=self.lr, weight_decay=self.weight_decay
            )

            def forward() -> Tensor:
                hidden = F.elu(first(x, edges, pairs))
                return last(hidden, edges, pairs)

            return keep_best(forward, net, optimizer, seen, self.epochs, self.patience)


class DualPrimalConv(nn.Module):
    r"""Attention between edges, and then attention between nodes that reads it off the edges.

    An edge :math:`(i, j)` starts from the features of its ends,
    :math:`\mathbf{z}_{ij} = \mathbf{x}_i \mathbf{U} + \mathbf{x}_j \mathbf{V}`, and attends to
    the edges :math:`(i, r)` and :math:`(t, j)`, as a node of GAT does to its neighbours. With
    what comes of it, :math:`\tilde{\mathbf{z}}_{ij}`, nodes attend to their neighbours:

    .. math::
        \mathbf{x}'_i = \sum_{j \in N(i)} \alpha_{ij} \mathbf{x}_j \mathbf{W}, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(\mathbf{a}^\top
        \tilde{\mathbf{z}}_{ij}).

    If edges saw only themselves, and without the ELU behind :math:`\tilde{\mathbf{z}}`, this would
    be GAT.

    Args:
        in_channels: Width of the input.
        out_channels: Width of a head's output, of nodes and of edges.
        heads: Number of heads, which are laid side by side.
        dropout: Dropout rate of the input and of both attentions.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.out_channels, self.dropout = heads, out_channels, dropout
        # Of edges by their first end, by their second, and of nodes.
        self.weight = nn.Parameter(torch.empty(3, in_channels, heads * out_channels))
        self.dual_attention = nn.Parameter(torch.empty(2, heads, out_channels, 1))
        self.attention = nn.Parameter(torch.empty(heads, out_channels, 1))
        self.bias = nn.Parameter(torch.empty(heads * out_channels))
        for weight in (self.weight, self.dual_attention, self.attention):
            glorot(weight)
        zeros(self.bias)

    def forward(self, x: Features, edges: SparsePattern, pairs: SparsePattern) -> Tensor:
        """Node features ``[nodes, heads * out_channels]``.

        Args:
            x: Node features ``[nodes, in_channels]``.
            edges: Row ``i`` holds the neighbours of node ``i``, itself included.
            pairs: Row ``e`` holds the edges that edge ``e`` attends to, itself included.
        """
        x = drop(x, self.dropout, self.training)
        wide = (x @ self.weight.transpose(0, 1).flatten(1)).view(
            -1, 3, self.heads, self.out_channels
        )
        first, second, node = wide.permute(1, 2, 0, 3)  # each [heads, nodes, out]
        edge = first[:, edges.row] + second[:, edges.col.long()]
        own, other = ((edge @ half).squeeze(2) for half in self.dual_attention)
        alpha = attention_coefficients(own, other, pairs)
        edge = F.elu(spmm(SparseMatrix(pairs, self._drop(alpha)), edge))
        score = F.leaky_relu((edge @ self.attention).squeeze(2), 0.2)
        alpha = softmax(score, edges.row, num_nodes=edges.shape[0], dim=1)
        out = spmm(SparseMatrix(edges, self._drop(alpha)), node.contiguous())
        return out.transpose(0, 1).flatten(1) + self.bias

    def _drop(self, alpha: Tensor) -> Tensor:
        return F.dropout(alpha, self.dropout, self.training)


def edges_that_meet(edges: SparsePattern) -> SparsePattern:
    """Return for each edge :math:`(i, j)` the edges :math:`(i, r)` and :math:`(t, j)`, each once.

    Args:
        edges: Row ``i`` holds the neighbours ``j`` of node ``i``; edges count in this order.
    """
    meet = sparse.csr_array((edges.nnz, edges.nnz))
    for end in (edges.row, edges.col):
        place = (np.arange(edges.nnz), end.numpy())
        at = sparse.csr_array((np.ones(edges.nnz), place), shape=(edges.nnz, edges.shape[0]))
        meet = meet + at @ at.T
    own, other = (torch.from_numpy(one).long() for one in sparse.coo_array(meet).coords)
    return SparsePattern.from_coordinates(own, other, (edges.nnz, edges.nnz))[0]


@dataclass(frozen=True)
class GraphSGAN:
    """`"Semi-supervised Learning on Graphs with Generative Adversarial Nets"
    <https://arxiv.org/abs/1809.00130>`_ (Ding et al., 2018): a classifier over a node's features,
    mixed with its neighbours', beside a vector of its place in the graph. It tells nodes from
    those of a generator, which is pulled to where few nodes are. The epoch that is best on
    validation is kept; the authors' release has neither a stopping rule nor tuned settings.

    Settings are those of the authors' code where it does not say otherwise. Vectors are
    :class:`DeepWalk`'s in place of LINE's. Columns are scaled to a greatest magnitude of one,
    because the generator ends in a tanh.

    Attributes:
        fusion: Share of a node's own features; the rest is the mean of its neighbours': 0.5.
        walks: Walks of :class:`DeepWalk` from each node: 10.
        channels: Widths of the classifier's hidden layers: 500, 500, 250, 250, 250. The generator
            has two of the first width.
        noise_channels: Width of the generator's noise: 200.
        input_noise: Deviation of the noise on the classifier's input: 0.05.
        hidden_noise: The same on its hidden layers: 0.5.
        unlabelled_weight: Weight of the loss on real and generated nodes: 0.5.
        batch_size: Labelled, unlabelled and generated nodes in a step: 64, or all labelled ones.
        epochs: 20.
        batches: Steps of an epoch: 100.
        lr: Learning rate of both by Adam, with a first momentum of 0.5: 0.003.
    """

    name: ClassVar[str] = "graphsgan"
    row: ClassVar[str] = "GraphSGAN"
    scaling: ClassVar[str] = "none"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = True

    fusion: float = 0.5
    walks: int = 10
    channels: tuple[int, ...] = (500, 500, 250, 250, 250)
    noise_channels: int = 200
    input_noise: float = 0.05
    hidden_noise: float = 0.5
    unlabelled_weight: float = 0.5
    batch_size: int = 64
    epochs: int = 20
    batches: int = 100
    lr: float = 0.003

    def __post_init__(self) -> None:
        expect_at_least(1, self, "walks", "noise_channels", "epochs", "batches")
        expect_at_least(2, self, "batch_size")
        expect_positive(self, "channels", "lr", "unlabelled_weight")

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`; validation chooses the epoch."""
        seen, device = SeenGraph.of(data), data.x.device
        x = self._inputs(seen, seed).to(device)
        with own_randomness(seed, device):
            game = _Game(self, x.size(1), seen.classes, device)
            unlabelled = torch.ones(seen.nodes, dtype=torch.bool)
            unlabelled[seen.train] = False
            labelled, train_y = x[seen.train], seen.train_y.to(device)
            others = x[unlabelled.to(device)]
            best, kept, kept_epoch = -1.0, torch.empty(0), 0
            for epoch in range(1, self.epochs + 1):
                for _ in range(self.batches):
                    drawn = torch.randperm(len(labelled), device=device)[: self.batch_size]
                    first, second = (
                        others[torch.randint(len(others), (self.batch_size,), device=device)]
                        for _ in range(2)
                    )
                    game.train_classifier(labelled[drawn], train_y[drawn], first)
                    game.train_generator(second)
                scores = game.scores(x)
                if (accuracy := seen.val_accuracy(scores)) > best:
                    best, kept, kept_epoch = accuracy, scores, epoch
        return Prediction(kept, {"epoch": kept_epoch})

    def _inputs(self, seen: SeenGraph, seed: int) -> Tensor:
        """Features mixed with those of neighbours, and vectors, one row per node."""
        share = 1 / np.maximum(seen.degrees, 1)
        mean = torch.from_numpy(share[:, None] * (seen.adjacency @ seen.x.double().numpy()))
        own = torch.from_numpy(seen.degrees == 0)[:, None]
        mixed = torch.where(own, seen.x, self.fusion * seen.x + (1 - self.fusion) * mean.float())
        inputs = torch.cat(
            [mixed, DeepWalk(walks=self.walks).vectors(seen.adjacency, seed)], dim=1
        )
        return inputs / inputs.abs().amax(dim=0).clamp(min=1e-8)


class _Game:
    """Classifier and generator, and the step of each."""

    def __init__(
        self, settings: GraphSGAN, in_channels: int, classes: int, device: torch.device
    ) -> None:
        self._settings = settings
        self._classifier = NoisyClassifier(
            (in_channels, *settings.channels),
            classes,
            settings.input_noise,
            settings.hidden_noise,
        ).to(device)
        widths = (settings.noise_channels, settings.channels[0], in_channels)
        self._generator = Generator(*widths).to(device)
        self._optimizers = [
            torch.optim.Adam(net.parameters(), lr=settings.lr, betas=(0.5, 0.999))
            for net in (self._classifier, self._generator)
        ]

    def train_classifier(self, x: Tensor, y: Tensor, unlabelled: Tensor) -> None:
        """Classify labelled nodes, and tell unlabelled ones from those that are generated."""
        fake = self._generator(len(unlabelled)).detach()
        features, real = self._classifier.features_and_scores(unlabelled)
        logit, fake_logit = real.logsumexp(dim=1), self._classifier(fake).logsumexp(dim=1)
        told = F.softplus(-logit).mean() + F.softplus(fake_logit).mean()
        entropy = -(real.softmax(dim=1) * real.log_softmax(dim=1)).mean()
        loss = F.cross_entropy(self._classifier(x), y)
        loss = loss + self._settings.unlabelled_weight * 0.5 * told
        self._step(0, loss + entropy + pull_away(features))

    def train_generator(self, unlabelled: Tensor) -> None:
        """Come near the centre of real nodes in feature space, and away from each other."""
        features, _ = self._classifier.features_and_scores(self._generator(len(unlabelled)))
        with torch.no_grad():
            real, _ = self._classifier.features_and_scores(unlabelled)
        apart = (features.mean(dim=0) - real.mean(dim=0)).abs().mean()
        self._step(1, apart + pull_away(features))

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Scores of classes without noise, on the CPU."""
        self._classifier.eval()
        scores = self._classifier(x).cpu()
        self._classifier.train()
        return scores

    def _step(self, which: int, loss: Tensor) -> None:
        optimizer = self._optimizers[which]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class NoisyClassifier(nn.Module):
    """Layers with normalised weights, ELUs and noise, and a linear one for classes.

    Args:
        channels: Widths of the input and of hidden layers.
        classes: Number of classes.
        input_noise: Deviation of the noise on the input, in training.
        hidden_noise: The same behind each layer.
    """

    def __init__(
        self, channels: tuple[int, ...], classes: int, input_noise: float, hidden_noise: float
    ) -> None:
        super().__init__()
        self.input_noise, self.hidden_noise = input_noise, hidden_noise
        self.layers = nn.ModuleList(
            NormedLinear(*width, learn_length=False) for width in pairwise(channels)
        )
        self.last = NormedLinear(channels[-1], classes, learn_length=True)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of classes ``[rows, classes]``."""
        return self.features_and_scores(x)[1]

    def features_and_scores(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The last hidden layer before its noise, and scores of classes."""
        x = self._noisy(x, self.input_noise)
        features = x
        for layer in self.layers:
            features = F.elu(layer(x))
            x = self._noisy(features, self.hidden_noise)
        return features, self.last(x)

    def _noisy(self, x: Tensor, deviation: float) -> Tensor:
        return x + deviation * torch.randn_like(x) if self.training else x


class Generator(nn.Module):
    """Rows out of uniform noise: two batch-normalised layers and a tanh.

    Args:
        noise_channels: Width of the noise.
        channels: Width of both layers.
        out_channels: Width of a row.
    """

    def __init__(self, noise_channels: int, channels: int, out_channels: int) -> None:
        super().__init__()
        self.noise_channels = noise_channels
        parts: list[nn.Module] = []
        for width in (noise_channels, channels):
            linear = nn.Linear(width, channels, bias=False)
            nn.init.xavier_uniform_(linear.weight)
            norm = nn.BatchNorm1d(channels, eps=1e-6, momentum=0.5)
            norm.weight.requires_grad_(False)  # a shift is learnt, no scale
            parts += [linear, norm, nn.ELU()]
        self.layers = nn.Sequential(
            *parts, NormedLinear(channels, out_channels, learn_length=True)
        )

    def forward(self, rows: int) -> Tensor:
        """Generated rows ``[rows, out_channels]``."""
        device = next(self.parameters()).device
        noise = torch.rand(rows, self.noise_channels, device=device)
        return torch.tanh(self.layers(noise))


class NormedLinear(nn.Module):
    """A linear layer whose rows of weights have the length one, or a learnt one.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        learn_length: Whether lengths are learnt.
    """

    def __init__(self, in_channels: int, out_channels: int, *, learn_length: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(out_channels, in_channels))
        self.length = nn.Parameter(torch.ones(out_channels, 1), requires_grad=learn_length)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` times the weights, and a bias."""
        return F.linear(x, F.normalize(self.weight) * self.length, self.bias)


def pull_away(x: Tensor) -> Tensor:
    """Mean squared cosine between different rows."""
    unit = F.normalize(x)
    squares = (unit @ unit.t()) ** 2
    return (squares.sum() - squares.diagonal().sum()) / (len(x) * (len(x) - 1))
