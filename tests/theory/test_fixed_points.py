import math

import pytest
import torch

from drgcn import theory
from drgcn.errors import InputError

from .matrices import covariance, normal


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
