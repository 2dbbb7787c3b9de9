import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn import theory
from drgcn.theory import Activation

from .matrices import SEEDS, central_difference, covariance, sizes, symmetric

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


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
@pytest.mark.parametrize(("q", "c"), [(1.0, 0.0), (2.3, 0.45), (0.4, -0.3)])
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
