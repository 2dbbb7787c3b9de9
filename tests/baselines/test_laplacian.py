"""Label propagation, manifold regularisation and SemiEmb, against their equations."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import LabelPropagation as PropagationOfPyG

from drgcn.baselines import (
    InductiveManifoldRegularization,
    InductiveSemiEmbedding,
    LabelPropagation,
    ManifoldRegularization,
    SemiEmbedding,
)
from drgcn.baselines.laplacian import margin_loss
from drgcn.errors import InputError
from tests.baselines.graphs import blocks


def fixed_point(data, rounds=2_000):
    """Neighbours' means, over and over, training nodes put back each time."""
    nodes = data.num_nodes
    adjacency = np.zeros((nodes, nodes))
    adjacency[data.edge_index[0], data.edge_index[1]] = 1
    classes = int(data.y.max()) + 1
    train = data.train_mask.numpy()
    scores = np.zeros((nodes, classes))
    degrees = np.maximum(adjacency.sum(1, keepdims=True), 1)
    given = np.eye(classes)[data.y[data.train_mask]]
    for _ in range(rounds):
        scores[train] = given
        scores = adjacency @ scores / degrees
    scores[train] = given
    return scores


def test_is_the_fixed_point_of_taking_means():
    data = blocks()
    scores = LabelPropagation(class_mass=False).predict(data).scores
    np.testing.assert_allclose(scores.numpy(), fixed_point(data), atol=1e-10)


def test_is_what_pyg_propagates_on_a_graph_of_equal_degrees():
    # There its symmetric normalisation takes means as well.
    nodes = 12
    around = torch.arange(nodes)
    edges = torch.cat([torch.stack([around, (around + k) % nodes]) for k in (1, -1, 3, -3)], 1)
    mask = torch.zeros(nodes, dtype=torch.bool)
    mask[[0, 1, 7]] = True
    y = torch.tensor([0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0])
    later = ~mask
    data = Data(
        x=torch.ones(nodes, 1),
        edge_index=edges,
        y=y,
        train_mask=mask,
        val_mask=later,
        test_mask=later,
    )
    given = torch.nn.functional.one_hot(y[mask], 3).float()

    def put_back(scores):
        scores = scores.clone()
        scores[mask] = given
        return scores

    theirs = PropagationOfPyG(num_layers=500, alpha=1.0)(y, edges, mask, post_step=put_back)
    ours = LabelPropagation(class_mass=False).predict(data).scores
    torch.testing.assert_close(ours.float(), theirs, atol=1e-5, rtol=0)


def test_class_mass_gives_each_class_its_share_of_training_nodes():
    data = blocks(seed=3)
    data.train_mask[[0, 3]] = False  # two nodes less of the first class
    scores = LabelPropagation().predict(data).scores
    reached = (scores.sum(dim=1) > 0) & ~data.train_mask
    shares = scores[reached].sum(dim=0)
    torch.testing.assert_close(shares, torch.tensor([2.0, 4.0, 4.0], dtype=torch.float64))


def test_nodes_that_no_label_reaches_score_nothing():
    data = blocks()
    assert LabelPropagation().predict(data).scores[-2:].tolist() == [[0.0] * 3] * 2


def objective(data, weights, ambient, intrinsic):
    """The sum that is to be least, edge by edge."""
    x = torch.cat([data.x.double(), torch.ones(data.num_nodes, 1, dtype=torch.float64)], dim=1)
    targets = 2 * torch.nn.functional.one_hot(data.y[data.train_mask], 3).double() - 1
    outputs = x @ weights
    loss = ((outputs[data.train_mask] - targets) ** 2).sum(dim=1).mean()
    loss = loss + ambient * (weights**2).sum()
    for a, b in data.edge_index.t().tolist():
        if a < b:
            difference = ((outputs[a] - outputs[b]) ** 2).sum()
            loss = loss + intrinsic / data.num_nodes**2 * difference
    return loss, outputs


def test_is_the_least_of_the_sum_over_edges():
    data = blocks()
    ambient, intrinsic = 0.01, 30.0
    weights = torch.zeros(9, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=500,
        tolerance_grad=1e-12,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def step():
        optimizer.zero_grad()
        loss, _ = objective(data, weights, ambient, intrinsic)
        loss.backward()
        return loss

    optimizer.step(step)
    _, outputs = objective(data, weights.detach(), ambient, intrinsic)
    ours = ManifoldRegularization((ambient,), (intrinsic,)).predict(data).scores
    np.testing.assert_allclose(ours.numpy(), outputs.numpy(), atol=1e-6)


def test_what_is_chosen_is_best_on_validation():
    data = blocks(seed=1)
    lists = ((1e-4, 1e-1), (1.0, 1e3))
    chosen = ManifoldRegularization(*lists).predict(data)

    def accuracy(scores):
        right = scores.argmax(dim=1) == data.y
        return float(right[data.val_mask].double().mean())

    each = [
        accuracy(ManifoldRegularization((a,), (i,)).predict(data).scores)
        for a in lists[0]
        for i in lists[1]
    ]
    assert accuracy(chosen.scores) == max(each)
    assert set(chosen.chosen) == {"ambient", "intrinsic"}


@pytest.mark.parametrize("wrong", [(), (0.0,), (-1.0, 1.0)])
def test_strengths_above_zero_are_asked_for(wrong):
    with pytest.raises(InputError, match="Expected ambient of ManifoldRegularization"):
        ManifoldRegularization(ambient=wrong)


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


@pytest.mark.parametrize(
    ("unseeing", "seeing"),
    [
        (
            InductiveManifoldRegularization((1e-2,), (1e3,)),
            ManifoldRegularization((1e-2,), (1e3,)),
        ),
        (InductiveSemiEmbedding(4, epochs=10), SemiEmbedding(4, weights=(1.0,), epochs=10)),
    ],
)
def test_inductive_forms_do_not_see_edges_of_test_nodes(unseeing, seeing):
    data, other = blocks(), blocks()
    hidden = data.test_mask[data.edge_index].any(dim=0)
    other.edge_index = data.edge_index[:, ~hidden]
    scores = unseeing.predict(data).scores
    assert torch.equal(scores, unseeing.predict(other).scores)
    assert torch.allclose(scores, seeing.predict(other).scores)
    assert not torch.equal(scores, seeing.predict(data).scores)


def test_strengths_of_the_inductive_form_are_chosen_without_edges_of_validation_nodes():
    data, other = blocks(seed=1), blocks(seed=1)
    hidden = (data.test_mask | data.val_mask)[data.edge_index].any(dim=0)
    other.edge_index = data.edge_index[:, ~hidden]
    lists = ((1e-4, 1e-1), (1.0, 1e5))
    chosen = InductiveManifoldRegularization(*lists).predict(data).chosen
    assert chosen == ManifoldRegularization(*lists).predict(other).chosen
