import pytest
import torch

from drgcn import theory
from drgcn.errors import InputError

from .matrices import gate, symmetric


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


def test_refused():
    with pytest.raises(InputError, match="did not settle"):
        theory.reweighted_fixed_point(gate(4), layers=2)
