import pytest
import torch

from drgcn.nn import layer_sampled as node_scores
from drgcn.nn.layer_sampled import NodeScores, shared_product


@pytest.fixture
def x():
    return torch.randn(7, 4, dtype=torch.float64)


def weights(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_product_and_gradient_are_those_of_torch(x):
    weight = weights(4, 3)
    assert torch.equal(shared_product(x, weight), x @ weight)
    assert torch.autograd.gradcheck(lambda w: shared_product(x, w), (weight,))


@pytest.mark.parametrize("dims", [(None, 0), (None, 2), (0, 0), (0, None), (1, 1)])
def test_lanes_equal_a_loop(x, dims):
    table = x if dims[0] is None else torch.randn(5, 7, 4, dtype=torch.float64).movedim(0, dims[0])
    lanes = 5
    weight = weights(4, 2) if dims[1] is None else weights(lanes, 4, 2)
    given = weight if dims[1] is None else weight.movedim(0, dims[1])
    found = torch.vmap(shared_product, dims)(table, given)
    factors = torch.randn(lanes, 7, 2, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((found * factors).sum(), weight)
    by_loop = torch.stack(
        [
            (table if dims[0] is None else table.select(dims[0], lane))
            @ (weight if dims[1] is None else weight[lane])
            for lane in range(lanes)
        ]
    )
    torch.testing.assert_close(found, by_loop)
    (expected,) = torch.autograd.grad((by_loop * factors).sum(), weight)
    torch.testing.assert_close(gradient, expected)


def test_gradients_taken_inside_lanes_equal_a_loop(x):
    """As training takes them where a model calls for derivatives of its own."""
    weight, factors = torch.randn(5, 4, 2).double(), torch.randn(7, 2).double()
    one = torch.func.grad(lambda w: (shared_product(x, w) * factors).sum())
    expected = torch.stack([x.T @ factors] * 5)
    torch.testing.assert_close(torch.vmap(one)(weight), expected)


@pytest.mark.parametrize("limit", [100, 3])
def test_scores_are_the_same_from_a_table_and_row_by_row(x, limit, monkeypatch):
    monkeypatch.setattr(node_scores, "_SMALL_TABLE", limit)
    weight = weights(4, 2)
    scores = NodeScores(x, weight)
    assert (scores.table is None) == (limit < 7)
    nodes = torch.tensor([6, 0, 0, 3])
    for column in (0, 1):
        expected = (x @ weight)[nodes, column]
        torch.testing.assert_close(scores(nodes, column), expected)
        found = torch.autograd.grad(scores(nodes, column).sum(), weight, retain_graph=True)[0]
        torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), weight)[0])
