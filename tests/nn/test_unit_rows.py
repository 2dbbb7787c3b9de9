import pytest
import torch
import torch.nn.functional as F

from drgcn.nn import SparseMatrix
from drgcn.nn.mixhop import unit_rows

from .matrices import MATRICES, random_matrix


@pytest.mark.parametrize("name", MATRICES)
def test_rows_are_divided_by_their_lengths(name):
    x = MATRICES[name]
    expected = F.normalize(x, eps=1e-6)
    torch.testing.assert_close(unit_rows(x), expected)
    torch.testing.assert_close(unit_rows(SparseMatrix.from_tensor(x)).to_dense(), expected)


def test_very_short_rows_stay_short():
    x = torch.tensor([[3e-9, 4e-9]], dtype=torch.float64)
    torch.testing.assert_close(unit_rows(x), torch.tensor([[3e-3, 4e-3]], dtype=torch.float64))


def test_lanes_with_values_of_their_own_equal_a_loop():
    x = SparseMatrix.from_tensor(random_matrix(7, 5))
    values = torch.randn(3, x.values.numel(), dtype=torch.float64)
    found = torch.vmap(lambda v: unit_rows(x.with_values(v)).values)(values)
    expected = torch.stack([unit_rows(x.with_values(v)).values for v in values])
    torch.testing.assert_close(found, expected)
