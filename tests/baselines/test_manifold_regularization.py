import numpy as np
import pytest
import torch

from drgcn.baselines import ManifoldRegularization
from drgcn.errors import InputError
from tests.baselines.graphs import blocks


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
