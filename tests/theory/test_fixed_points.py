"""Fixed points, and deviations from them layer by layer."""

import math

import pytest
import torch

from drgcn import theory
from drgcn.errors import InputError

from .matrices import central_difference, covariance, gate, normal, symmetric


@pytest.mark.parametrize(
    ("weight", "bias", "kind", "q", "c"),
    [
        (0.8, 0.3, "bsb1", 0.5, 1.0),
        (1.9, 0.2, "bsb1", 4.0, 1.0),
        (1.9, 0.0, "zero", 0.0, None),
        (0.0, 0.0, "zero", 0.0, None),
        (2.0, 0.0, "line", None, 1.0),
        (2.0, 0.1, "diverges", None, 1.0),
        (3.0, 0.0, "diverges", None, 1.0),
    ],
)
def test_kinds(weight, bias, kind, q, c):
    found = theory.sample_fixed_point(weight, bias)
    assert (found.kind, found.c) == (kind, c)
    assert found.q == pytest.approx(q)


def test_matrices_tend_to_the_fixed_point():
    limit = theory.sample_fixed_point(1.2, 0.4)
    found = theory.iterate_samples(covariance(4), 1.2, 0.4, 80)
    torch.testing.assert_close(found, theory.bsb1(4, limit.q, limit.c), rtol=1e-8, atol=1e-8)
    q, c = theory.iterate_bsb1(3.0, 0.1, 1.2, 0.4, 80)
    assert (q, c) == pytest.approx((limit.q, limit.c), abs=1e-8)


def test_rate_and_marginal_decay():
    q, c = 0.4, 0.999
    _, after = theory.iterate_bsb1(q, c, 1.5, 0.1, 1)
    # The slope of kappa at one is one, reached like a square root.
    assert (1 - after) / (1 - c) == pytest.approx(0.75, abs=0.03)
    correlations = [theory.iterate_bsb1(1.0, 0.0, 2.0, 0.0, n)[1] for n in (100, 400)]
    assert correlations[0] < correlations[1] < 1
    assert (1 - correlations[1]) * 400**2 == pytest.approx(9 * math.pi**2 / 2, rel=0.08)


def test_features_averaged_over_weights():
    d, weight, bias = 6, 1.1, 0.3
    for centred in (False, True):
        found = theory.feature_fixed_point(weight, bias, centred=centred)
        assert found.c == 0
        moment = theory.second_moment(found.q * torch.eye(d, dtype=torch.float64))
        if centred:
            moment = moment - found.q / (2 * math.pi)
        assert found.q == pytest.approx(weight * float(moment.trace()) / d + bias, rel=1e-12)
    assert theory.feature_fixed_point(2.5, 0.1).kind == "diverges"
    assert theory.feature_fixed_point(2.5, 0.1, centred=True).kind == "bsb1"


def test_averaging_over_weights_leaves_a_derivative_of_rank_one():
    d, weight, bias = 4, 1.1, 0.3
    identity = torch.eye(d, dtype=torch.float64)

    def layer(c):
        return (weight * theory.second_moment(c).trace() / d + bias) * identity

    fixed = theory.feature_fixed_point(weight, bias).q * identity
    torch.testing.assert_close(layer(fixed), fixed)
    image = theory.operator_matrix(lambda x: central_difference(layer, fixed, x), d)
    assert int(torch.linalg.matrix_rank(image, atol=1e-8)) == 1
    assert float(image.trace()) == pytest.approx(weight / 2)
    # The J of Appendix G at the same point has both conditions: it belongs to another map.
    dos = theory.dos_at_bsb1(0.0)
    assert dos.v > 0
    assert dos.w < dos.u


@pytest.mark.parametrize("weight", [0.4, 1.0, 1.9])
def test_features_that_do_not_mix(weight):
    found = theory.unmixed_fixed_point(weight, 0.3)
    assert 0 < found.c < 1
    fixed = theory.bsb1(5, found.q, found.c)
    bias = 0.3 * torch.eye(5)
    root = math.sqrt(weight) * torch.eye(5)
    torch.testing.assert_close(theory.layer_covariance(fixed, root, bias), fixed)
    # Attractive, and its derivative is a DOS operator that Appendices G and H can use.
    dos = theory.dos_at_bsb1(found.c)
    assert dos.v > 0
    assert dos.w < dos.u
    assert weight * theory.spectral_radius(dos.apply, 5) < 1
    c = covariance(5)
    for _ in range(30):
        c = weight * theory.second_moment(c) + bias
    assert float((c - fixed).norm()) < 0.25 * float((covariance(5) - fixed).norm())


