import importlib

import pytest
import torch

from drgcn.nn import SparseMatrix
from drgcn.nn.base import as_features, compress, gated_product, map_values, tall_product
from drgcn.nn.graph import NodeGroups

from ..reference import layouts
from .matrices import random_matrix

# Features


def test_dense_features_stay_as_they_are():
    x = random_matrix(4, 5)
    assert as_features(x) is x


def test_sparse_matrices_stay_as_they_are():
    x = SparseMatrix.from_tensor(random_matrix(4, 5))
    assert as_features(x) is x
    assert compress(x) is x


@pytest.mark.parametrize("layout", layouts.SPARSE)
@pytest.mark.parametrize("function", [as_features, compress])
def test_sparse_tensors_become_sparse_matrices(layout, function):
    x = random_matrix(4, 5)
    found = function(layout(x))
    assert isinstance(found, SparseMatrix)
    torch.testing.assert_close(found.to_dense(), x)


def test_compression_makes_mostly_empty_features_sparse():
    x = torch.zeros(10, 10)
    x.view(-1)[:19] = 1
    found = compress(x)
    assert isinstance(found, SparseMatrix)
    assert torch.equal(found.to_dense(), x)


def test_compression_leaves_full_features_dense():
    x = torch.zeros(10, 10)
    x.view(-1)[:20] = 1
    assert compress(x) is x


def test_compression_takes_features_without_nodes():
    assert compress(torch.zeros(0, 3)).shape == (0, 3)


def test_functions_are_mapped_over_dense_features():
    x = random_matrix(4, 5)
    assert torch.equal(map_values(torch.relu, x), x.relu())


def test_functions_are_mapped_over_the_entries_of_sparse_features():
    x = random_matrix(4, 5)
    found = map_values(torch.relu, SparseMatrix.from_tensor(x))
    assert torch.equal(found.to_dense(), x.relu())
    assert found.pattern.nnz == x.count_nonzero()


# Products with a gate


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
def test_gated_product_equals_the_dense_formula(layout, gate):
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
def test_lanes_of_gated_products_equal_a_loop(layout, gate):
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


# Tall products


module = importlib.import_module("drgcn.nn.base")


class OnDevice(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("columns", [1, 3, 16])
def test_tall_product_is_the_plain_one(columns):
    x, weight = draw(9, 4), draw(4, columns, seed=1)
    assert tall_product(x, weight).is_contiguous()
    torch.testing.assert_close(tall_product(x, weight), x @ weight)


def test_gradients_of_a_tall_product_equal_finite_differences():
    assert torch.autograd.gradcheck(tall_product, (draw(9, 4), draw(4, 3, seed=1)))


def test_second_gradients_of_a_tall_product_equal_finite_differences():
    assert torch.autograd.gradgradcheck(tall_product, (draw(5, 4), draw(4, 3, seed=1)))


@pytest.mark.parametrize(
    ("rows", "lanes", "pieces"), [(4000, False, False), (4000, True, True), (2**14, False, True)]
)
def test_a_loop_over_one_small_graph_launches_no_pieces(rows, lanes, pieces, monkeypatch):
    taken = []
    monkeypatch.setattr(module._TallProduct, "apply", lambda x, w: taken.append(1) or x @ w)
    if lanes:
        monkeypatch.setattr(module, "peek_interpreter_stack", object)
    tall_product(torch.ones(rows, 2).as_subclass(OnDevice), torch.ones(2, 3))
    assert bool(taken) == pieces


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None)])
def test_lanes_of_tall_products_equal_a_loop_with_its_gradients(in_dims):
    x = draw(*([] if in_dims[0] is None else [5]), 9, 4)
    weight = draw(*([] if in_dims[1] is None else [5]), 4, 3, seed=1)
    found, expected = torch.vmap(tall_product, in_dims)(x, weight), x @ weight
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), (x, weight)),
        torch.autograd.grad(expected.square().sum(), (x, weight)),
    )


@pytest.mark.parametrize("rows", [0, 3, 4, 7, 8, 9, 15, 16])
def test_pieces_on_a_device_sum_to_the_plain_product(monkeypatch, rows):
    monkeypatch.setattr(module, "_ROWS", 4)
    x, grad = draw(rows, 5).detach(), draw(rows, 3, seed=1).detach()
    found = module._sum_over_rows(x.as_subclass(OnDevice), grad)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), x.t() @ grad)


def test_pieces_are_multiplied_side_by_side(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 4)
    shapes = []

    class Recording(OnDevice):
        def __matmul__(self, other):
            shapes.append(tuple(self.shape))
            return super().__matmul__(other)

    module._sum_over_rows(draw(11, 5).detach().as_subclass(Recording), draw(11, 3).detach())
    assert shapes == [(2, 5, 4), (5, 3)]
