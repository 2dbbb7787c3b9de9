import pytest
import torch

from drgcn.nn import SparseMatrix
from drgcn.nn.products import as_features, compress, map_values

from ..reference import layouts
from .matrices import random_matrix


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
