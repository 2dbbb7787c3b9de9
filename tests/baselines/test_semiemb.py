"""SemiEmb, and its margin loss."""

import pytest
import torch

from drgcn.baselines import SemiEmbedding
from drgcn.baselines.semiemb import margin_loss
from drgcn.errors import InputError
from tests.baselines.graphs import blocks


def test_margin_loss_is_the_sum_over_pairs():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(6, 3, generator=generator, dtype=torch.float64) / 2
    near = torch.tensor([[0, 1, 2], [3, 4, 5]])
    far = torch.tensor([[0, 1, 5], [2, 5, 3]])

    def slow(h):
        total = 0.0
        for i, j in near.t().tolist():
            total = total + ((h[i] - h[j]) ** 2).sum()
        for i, j in far.t().tolist():
            total = total + max(torch.zeros(()), 1.2 - (h[i] - h[j]).norm()) ** 2
        return total / 3

    found = []
    for loss_of in (slow, lambda h: margin_loss(h, near, far, 1.2)):
        h = vectors.clone().requires_grad_()
        loss = loss_of(h)
        found.append((loss, *torch.autograd.grad(loss, h)))
    for ours, literal in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, literal)


def test_a_node_drawn_with_itself_has_a_finite_slope():
    h = torch.zeros(2, 3, requires_grad=True)
    margin_loss(h, torch.tensor([[0], [1]]), torch.tensor([[1], [1]]), 1.0).backward()
    assert h.grad.isfinite().all()


def test_a_larger_weight_makes_neighbours_score_alike():
    data = blocks()

    def roughness(weight):
        scores = SemiEmbedding(weights=(weight,), epochs=60, channels=8).predict(data, 0).scores
        chances = scores.softmax(dim=1)
        return (chances[data.edge_index[0]] - chances[data.edge_index[1]]).abs().mean()

    assert roughness(30.0) < roughness(1e-4)


def test_what_is_kept_is_the_best_on_validation():
    data = blocks()
    accuracies = []
    for weights in ((0.1,), (10.0,), (0.1, 10.0)):
        prediction = SemiEmbedding(weights=weights, epochs=40, channels=8).predict(data, 0)
        right = prediction.scores.argmax(dim=1) == data.y
        accuracies.append(float(right[data.val_mask].double().mean()))
    assert accuracies[2] == max(accuracies[:2])


def test_weights_are_asked_for():
    with pytest.raises(InputError, match="Expected weights of SemiEmbedding to be above zero"):
        SemiEmbedding(weights=())