def test_where_features_that_do_not_mix_have_no_limit():
    assert theory.unmixed_fixed_point(0.0, 0.3).c == 0
    assert theory.unmixed_fixed_point(1.0, 0.0).kind == "zero"
    assert theory.unmixed_fixed_point(2.0, 0.1).kind == "diverges"


def test_layers_with_given_weights():
    d = 5
    start, bias = theory.bsb1(d, 1.0, 0.3), torch.zeros(d, d)
    axis = normal(d)
    axis = axis - axis.mean()
    mirror = torch.eye(d) - 2 * axis.outer(axis) / axis.dot(axis)
    kept = theory.layer_covariance(start, 1.3 * mirror, bias)
    torch.testing.assert_close(kept, 1.69 * theory.second_moment(start))
    rotated = theory.layer_covariance(start, torch.linalg.qr(normal(d, d))[0], bias)
    assert float(rotated.diagonal().std()) > 0.01
    with pytest.raises(InputError, match="shape"):
        theory.layer_covariance(start, torch.eye(3), bias)


def test_refused():
    with pytest.raises(InputError, match="not negative"):
        theory.sample_fixed_point(-1.0, 0.0)
    with pytest.raises(InputError, match="positive"):
        theory.iterate_bsb1(1.0, 0.0, 0.0, 0.0, 2)


def test_deviations_shrink_by_their_eigenvalues():
    d = 5
    spectrum = theory.normalised_spectrum(d)
    start = theory.decompose(symmetric(d))
    for name, part, value in (
        ("G", start.g, 0.0),
        ("L", start.l, spectrum.lambda_l),
        ("M", start.m, spectrum.lambda_m),
    ):
        before, after = theory.deviations(1e-6 * part, 1)
        assert after.norms()[name] / before.norms()[name] == pytest.approx(value, abs=1e-4)
    assert theory.deviations(1e-4 * start.g, 1)[1].norms()["G"] < 1e-14


def test_rate_is_that_of_an_iteration():
    s = gate(5)
    fixed = theory.reweighted_fixed_point(s)
    torch.testing.assert_close(theory.normalised_moment(fixed, s), fixed, rtol=1e-11, atol=0)
    c = fixed + 1e-4 * torch.eye(5) * torch.arange(5)
    sizes = []
    for _ in range(25):
        c = theory.normalised_moment(c, s)
        sizes.append(float((c - fixed).norm()))
    assert theory.growth_rate(s) == pytest.approx(sizes[-1] / sizes[-2], rel=0.02)
    assert theory.growth_rate(torch.ones(5)) == pytest.approx(
        theory.normalised_spectrum(5).lambda_l
    )


def test_backward_gain_is_the_backward_eigenvalue():
    spectrum = theory.normalised_spectrum(12)
    found = theory.backward_gain(spectrum.fixed_point, torch.ones(12), samples=100_000)
    assert found == pytest.approx(spectrum.lambda_g_backward, rel=0.02)


def test_backward_gain_is_that_of_autograd():
    d, samples = 4, 50
    c = theory.bsb1(d, 1.0, 0.2)
    value, vector = torch.linalg.eigh(c)
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(samples, d, dtype=torch.float64, generator=draw)
    h = (noise * value.sqrt()) @ vector.T
    g = theory.centring(d)

    def layer(x):
        x = g @ x
        return g @ torch.relu(d**0.5 * x / x.norm())

    slopes = [torch.autograd.functional.jacobian(layer, x).square().sum() for x in h]
    expected = float(sum(slopes)) / samples / (d - 1)
    found = theory.backward_gain(c, torch.ones(d), samples=samples)
    assert found == pytest.approx(expected, rel=1e-10)


def test_gates_without_a_fixed_point_are_refused():
    with pytest.raises(InputError, match="did not settle"):
        theory.reweighted_fixed_point(gate(4), layers=2)
