"""MoNet, DPFCNN and GraphSGAN against their equations, and what they learn."""

import pytest
import torch
import torch.nn.functional as F

from drgcn.baselines import DualPrimal, GraphSGAN, MoNet
from drgcn.baselines.base import SeenGraph
from drgcn.baselines.networks import (
    DualPrimalConv,
    Generator,
    MixtureNetwork,
    NormedLinear,
    _Game,
    edges_that_meet,
    pull_away,
)
from drgcn.nn.graph import neighborhoods
from drgcn.nn.sparse import SparseMatrix
from tests.baselines.graphs import blocks

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 1, 3], [1, 0, 2, 1, 3, 2, 3, 1]])


def test_a_mixture_layer_is_a_mean_weighted_by_gaussians_of_mapped_degrees():
    torch.manual_seed(0)
    net = MixtureNetwork((3, 2), coordinates=2, kernels=3, dropout=0.5).eval()
    x, ends = torch.randn(4, 3), torch.rand(EDGES.size(1), 2)
    layer, mapped = net.layers[0], net.maps[0]
    torch.nn.init.uniform_(layer.sigma, 0.5, 2.0)
    expected = torch.zeros(4, 2)
    for node in range(4):
        into = [e for e in range(EDGES.size(1)) if int(EDGES[1, e]) == node]
        for e in into:
            u = torch.tanh(mapped.weight @ ends[e] + mapped.bias)
            for k in range(3):
                w = torch.exp(-0.5 * (((u - layer.mu[k]) / layer.sigma[k]) ** 2).sum())
                g = layer.g.view(3, 3, 2)[:, k]
                expected[node] += w * (x[EDGES[0, e]] @ g) / len(into)
    dense = net(x, EDGES, ends)
    torch.testing.assert_close(dense, expected + layer.bias)
    torch.testing.assert_close(net(SparseMatrix.from_tensor(x), EDGES, ends), dense)


def test_edges_meet_at_their_first_or_their_second_ends():
    edges = neighborhoods(EDGES, 4)
    pairs = edges_that_meet(edges)
    ends = list(zip(edges.row.tolist(), edges.col.tolist(), strict=True))
    expected = {
        (a, b)
        for a, (i, j) in enumerate(ends)
        for b, (k, m) in enumerate(ends)
        if i == k or j == m
    }
    found = list(zip(pairs.row.tolist(), pairs.col.tolist(), strict=True))
    assert len(found) == len(expected)
    assert set(found) == expected


def test_a_dual_primal_layer_is_its_equations():
    torch.manual_seed(0)
    conv = DualPrimalConv(3, 2, heads=2, dropout=0.6).eval()
    torch.nn.init.normal_(conv.bias)
    edges = neighborhoods(EDGES, 4)
    pairs, x = edges_that_meet(edges), torch.randn(4, 3)
    ends = list(zip(edges.row.tolist(), edges.col.tolist(), strict=True))
    columns = []
    for head in range(2):
        u, v, w = (part.view(3, 2, 2)[:, head] for part in conv.weight)
        own, other = conv.dual_attention[:, head, :, 0]
        z = [x[i] @ u + x[j] @ v for i, j in ends]
        tilde = []
        for a, (i, j) in enumerate(ends):
            met = [b for b, (k, m) in enumerate(ends) if i == k or j == m]
            scores = torch.stack([F.leaky_relu(own @ z[a] + other @ z[b], 0.2) for b in met])
            chances = scores.softmax(dim=0)
            tilde.append(F.elu(sum(c * z[b] for c, b in zip(chances, met, strict=True))))
        rows = []
        for node in range(4):
            into = [a for a, (i, _) in enumerate(ends) if i == node]
            scores = torch.stack(
                [F.leaky_relu(conv.attention[head, :, 0] @ tilde[a], 0.2) for a in into]
            )
            chances = scores.softmax(dim=0)
            rows.append(sum(c * (x[ends[a][1]] @ w) for c, a in zip(chances, into, strict=True)))
        columns.append(torch.stack(rows))
    expected = torch.cat(columns, dim=1) + conv.bias
    torch.testing.assert_close(conv(x, edges, pairs), expected)
    torch.testing.assert_close(conv(SparseMatrix.from_tensor(x), edges, pairs), expected)


def test_inputs_of_the_gan_are_mixed_with_neighbours_and_scaled_by_column():
    data = blocks()
    seen = SeenGraph.of(data)
    inputs = GraphSGAN(fusion=0.3, walks=1)._inputs(seen, 0)
    mixed = torch.empty_like(data.x)
    for node in range(60):
        near = data.edge_index[0, data.edge_index[1] == node]
        own = data.x[node]
        mixed[node] = 0.3 * own + 0.7 * data.x[near].mean(dim=0) if len(near) else own
    scale = mixed.abs().amax(dim=0)
    torch.testing.assert_close(inputs[:, :8], mixed / scale)
    torch.testing.assert_close(inputs.abs().amax(dim=0), torch.ones(8 + 128))


