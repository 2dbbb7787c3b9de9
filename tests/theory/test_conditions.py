import pytest
import torch

from drgcn import theory
from drgcn.errors import (
    CovarianceError,
    DimensionError,
    InputError,
    NonFiniteError,
    ZeroVarianceError,
)

BAD = {
    "skew": (torch.tensor([[1.0, 0.2], [0.3, 1.0]]), CovarianceError, "symmetric.*differ.*0.1"),
    "indefinite": (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), CovarianceError, "eigenvalue -1"),
    "nan": (torch.tensor([[1.0, 0.0], [0.0, float("nan")]]), NonFiniteError, "row 1, column 1"),
    "oblong": (torch.ones(2, 3), CovarianceError, r"square.*\[2, 3\]"),
    "empty": (torch.ones(0, 0), CovarianceError, "square"),
}


@pytest.mark.parametrize(("c", "error", "words"), BAD.values(), ids=BAD)
def test_bad_covariances_are_named(c, error, words):
    with pytest.raises(error, match=words):
        theory.second_moment(c)


@pytest.mark.parametrize(
    "ask",
    [
        theory.normalised_moment,
        lambda c: theory.derivative(c, torch.eye(2)),
        lambda c: theory.iterate_samples(c, 1.0, 0.1, 1),
        theory.sampled_second_moment,
    ],
)
def test_every_function_of_a_covariance_checks_it(ask):
    c, error, words = BAD["indefinite"]
    with pytest.raises(error, match=words):
        ask(c)


def test_zero_variance_where_a_formula_divides():
    c = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
    with pytest.raises(ZeroVarianceError, match="found 0 at coordinate 1"):
        theory.derivative(c, torch.eye(3))
    with pytest.raises(ZeroVarianceError, match="positive"):
        theory.dos_at_bsb1(0.1, q=0.0)


def test_gates_are_checked():
    with pytest.raises(InputError, match=r"\[3\]; found \[2\]"):
        theory.second_moment(torch.eye(3), s=torch.ones(2))
    with pytest.raises(NonFiniteError, match="found inf at row 0"):
        theory.normalised_moment(torch.eye(2), torch.tensor([float("inf"), 1.0]))
    with pytest.raises(InputError, match="zero everywhere"):
        theory.reweighted_norm(torch.zeros(2), torch.eye(2), theory.DOS(1, 1, 1))


def test_correlations_and_sizes():
    with pytest.raises(InputError, match=r"between -1 and 1; found 1\.5"):
        theory.dos_at_bsb1(1.5)
    with pytest.raises(CovarianceError, match=r"-0\.5 <= c <= 1 at d = 3"):
        theory.bsb1(3, 1.0, -0.6)
    with pytest.raises(DimensionError, match="d >= 1"):
        theory.centring(0)
    with pytest.raises(InputError, match="two samples"):
        theory.sampled_second_moment(torch.eye(2), samples=1)


def test_single_precision_is_taken_as_it_is():
    assert theory.second_moment(torch.eye(3)).dtype == torch.float64
