import math

import pytest
import torch

from drgcn.nn import GraphConvolution, SparseMatrix, normalized_adjacency

from .matrices import random_matrix

ADJ = normalized_adjacency(
    torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 1]]), 5, dtype=torch.float64
)
X = random_matrix(5, 4)
S = torch.tensor([0.2, 0.9, 0.5, 0.7], dtype=torch.float64)


@pytest.fixture
def conv():
    return GraphConvolution(4, 3).double()


@pytest.mark.parametrize("x", [X, SparseMatrix.from_tensor(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("s", [None, S])
def test_layer_equals_the_dense_product(conv, x, s):
    reweighted = X if s is None else X @ torch.diag(s)
    expected = ADJ.to_dense() @ reweighted @ conv.weight
    torch.testing.assert_close(conv(x, ADJ, s), expected)


def test_gradients_are_the_same_for_dense_and_sparse_features(conv):
    s = S.clone().requires_grad_()
    found = [
        torch.autograd.grad(conv(x, ADJ, s).square().sum(), (conv.weight, s))
        for x in (X, SparseMatrix.from_tensor(X))
    ]
    torch.testing.assert_close(*found)


def test_layer_has_weights_and_no_bias(conv):
    assert {name: tuple(p.shape) for name, p in conv.named_parameters()} == {"weight": (4, 3)}


def test_weights_start_uniform_within_the_glorot_bound():
    weight = GraphConvolution(60, 40).weight
    bound = math.sqrt(6 / 100)
    assert weight.abs().max() <= bound
    torch.testing.assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.05, atol=0)


def test_same_seed_resets_to_the_same_weights(conv):
    torch.manual_seed(5)
    conv.reset_parameters()
    before = conv.weight.clone()
    torch.manual_seed(5)
    conv.reset_parameters()
    assert torch.equal(conv.weight, before)


def test_repr_shows_the_widths(conv):
    assert repr(conv) == "GraphConvolution(4, 3)"