def test_rows_of_normed_weights_have_their_length():
    layer = NormedLinear(5, 3, learn_length=True)
    x = torch.randn(4, 5)
    rows = [row / row.norm() for row in layer.weight]
    torch.testing.assert_close(layer(x), torch.stack([x @ row for row in rows], dim=1))
    assert layer.length.requires_grad
    assert not NormedLinear(5, 3, learn_length=False).length.requires_grad


def test_generated_rows_lie_within_the_scale_of_inputs():
    rows = Generator(4, 6, 7)(16)
    assert rows.shape == (16, 7)
    assert rows.abs().max() <= 1


def test_pull_away_is_the_mean_squared_cosine_of_pairs():
    x = torch.randn(5, 3, dtype=torch.float64)
    cosines = [
        F.cosine_similarity(x[i], x[j], dim=0) for i in range(5) for j in range(5) if i != j
    ]
    torch.testing.assert_close(pull_away(x), torch.stack(cosines).square().mean())


def test_both_losses_of_the_gan_are_those_of_the_authors_code(monkeypatch):
    """Transcribed from GraphSGAN.py of their release, as sums over rows."""
    torch.manual_seed(0)
    settings = GraphSGAN(channels=(6, 5), noise_channels=4, input_noise=0.0, hidden_noise=0.0)
    game = _Game(settings, 3, 4, torch.device("cpu"))
    losses = []
    monkeypatch.setattr(game, "_step", lambda which, loss: losses.append((which, loss.detach())))
    x, y, first, second = (
        torch.randn(7, 3),
        torch.arange(7) % 4,
        torch.randn(9, 3),
        torch.rand(8, 3),
    )
    torch.manual_seed(1)
    game.train_classifier(x, y, first)
    torch.manual_seed(2)
    game.train_generator(second)
    rows = []
    for seed, count in ((1, 9), (2, 8)):
        torch.manual_seed(seed)
        rows.append(game._generator(count))
    read, log_z = game._classifier.features_and_scores, lambda scores: scores.exp().sum(1).log()
    (features, real), fake = read(first), read(rows[0])[1]
    known = read(x)[1]
    supervised = sum(log_z(known)[row] - known[row, y[row]] for row in range(7)) / 7
    z_real, z_fake = log_z(real).exp(), log_z(fake).exp()
    told = 0.5 * (-(z_real / (1 + z_real)).log().mean() - (1 / (1 + z_fake)).log().mean())
    chances = real.exp() / real.exp().sum(1, keepdim=True)
    entropy = -sum(p * p.log() for row in chances for p in row) / (9 * 4)
    expected = supervised + 0.5 * told + entropy + pull_away(features)
    made = read(rows[1])[0]
    apart = sum(abs(made[:, d].mean() - read(second)[0][:, d].mean()) for d in range(5)) / 5
    assert [which for which, _ in losses] == [0, 1]
    torch.testing.assert_close(losses[0][1], expected.detach())
    torch.testing.assert_close(losses[1][1], (apart + pull_away(made)).detach())


@pytest.mark.parametrize(
    "method",
    [
        MoNet(coordinates=(2,), epochs=25, lr=0.05),
        DualPrimal(heads=2, channels=4, epochs=15, lr=0.05),
    ],
    ids=lambda method: method.name,
)
def test_learns_what_features_and_edges_say(method):
    data = blocks()
    prediction = method.predict(data, 0)
    right = prediction.scores.argmax(dim=1) == data.y
    assert right[data.val_mask].double().mean() > 0.6  # a third by guessing
    assert prediction.chosen["epoch"] >= 1


def test_the_gan_learns_what_features_say():
    data = blocks()
    data.x[torch.arange(60), data.y] += 3
    data.x = data.x.repeat(1, 16)  # as many columns as vectors have
    method = GraphSGAN(walks=2, channels=(32, 16), noise_channels=8, epochs=4, batches=25)
    right = method.predict(data, 0).scores.argmax(dim=1) == data.y
    assert right[data.val_mask].double().mean() > 0.8  # a third by guessing


def test_validation_nodes_of_a_class_without_training_nodes_are_wrong_and_no_error():
    data = blocks()
    data.y = torch.where(data.val_mask & (data.y == 2), 5, data.y)
    prediction = MoNet(coordinates=(2,), epochs=3).predict(data, 0)
    assert prediction.scores.shape == (60, 3)
