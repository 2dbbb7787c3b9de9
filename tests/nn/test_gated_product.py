import pytest
import torch

from drgcn.nn import SparseMatrix
from drgcn.nn.graph import NodeGroups
from drgcn.nn.products import gated_product

from .matrices import random_matrix

NODES, D, K = 7, 5, 3
GRAPH = torch.tensor([1, 0, 1, 3, 0, 3, 3])  # graph 2 has no nodes
GROUPS = NodeGroups(GRAPH, 4)
X = random_matrix(NODES, D)
WEIGHT = random_matrix(D, K, seed=1, density=1.1)
GATES = {
    "no gate": (None, None),
    "no gate, several graphs": (None, GROUPS),
    "one gate": (random_matrix(1, D, seed=2, density=1.1)[0], None),
    "a gate per graph": (random_matrix(4, D, seed=2, density=1.1), GROUPS),
}
GATE = pytest.mark.parametrize("gate", GATES)


@pytest.fixture(params=["dense", "sparse"])
def layout(request):
    return {"dense": lambda x: x, "sparse": SparseMatrix.from_tensor}[request.param]


def literal(x, weight, s):
    """Row by row: x_v S W, with the gate of the graph of v."""
    rows = []
    for v in range(NODES):
        gate = torch.eye(D, dtype=x.dtype) if s is None else s.diag() if s.dim() == 1 else None
        rows.append(x[v] @ (s[GRAPH[v]].diag() if gate is None else gate) @ weight)
    return torch.stack(rows)


@GATE
def test_product_equals_the_dense_formula(layout, gate):
    s, groups = GATES[gate]
    found = gated_product(layout(X), WEIGHT, s, groups)
    torch.testing.assert_close(found, literal(X, WEIGHT, s), rtol=1e-12, atol=1e-14)


@GATE
def test_gradients_equal_those_of_the_dense_formula(layout, gate):
    s, groups = GATES[gate]
    leaves = [t.clone().requires_grad_() for t in (WEIGHT, s) if t is not None]
    factors = random_matrix(NODES, K, seed=3, density=1.1)

    def gradients(product):
        out = product(*leaves) if s is not None else product(leaves[0], None)
        return torch.autograd.grad((out * factors).sum(), leaves)

    found = gradients(lambda w, gate: gated_product(layout(X), w, gate, groups))
    expected = gradients(lambda w, gate: literal(X, w, gate))
    torch.testing.assert_close(found, expected)


@GATE
def test_dense_features_have_a_gradient_too(gate):
    s, groups = GATES[gate]
    x = X.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: gated_product(t, WEIGHT, s, groups), (x,))


@GATE
def test_values_of_sparse_features_have_a_gradient_too(gate):
    s, groups = GATES[gate]
    matrix = SparseMatrix.from_tensor(X)
    values = matrix.values.clone().requires_grad_()

    def product(v):
        return gated_product(matrix.with_values(v), WEIGHT, s, groups)

    assert torch.autograd.gradcheck(product, (values,))


@GATE
def test_lanes_equal_a_loop(layout, gate):
    s, groups = GATES[gate]
    weights = torch.randn(3, D, K, dtype=torch.float64)
    x = layout(X)
    if s is None:
        found = torch.vmap(lambda w: gated_product(x, w, None, groups))(weights)
        expected = [literal(X, w, None) for w in weights]
    else:
        gates = torch.rand(3, *s.shape, dtype=torch.float64)
        found = torch.vmap(lambda w, g: gated_product(x, w, g, groups))(weights, gates)
        expected = [literal(X, w, g) for w, g in zip(weights, gates, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))


def test_equal_gates_of_all_graphs_are_one_gate(layout):
    s = GATES["one gate"][0]
    found = gated_product(layout(X), WEIGHT, s.expand(4, D), GROUPS)
    torch.testing.assert_close(found, gated_product(layout(X), WEIGHT, s))
