import pytest
import torch
from hypothesis import given, settings

from drgcn import theory
from drgcn.errors import DimensionError, InputError, ZeroVarianceError

from .matrices import SEEDS, central_difference, covariance, gate, normal, sizes, symmetric


def sampled(c, s, normaliser, activation, samples=200_000):
    d = len(s)
    h = normal(samples, d, seed=5) @ torch.linalg.cholesky(c).T
    g = theory.centring(d)
    z = h * s @ g
    norm = z if normaliser == "consistent" else h @ g
    x = activation(d**0.5 * z / norm.norm(dim=1, keepdim=True))
    mean = x.T @ x / samples
    spread = (x.square().T @ x.square() / samples - mean.square()).clamp(min=0)
    return mean, (spread / samples).sqrt()


@pytest.mark.parametrize(
    "activation", [theory.RELU, theory.leaky_relu(0.3)], ids=["relu", "leaky"]
)
@pytest.mark.parametrize("normaliser", ["consistent", "printed"])
def test_monte_carlo_agrees(normaliser, activation):
    d = 8
    c, s = covariance(d), gate(d)
    mean, error = sampled(c, s, normaliser, activation)
    found = theory.normalised_moment(c, s, normaliser=normaliser, activation=activation)
    assert bool(((mean - found).abs() < 5 * error).all())


@given(sizes(2), SEEDS)
@settings(max_examples=20, deadline=None)
def test_properties(d, seed):
    c, s = covariance(d, seed), gate(d, seed)
    v = theory.normalised_moment(c, s)
    assert float(v.trace()) == pytest.approx(d / 2, rel=1e-12)
    torch.testing.assert_close(theory.normalised_moment(7 * c, s), v, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(
        theory.normalised_moment(s[:, None] * c * s), v, rtol=1e-11, atol=1e-12
    )
    order = torch.randperm(d, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        theory.normalised_moment(c[order][:, order], s[order]),
        v[order][:, order],
        rtol=1e-11,
        atol=1e-12,
    )
    if d > 3:
        torch.testing.assert_close(
            theory.normalised_moment(c, normaliser="printed"), theory.normalised_moment(c)
        )


@pytest.mark.parametrize(
    "activation", [theory.RELU, theory.leaky_relu(0.3)], ids=["relu", "leaky"]
)
def test_derivative_is_that_of_differences(activation):
    c, s, direction = covariance(5), gate(5), symmetric(5)
    numeric = central_difference(
        lambda x: theory.normalised_moment(x, s, activation=activation), c, direction
    )
    found = theory.normalised_derivative(c, direction, s, activation=activation)
    torch.testing.assert_close(found, numeric, rtol=1e-7, atol=1e-8)
    own = theory.normalised_derivative(c, c, s, activation=activation)
    assert float(own.abs().max()) < 1e-13


def test_matrices_of_low_rank_and_bad_condition():
    x = normal(5, 2)
    found = theory.normalised_moment(x @ x.T)
    assert float(found.trace()) == pytest.approx(2.5, rel=1e-12)
    scale = torch.tensor([1e-8, 1e-4, 1.0, 1e4, 1e6], dtype=torch.float64)
    found = theory.normalised_moment(torch.diag(scale))
    assert float(found.trace()) == pytest.approx(2.5, rel=1e-12)
    # Two dimensions: z is (1, -1) or its opposite.
    torch.testing.assert_close(theory.normalised_moment(covariance(2)), torch.eye(2).double() / 2)
    flat = theory.normalised_derivative(covariance(2), symmetric(2))
    assert float(flat.abs().max()) < 1e-13


@pytest.mark.parametrize(("q", "c"), [(1.0, 0.0), (3.0, 0.9), (0.1, -0.15)])
def test_symmetric_points_go_to_the_fixed_point_at_once(q, c):
    expected = theory.normalised_spectrum(6).fixed_point
    torch.testing.assert_close(theory.normalised_moment(theory.bsb1(6, q, c)), expected)


def test_refused():
    with pytest.raises(ZeroVarianceError, match="equal up to constants"):
        theory.normalised_moment(torch.ones(4, 4))
    with pytest.raises(DimensionError, match="rank 3 or more; found rank 2"):
        theory.normalised_moment(torch.eye(3), normaliser="printed")
    with pytest.raises(DimensionError, match="d >= 2"):
        theory.normalised_moment(torch.eye(1))
    with pytest.raises(InputError, match="found tanh"):
        theory.normalised_moment(torch.eye(3), activation=theory.TANH)
