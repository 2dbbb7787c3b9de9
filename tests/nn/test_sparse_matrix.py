import pytest
import torch

from drgcn.nn import SparseMatrix

from ..reference import layouts
from .matrices import MATRICES, random_matrix

EVERY_MATRIX = pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES.keys())


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
