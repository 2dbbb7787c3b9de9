"""The covariance map of Eq. 8 and its derivative, against sampling and finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn import theory
from drgcn.theory import RELU, Activation

from .matrices import SEEDS, central_difference, covariance, sizes, symmetric

mpmath = pytest.importorskip("mpmath")


def precise_relu(a, b, c):
    """E[relu(x) relu(y)] with 40 digits, by integrating over x what is known of y given x."""
    with mpmath.workdps(40):
        a, b, c = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(c)
        rest = mpmath.sqrt(b - c * c / a)

        def conditional(x):
            mean = c / mpmath.sqrt(a) * x
            ratio = mean / rest
            upper = mpmath.erfc(-ratio / mpmath.sqrt(2)) / 2
            inner = mean * upper + rest * mpmath.npdf(ratio)
            return mpmath.sqrt(a) * x * mpmath.npdf(x) * inner

        # For a correlation near -1 all of the integral lies within a narrow strip at zero.
        width = rest / abs(c) * mpmath.sqrt(a) if c else 1
        points = [0, *(min(width * k, 12) for k in (1, 4, 16)), 13, 30]
        return float(mpmath.quad(conditional, sorted(set(points))))


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (1.0, 1.0, 0.0),
        (1.0, 1.0, 0.6),
        (2.0, 0.5, -0.7),
        (2.0, 0.5, -0.9999),
        (1.0, 1.0, -0.9999999),
        (1.0, 1.0, 0.9999999),
        (1e-6, 1e6, 0.3),
    ],
)
def test_relu_to_many_digits(a, b, c):
    found = theory.second_moment(torch.tensor([[a, c], [c, b]], dtype=torch.float64))
    # What the float of c leaves open at c -> -1 is a relative 1e-16 / (1 + c).
    room = 1e-12 + 1e-15 / (1 + c / math.sqrt(a * b))
    assert float(found[0, 1]) == pytest.approx(precise_relu(a, b, c), rel=room)
    assert float(found[0, 0]) == a / 2


def test_limits_of_correlation():
    near = [1 + 1e-12, 1 - 1e-15]
    for one in near:
        minus = torch.tensor([[1.0, -one], [-one, 1.0]], dtype=torch.float64)
        assert 0 <= float(theory.second_moment(minus)[0, 1]) < 1e-20
        plus = minus.abs()
        assert float(theory.second_moment(plus)[0, 1]) == pytest.approx(0.5, abs=1e-9)


def test_small_angles_join_the_plain_formula():
    for e in (0.09, 0.0999, 0.1001, 0.11):
        c = -math.cos(e)
        found = theory.second_moment(torch.tensor([[1.0, c], [c, 1.0]], dtype=torch.float64))
        assert float(found[0, 1]) == pytest.approx(precise_relu(1.0, 1.0, c), rel=2e-12)


def test_zero_variance():
    c = torch.tensor([[1.2, 0.0, 0.3], [0.0, 0.0, 0.0], [0.3, 0.0, 0.7]], dtype=torch.float64)
    for activation in (RELU, theory.leaky_relu(0.3), theory.TANH):
        found = theory.second_moment(c, activation)
        assert found[1].abs().max() == 0
    shifted = Activation("shifted tanh", lambda x: torch.tanh(x + 1))
    found = theory.second_moment(c, shifted)
    assert float(found[1, 1]) == pytest.approx(math.tanh(1) ** 2, rel=1e-13)


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.0, -0.5])
def test_quadrature_agrees_with_closed_forms(slope):
    known = theory.leaky_relu(slope)
    c = covariance(4)
    general = Activation("by quadrature", known.function)
    torch.testing.assert_close(
        theory.second_moment(c, general), theory.second_moment(c, known), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("activation", [RELU, theory.TANH, theory.ELU], ids=lambda a: a.name)
def test_monte_carlo_agrees(activation):
    c = covariance(4)
    mean, error = theory.sampled_second_moment(c, activation, samples=200_000)
    gap = (mean - theory.second_moment(c, activation)).abs()
    assert bool((gap < 5 * error + 1e-12).all())


@given(sizes(2), SEEDS)
@settings(max_examples=40, deadline=None)
def test_properties_of_relu(d, seed):
    c = covariance(d, seed)
    v = theory.second_moment(c)
    assert float(torch.linalg.eigvalsh(v)[0]) > -1e-12
    order = torch.randperm(d, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(theory.second_moment(c[order][:, order]), v[order][:, order])
    torch.testing.assert_close(theory.second_moment(3.7 * c), 3.7 * v)
    s = torch.rand(d, dtype=torch.float64) + 0.1
    torch.testing.assert_close(theory.second_moment(c, s=s), s[:, None] * v * s)


@given(st.floats(-1, 1))
@settings(deadline=None)
def test_kernel_lies_above_its_argument(rho):
    assert theory.arc_cosine(rho) >= max(rho, 0.0) - 1e-12
    assert 0 <= theory.arc_cosine_slope(rho) <= 1


@pytest.mark.parametrize("q", [1e-6, 1.0, 1e2, 1e4])
def test_steep_saturation(q):
    matrix = q * torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=torch.float64)
    points = sorted({0.0, *(min(k / math.sqrt(q), 12.0) for k in (0.5, 2, 8)), 1.0, 4.0, 12.0})
    precise = 2 * mpmath.quad(
        lambda x: mpmath.tanh(mpmath.sqrt(q) * x) ** 2 * mpmath.npdf(x), points
    )
    found = theory.second_moment(matrix, theory.TANH)
    assert float(found[0, 0]) == pytest.approx(float(precise), rel=1e-10)


ACTIVATIONS = [theory.RELU, theory.leaky_relu(0.2), theory.TANH, theory.ELU]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
def test_derivative_is_that_of_differences(activation):
    c, direction = covariance(4), symmetric(4)
    numeric = central_difference(lambda x: theory.second_moment(x, activation), c, direction)
    found = theory.derivative(c, direction, activation)
    torch.testing.assert_close(found, numeric, rtol=1e-7, atol=1e-9)


@given(sizes(2), SEEDS)
@settings(max_examples=30, deadline=None)
def test_relu_derivative_is_linear_and_that_of_differences(d, seed):
    c, a, b = covariance(d, seed), symmetric(d, seed + 1), symmetric(d, seed + 2)
    found = theory.derivative(c, 2 * a - 3 * b)
    parts = 2 * theory.derivative(c, a) - 3 * theory.derivative(c, b)
    torch.testing.assert_close(found, parts, rtol=1e-12, atol=1e-12)
    # V is homogeneous of degree one for ReLU: Euler's identity.
    torch.testing.assert_close(theory.derivative(c, c), theory.second_moment(c))
    # Steps are small against the least eigenvalue: V bends strongly near correlation one.
    step = 1e-4 * float(torch.linalg.eigvalsh(c)[0]) / float(a.abs().max())
    numeric = central_difference(theory.second_moment, c, a, step)
    torch.testing.assert_close(theory.derivative(c, a), numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "q", "c"),
    [
        (theory.RELU, 1.0, 0.0),
        (theory.RELU, 2.3, 0.45),
        (theory.RELU, 0.4, -0.3),
        (theory.leaky_relu(0.2), 2.3, 0.45),
        (theory.TANH, 0.4, -0.3),
        (theory.ELU, 2.3, 0.45),
    ],
)
def test_dos_at_symmetric_points(activation, q, c):
    direction = symmetric(4)
    found = theory.derivative(theory.bsb1(4, q, c), direction, activation)
    expected = theory.dos_at_bsb1(c, activation, q).apply(direction)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("c", [-1.0, -0.3, 0.0, 0.7, 1.0])
def test_quadrature_gives_the_closed_form_even_at_full_correlation(c):
    general = Activation("by quadrature", torch.relu)
    known, found = theory.dos_at_bsb1(c), theory.dos_at_bsb1(c, general, 1.7)
    for name in "uvw":
        assert getattr(found, name) == pytest.approx(getattr(known, name), abs=1e-13)


@given(st.floats(-1, 1))
@settings(deadline=None)
def test_relu_coefficients_are_ordered(c):
    dos = theory.dos_at_bsb1(c)
    assert 0 <= dos.w <= dos.u == 0.5
    assert dos.v >= 0


def test_centred_covariance():
    def centred(x):
        mean = x.diagonal().sqrt() / (2 * torch.pi) ** 0.5
        return theory.second_moment(x) - mean.outer(mean)

    point, direction = theory.bsb1(4, 1.0, 0.5), symmetric(4)
    numeric = central_difference(centred, point, direction)
    found = theory.centred_relu_dos(0.5).apply(direction)
    torch.testing.assert_close(found, numeric, rtol=1e-8, atol=1e-9)


def test_other_points_where_the_derivative_is_one_dos_operator():
    a, change = torch.tensor([1.0, 0.5, 3.0], dtype=torch.float64), symmetric(3)
    found = theory.derivative(a.outer(a), change)
    torch.testing.assert_close(found, theory.DOS(0.5, 0.0, 0.5).apply(change))
    opposite = torch.tensor([[1.0, -2.0], [-2.0, 4.0]])
    found = theory.derivative(opposite, symmetric(2))
    torch.testing.assert_close(found, theory.DOS(0.5, 0.0, 0.0).apply(symmetric(2)))
    # Signs, unequal variances below full correlation, unequal correlations: v or w differ.
    signs = torch.tensor([1.0, -0.5, 3.0], dtype=torch.float64)
    uneven = torch.tensor([[1.0, 0.9, 0.5], [0.9, 1.0, 0.5], [0.5, 0.5, 1.0]])
    for c in (signs.outer(signs), a.outer(a) * theory.bsb1(3, 1.0, 0.9), uneven):
        own = [theory.derivative(c, torch.eye(3)[i].diag()) for i in range(3)]
        v = torch.stack([image[i, j] for i, image in enumerate(own) for j in range(3) if i != j])
        w = theory.derivative(c, 1 - torch.eye(3))[*torch.triu_indices(3, 3, offset=1)]
        assert float(v.max() - v.min() + w.max() - w.min()) > 0.01
