"""The normalised map and its spectrum."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.special import roots_jacobi

from drgcn import theory
from drgcn.errors import DimensionError, InputError, ZeroVarianceError
from drgcn.theory import Activation
from drgcn.theory.quadrature import sphere_expectation

from .matrices import SEEDS, central_difference, covariance, gate, normal, sizes, symmetric


def sampled(c, s, normaliser, activation, samples=200_000):
    d = len(s)
    h = normal(samples, d, seed=5) @ torch.linalg.cholesky(c).T
    g = theory.centring(d)
    z = h * s @ g
    norm = (z if normaliser == "consistent" else h @ g).norm(dim=1, keepdim=True)
    if normaliser == "mean":
        norm = norm.square().mean().sqrt()
    x = activation(d**0.5 * z / norm)
    mean = x.T @ x / samples
    spread = (x.square().T @ x.square() / samples - mean.square()).clamp(min=0)
    return mean, (spread / samples).sqrt()


@pytest.mark.parametrize(
    "activation", [theory.RELU, theory.leaky_relu(0.3)], ids=["relu", "leaky"]
)
@pytest.mark.parametrize("normaliser", ["consistent", "printed", "mean"])
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


def gain_over_k(c, s, normaliser):
    after, before = (
        theory.g_component(theory.normalised_moment(c, gate, normaliser=normaliser))
        for gate in (s, None)
    )
    return after / before / theory.relative_g_component(c, s)


@given(sizes(2, 8), SEEDS)
@settings(max_examples=40, deadline=None)
def test_with_the_mean_square_the_output_follows_k(d, seed):
    # Variances and gates over orders of magnitude.
    scale, s = (2.0 * normal(d, 2, seed=seed)).exp().unbind(1)
    s = s / s.square().mean().sqrt()
    c = scale[:, None] * covariance(d, seed) * scale
    trace = float(theory.normalised_moment(c, s, normaliser="mean").trace())
    assert trace == pytest.approx(d / 2 * theory.relative_g_component(c, s), rel=1e-9)
    ratio, bound = gain_over_k(c, s, "mean"), (2 * d - 2) / d
    assert 1 / bound * (1 - 1e-9) <= ratio <= bound * (1 + 1e-9)  # equal at d = 2


def test_with_the_norm_of_each_node_the_output_may_leave_k_far_behind():
    s = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    found = [
        gain_over_k(torch.diag(torch.tensor([loud, 1.0, 1.0, 1.0, 1.0])), s, "printed")
        for loud in (1e2, 1e4, 1e6)
    ]
    # Like the root of the loudest variance.
    assert found[1] / found[0] == pytest.approx(10, rel=0.2)
    assert found[2] / found[1] == pytest.approx(10, rel=0.05)


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


def jacobi_expectation(f, d, nodes=120):
    """The same law in the usual variables, with scipy's Gauss-Jacobi rules."""
    t, t_weight = roots_jacobi(nodes, (d - 4) / 2, (d - 4) / 2)
    r, r_weight = roots_jacobi(nodes, (d - 5) / 2, (d - 5) / 2)
    rho = -1 / (d - 1)
    x = np.sqrt(d - 1) * t[:, None] + 0 * r
    y = rho * x + np.sqrt((d - 1) * (1 - rho**2) * (1 - t[:, None] ** 2)) * r
    weight = t_weight[:, None] * r_weight
    values = f(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    return float((values * weight).sum() / weight.sum())


def test_sphere_against_jacobi():
    for d in [4, 5, 6, 11, 40]:
        for f in (
            lambda x, y: torch.tanh(x) * torch.tanh(y) * (x * x - 1),
            lambda x, y: x**4 + y**2 * x**2,
            lambda x, y: torch.exp(x / 3) * torch.cos(y),
        ):
            assert sphere_expectation(f, d) == pytest.approx(jacobi_expectation(f, d), rel=1e-10)


def test_moments_of_the_sphere():
    for d in [3, 4, 5, 9, 200, 5000]:
        assert sphere_expectation(lambda x, _: x * x, d) == pytest.approx(1, rel=1e-12)
        assert sphere_expectation(lambda x, y: x * y, d) == pytest.approx(-1 / (d - 1), rel=1e-10)
        fourth = sphere_expectation(lambda x, _: x**4, d)
        assert fourth == pytest.approx(3 * (d - 1) / (d + 1), rel=1e-11)


@pytest.mark.parametrize(
    ("d", "slope"), [(3, 0.0), (4, 0.0), (5, 0.0), (33, 0.0), (602, 0.0), (3, 0.2), (8, 0.2)]
)
def test_closed_forms_against_quadrature(d, slope):
    known = theory.normalised_spectrum(d, theory.leaky_relu(slope))
    general = Activation("by quadrature", theory.leaky_relu(slope).function)
    found = theory.normalised_spectrum(d, general)
    for name in ("q", "c", "lambda_l", "lambda_m", "lambda_g_backward", "tilt"):
        expected = getattr(known, name)
        if expected is None:
            assert getattr(found, name) is None
        else:
            assert getattr(found, name) == pytest.approx(expected, rel=1e-10), name


@pytest.mark.parametrize("d", [3, 4, 6])
def test_j_against_differences_of_the_exact_map(d):
    spectrum = theory.normalised_spectrum(d)
    fixed, direction = spectrum.fixed_point, symmetric(d)
    numeric = central_difference(theory.normalised_moment, fixed, direction, 1e-5)
    torch.testing.assert_close(spectrum.apply(direction), numeric, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("activation", [theory.TANH, theory.ELU], ids=lambda a: a.name)
def test_other_activations_by_monte_carlo(activation):
    d, samples = 6, 400_000
    spectrum = theory.normalised_spectrum(d, activation)
    g = theory.centring(d)
    z = normal(samples, d) @ g
    z = d**0.5 * z / z.norm(dim=1, keepdim=True)
    x = activation(z)
    fixed = spectrum.fixed_point
    torch.testing.assert_close(x.T @ x / samples, fixed, rtol=0, atol=0.01)
    # Score functions: J(D) = E[phi phi^T ((d - 1) / d z^T D z - tr(G D))] / 2 mu.
    direction = symmetric(d)
    mu = spectrum.q * (1 - spectrum.c)
    score = (d - 1) / d * (z @ direction * z).sum(1) - (g * direction).sum()
    image = (x * score[:, None]).T @ x / samples / (2 * mu)
    torch.testing.assert_close(spectrum.apply(direction), image, rtol=0, atol=0.05)


def test_eigenvectors_of_light_deviations():
    for d in (3, 6):
        spectrum = theory.normalised_spectrum(d)
        delta = normal(d)
        vector = spectrum.eigenvector_l(delta - delta.mean())
        image = theory.normalised_derivative(spectrum.fixed_point, vector)
        torch.testing.assert_close(image, spectrum.lambda_l * vector, rtol=0, atol=1e-12)
        torch.testing.assert_close(spectrum.apply(vector), image, rtol=0, atol=1e-12)


def test_limits_in_d():
    spectra = [theory.normalised_spectrum(d) for d in (4, 8, 16, 64, 512, 4096, 100_000)]
    lights, heavies = [s.lambda_l for s in spectra], [s.lambda_m for s in spectra]
    backward = [s.lambda_g_backward for s in spectra]
    assert lights == sorted(lights)
    assert heavies == sorted(heavies)
    assert backward == sorted(backward, reverse=True)
    assert lights[-1] < 1
    assert (1 - lights[-1]) * 100_000 == pytest.approx(3 - math.pi / (2 * (math.pi - 1)), rel=1e-3)
    assert heavies[-1] == pytest.approx(math.pi / 2 / (math.pi - 1), rel=1e-4)
    assert backward[-1] == pytest.approx(math.pi / (math.pi - 1), rel=1e-4)


@pytest.mark.parametrize("d", [4, 7, 20])
def test_identity(d):
    spectrum = theory.normalised_spectrum(d, theory.IDENTITY)
    assert spectrum.lambda_l == pytest.approx((d - 1) / (d + 1))
    assert spectrum.lambda_m == pytest.approx((d - 1) / (d + 1))
    assert spectrum.lambda_g_backward == pytest.approx((d - 2) / (d - 3))
    assert spectrum.lambda_g == 0


def test_where_light_deviations_grow():
    square = [theory.normalised_spectrum(d, theory.relu_power(2)).lambda_l for d in (6, 7)]
    assert square[0] < 1 < square[1]
    cube = Activation("cube", lambda x: x**3)
    assert theory.normalised_spectrum(8, cube).lambda_l > 1


def test_spectra_that_are_not_defined_are_refused():
    with pytest.raises(DimensionError, match="d >= 3; found d = 2"):
        theory.normalised_spectrum(2)
    with pytest.raises(InputError, match="equal dimensions"):
        theory.normalised_spectrum(5, Activation("one", lambda x: 0 * x + 1))
    with pytest.raises(InputError, match="sum to zero"):
        theory.normalised_spectrum(4).eigenvector_l(torch.ones(4))
    with pytest.raises(InputError, match="above 1"):
        theory.relu_power(1.0)
