import pytest
import torch

from drgcn.nn.sparse import SparsePattern

from .matrices import MATRICES, random_matrix

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
