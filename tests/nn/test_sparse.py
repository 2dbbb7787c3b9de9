import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.nn import SparseMatrix, spmm
from drgcn.nn.sparse import SparsePattern, csr_product

from ..reference import layouts
from .matrices import MATRICES, random_matrix

# Patterns


EVERY_MATRIX = pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES.keys())


def pattern_of(a):
    row, col = a.nonzero().t()
    return SparsePattern.from_coordinates(row, col, tuple(a.shape))[0]


def positions(pattern):
    """A dense matrix with the number of each entry, from one, at its place."""
    dense = torch.zeros(pattern.shape, dtype=torch.long)
    dense[pattern.row, pattern.col.long()] = torch.arange(1, pattern.nnz + 1)
    return dense


@EVERY_MATRIX
def test_rows_and_columns_are_those_of_torch_csr(a):
    csr, pattern = a.to_sparse_csr(), pattern_of(a)
    assert torch.equal(positions(pattern) > 0, a != 0)
    assert torch.equal(pattern.crow, csr.crow_indices())
    assert torch.equal(pattern.col, csr.col_indices())


def test_order_sorts_values_into_the_pattern():
    a = random_matrix(4, 5)
    row, col = a.nonzero().t()
    shuffle = torch.randperm(len(row), generator=torch.Generator().manual_seed(0))
    row, col = row[shuffle], col[shuffle]
    _, order = SparsePattern.from_coordinates(row, col, (4, 5))
    assert torch.equal(a[row, col][order], a[a != 0])


@EVERY_MATRIX
def test_transpose_is_the_pattern_of_the_transpose(a):
    transpose, expected = pattern_of(a).transpose, pattern_of(a.t())
    assert transpose.shape == expected.shape
    assert torch.equal(positions(transpose), positions(expected))


@EVERY_MATRIX
def test_to_transpose_says_which_entry_stands_where_and_back(a):
    pattern = pattern_of(a)
    values = torch.arange(1, pattern.nnz + 1)
    dense = torch.zeros(pattern.transpose.shape, dtype=torch.long)
    transpose = pattern.transpose
    dense[transpose.row, transpose.col.long()] = values[pattern.to_transpose]
    assert torch.equal(dense, positions(pattern).t())
    again = transpose.transpose
    for field in ("crow", "col", "to_transpose", "transpose_crow", "transpose_col"):
        assert torch.equal(getattr(again, field), getattr(pattern, field))
    assert again.shape == pattern.shape


@EVERY_MATRIX
def test_repeated_pattern_is_block_diagonal(a):
    for count in (1, 3):
        pattern = pattern_of(a)
        repeated, expected = pattern.repeat(count), pattern_of(torch.block_diag(*[a] * count))
        assert repeated.shape == (a.size(0) * count, a.size(1) * count)
        for field in ("crow", "col", "to_transpose", "transpose_crow", "transpose_col", "row"):
            assert torch.equal(getattr(repeated, field), getattr(expected, field))


def test_repeated_pattern_is_made_once():
    pattern = pattern_of(random_matrix(4, 5))
    assert pattern.repeat(3) is pattern.repeat(3)


def test_number_of_entries_is_that_of_the_matrix():
    a = random_matrix(4, 5)
    assert pattern_of(a).nnz == a.count_nonzero()


def test_moved_pattern_equals_the_pattern():
    pattern = pattern_of(random_matrix(4, 5))
    moved = pattern.to("cpu")
    for field in ("crow", "col", "to_transpose", "transpose_crow", "transpose_col"):
        assert torch.equal(getattr(moved, field), getattr(pattern, field))
    assert moved.shape == pattern.shape


# Matrices


@EVERY_MATRIX
def test_a_tensor_of_any_layout_comes_back(a):
    for layout in layouts.ALL:
        torch.testing.assert_close(SparseMatrix.from_tensor(layout(a)).to_dense(), a)


@EVERY_MATRIX
def test_csr_equals_that_of_torch(a):
    csr, expected = SparseMatrix.from_tensor(a).to_csr(), a.to_sparse_csr()
    assert torch.equal(csr.crow_indices(), expected.crow_indices())
    assert torch.equal(csr.col_indices(), expected.col_indices())
    assert torch.equal(csr.values(), expected.values())


def test_coordinates_may_come_in_any_order():
    row, col = torch.tensor([2, 0, 1]), torch.tensor([1, 3, 0])
    matrix = SparseMatrix.from_coordinates(row, col, torch.tensor([5.0, 6.0, 7.0]), (3, 4))
    expected = torch.tensor([[0, 0, 0, 6.0], [7, 0, 0, 0], [0, 5, 0, 0]])
    assert torch.equal(matrix.to_dense(), expected)


def test_shape_and_dtype_are_those_of_the_tensor():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    assert matrix.shape == (4, 5)
    assert matrix.dtype == torch.float64


@EVERY_MATRIX
def test_column_mean_counts_the_zeros(a):
    expected = a.sum(0) / max(len(a), 1)
    torch.testing.assert_close(SparseMatrix.from_tensor(a).column_mean, expected)


def test_other_values_stand_at_the_same_places():
    a = random_matrix(4, 5)
    matrix = SparseMatrix.from_tensor(a)
    torch.testing.assert_close(matrix.with_values(matrix.values * 2).to_dense(), a * 2)


def test_other_values_have_their_own_mean():
    a = random_matrix(4, 5)
    matrix = SparseMatrix.from_tensor(a)
    assert matrix.column_mean.any()  # computed, and kept by the matrix
    torch.testing.assert_close(matrix.with_values(matrix.values * 2).column_mean, 2 * a.mean(0))


def test_dense_form_passes_gradients_to_the_values():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: matrix.with_values(v).to_dense(), values)


def test_moved_matrix_equals_the_matrix():
    a = random_matrix(4, 5)
    torch.testing.assert_close(SparseMatrix.from_tensor(a).to("cpu").to_dense(), a)


def test_column_mean_passes_gradients_to_the_values():
    matrix = SparseMatrix.from_tensor(random_matrix(4, 5))
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: matrix.with_values(v).column_mean, values)


# Products


module = importlib.import_module("drgcn.nn.sparse")  # the attribute of that name is the function

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


def test_numbers_beyond_32_bits_are_multiplied(tmp_path):
    """MKL's numbers have 32 bits. The file has a hole, and takes no room."""
    columns = 2**31 + 5
    with (tmp_path / "x").open("wb") as file:
        file.truncate(4 * columns)
    x = torch.from_file(str(tmp_path / "x"), shared=True, size=columns)[:, None]
    x[5], x[columns - 1] = 1.0, 3.0
    pointers, places = torch.tensor([0, 1, 2]), torch.tensor([columns - 1, 5])
    pattern = SparsePattern(pointers, places, places, pointers, places, (2, columns))
    assert csr_product(pattern, torch.ones(2), x).tolist() == [[3.0], [1.0]]


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
