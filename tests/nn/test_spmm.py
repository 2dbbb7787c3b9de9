import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.nn import SparseMatrix, spmm

from .matrices import MATRICES, random_matrix

module = importlib.import_module("drgcn.nn.sparse")  # the attribute of that name is the function

EVERY_MATRIX = pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES.keys())
LANES = 3


@pytest.fixture(params=["blocks", "columns"])
def _strategy(request, monkeypatch):
    """Lanes that share a matrix become blocks of a diagonal, or columns."""
    if request.param == "columns":
        monkeypatch.setattr(module, "_LARGEST_BLOCK_DIAGONAL", 0)


def draw(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def gradients(out, *tensors):
    factors = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    return torch.autograd.grad((out * factors).sum(), tensors)


def product(pattern):
    return lambda values, x: spmm(SparseMatrix(pattern, values), x)


# One product


@EVERY_MATRIX
def test_product_and_gradient_in_x_equal_those_of_the_dense_one(a):
    x = draw(a.size(1), 2)
    found = spmm(SparseMatrix.from_tensor(a), x)
    torch.testing.assert_close(found, a @ x)
    torch.testing.assert_close(gradients(found, x), gradients(a @ x, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_keeps_the_dtype(dtype):
    a = SparseMatrix.from_tensor(random_matrix(4, 5).to(dtype))
    assert spmm(a, torch.ones(5, 2, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("k", [0, 1, 17])
def test_any_number_of_columns_may_be_multiplied(k):
    a, x = random_matrix(4, 5), draw(5, k)
    torch.testing.assert_close(spmm(SparseMatrix.from_tensor(a), x), a @ x)


def test_strided_views_are_multiplied_as_they_are():
    a, x = random_matrix(4, 5), draw(3, 10)[:, ::2].t()
    torch.testing.assert_close(spmm(SparseMatrix.from_tensor(a), x), a @ x)


def test_the_operator_is_the_function():
    a, x = SparseMatrix.from_tensor(random_matrix(4, 5)), draw(5, 2)
    assert torch.equal(a @ x, spmm(a, x))


@EVERY_MATRIX
def test_gradients_equal_finite_differences(a):
    matrix = SparseMatrix.from_tensor(a)
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(product(matrix.pattern), (values, draw(a.size(1), 2)))


def test_second_gradients_equal_finite_differences():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradgradcheck(product(matrix.pattern), (values, draw(5, 2)))


def test_gradient_is_not_computed_for_values_that_need_none():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    spmm(matrix, draw(5, 2)).sum().backward()
    assert matrix.values.grad is None


# Many products at once


@pytest.mark.usefixtures("_strategy")
@EVERY_MATRIX
def test_vmap_has_the_output_and_the_gradients_of_a_loop(a):
    for values_lanes, x_lanes in ((False, True), (True, True), (True, False)):
        values, x, in_dims, loop, pattern = lanes(a, values_lanes, x_lanes)
        out = torch.vmap(product(pattern), in_dims)(values, x)
        torch.testing.assert_close(out, loop)
        torch.testing.assert_close(gradients(out, values, x), gradients(loop, values, x))


def lanes(a, values_lanes, x_lanes):
    matrix = SparseMatrix.from_tensor(a)
    values = draw(*([LANES] if values_lanes else []), matrix.pattern.nnz, seed=2)
    x = draw(*([LANES] if x_lanes else []), a.size(1), 2)
    each_values = values if values_lanes else [values] * LANES
    each_x = x if x_lanes else [x] * LANES
    loop = [matrix.with_values(v).to_dense() @ y for v, y in zip(each_values, each_x, strict=True)]
    in_dims = (0 if values_lanes else None, 0 if x_lanes else None)
    return values, x, in_dims, torch.stack(loop), matrix.pattern


@pytest.mark.usefixtures("_strategy")
def test_gradients_taken_inside_vmap_equal_a_loop():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    x = draw(LANES, 5, 2).detach()

    def loss(x):
        return spmm(matrix, x).square().sum()

    expected = torch.stack([torch.func.grad(loss)(y) for y in x])
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(x), expected)


@pytest.mark.usefixtures("_strategy")
def test_lanes_may_be_any_dimension():
    a, x = random_matrix(4, 5), draw(5, 2, LANES)
    found = torch.vmap(lambda y: spmm(SparseMatrix.from_tensor(a), y), 2, 2)(x)
    torch.testing.assert_close(found, torch.stack([a @ x[..., i] for i in range(LANES)], 2))


@pytest.mark.usefixtures("_strategy")
def test_lanes_of_lanes_equal_a_loop():
    a, x = random_matrix(4, 5), draw(2, LANES, 5, 2)
    matrix = SparseMatrix.from_tensor(a)
    found = torch.vmap(torch.vmap(lambda y: spmm(matrix, y)))(x)
    torch.testing.assert_close(found, a @ x)


def test_lanes_of_a_large_shared_matrix_become_columns(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_BLOCK_DIAGONAL", 0)
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    torch.vmap(lambda y: spmm(matrix, y))(draw(LANES, 5, 2))
    assert not matrix.pattern._repeats


# Errors


@pytest.mark.parametrize("shape", [(4, 2), (5,), (2, 5, 2), (2, 5)])
def test_other_shapes_are_refused(shape):
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    with pytest.raises(ValueError, match=r"x of shape \[5, k\] for a matrix of shape \[4, 5\]"):
        spmm(matrix, torch.zeros(shape, dtype=torch.float64))


# Any matrix


@settings(max_examples=50, derandomize=True, deadline=None, database=None)
@given(
    rows=st.integers(0, 7),
    cols=st.integers(0, 7),
    k=st.integers(0, 4),
    density=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_product_and_gradients_equal_the_dense_ones(rows, cols, k, density, seed):
    a = random_matrix(rows, cols, seed, density)
    matrix = SparseMatrix.from_tensor(a)
    values = matrix.values.clone().requires_grad_()
    x = draw(cols, k, seed=seed)
    found = product(matrix.pattern)(values, x)
    expected = matrix.with_values(values).to_dense() @ x
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, values, x), gradients(expected, values, x))
