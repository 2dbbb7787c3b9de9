"""What K owes to its definition, whichever way it is asked: of features, moments, covariance."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn import stability_k
from drgcn.errors import CovarianceError, NonFiniteError, UndefinedStability
from drgcn.stability import FeatureMoments

from ..reference import layouts

QUICK = settings(max_examples=60, derandomize=True, deadline=None, database=None)


def of_covariance(x, s):
    return stability_k(np.cov(np.asarray(x).T, bias=True), s, covariance=True)


def of_moments(x, s):
    return stability_k(FeatureMoments(x.shape[1]).update(x[:1]).update(x[1:]), s)


WAYS = {
    **{f"features, {layout.__name__}": layout for layout in layouts.ALL},
    "moments": of_moments,
    "covariance": of_covariance,
}


def k(way, x, s):
    """K of the same features by one of the ways."""
    call = WAYS[way]
    return stability_k(call(x), s) if way.startswith("features") else call(x, s)


@st.composite
def cases(draw):
    """Features with columns of different loudness, a vector, and a generator for the rest."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    d = draw(st.integers(2, 9))
    x = generator.standard_normal((draw(st.integers(3, 20)), d))
    x = x * np.exp(generator.standard_normal(d))
    return torch.from_numpy(x), generator.uniform(0.05, 1, d), generator


EVERY_WAY = st.sampled_from(list(WAYS))


@QUICK
@given(cases(), EVERY_WAY, st.sampled_from([1e-5, -3.0, 1e5]), st.sampled_from([1e-9, -0.7, 1e9]))
def test_neither_scale_matters(case, way, of_x, of_s):
    x, s, _ = case
    assert k(way, of_x * x, of_s * s) == pytest.approx(k(way, x, s), rel=1e-7)


@QUICK
@given(cases(), EVERY_WAY)
def test_the_order_of_dimensions_and_of_rows_does_not_matter(case, way):
    x, s, generator = case
    columns, rows = generator.permutation(x.shape[1]), generator.permutation(x.shape[0])
    assert k(way, x[rows][:, columns], s[columns]) == pytest.approx(k(way, x, s), rel=1e-7)
    if not np.allclose(s, s[columns]):
        # Not because K is deaf: a vector that is moved by itself has another K.
        assert k(way, x, s[columns]) != pytest.approx(k(way, x, s), rel=1e-9)


@QUICK
@given(cases(), EVERY_WAY, st.sampled_from([1.0, -2.0, 1e-8]))
def test_a_constant_vector_has_k_one(case, way, constant):
    x, s, _ = case
    assert k(way, x, np.full_like(s, constant)) == pytest.approx(1, rel=1e-9)


@QUICK
@given(cases(), EVERY_WAY)
def test_k_lies_within_the_bounds_of_rayleigh(case, way):
    x, s, _ = case
    d = len(s)
    m = np.cov(x.numpy().T, bias=True) * (np.eye(d) - 1 / d)
    values, vectors = np.linalg.eigh(m * d / m.sum())
    slack = 1e-8 * values[-1]
    assert values[0] - slack <= k(way, x, s) <= values[-1] + slack
    for value, vector in ((values[0], vectors[:, 0]), (values[-1], vectors[:, -1])):
        assert k(way, x, vector) == pytest.approx(value, abs=slack)


# Each condition by its name, by every way that can meet it

ALL_WAYS = pytest.mark.parametrize("way", WAYS)
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
S = np.array([0.2, 0.5, 0.9])


@ALL_WAYS
def test_no_variance_is_named(way):
    with pytest.raises(UndefinedStability, match="the total variance is zero"):
        k(way, torch.full((8, 3), 0.25, dtype=torch.float64), S)


@ALL_WAYS
def test_a_vector_of_zeros_is_named(way):
    with pytest.raises(UndefinedStability, match="s is zero in every dimension"):
        k(way, X, np.zeros(3))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "covariance"])
def test_one_dimension_is_named(way):
    with pytest.raises(UndefinedStability, match=r"one feature dimension \(d = 1\)"):
        k(way, X[:, :1], S[:1])


def test_one_dimension_of_a_covariance_is_named():
    with pytest.raises(UndefinedStability, match=r"one feature dimension \(d = 1\)"):
        stability_k(np.array([[2.0]]), [0.5], covariance=True)


@ALL_WAYS
def test_dimensions_that_differ_by_constants_alone_are_named(way):
    with pytest.raises(UndefinedStability, match="equal up to constants"):
        k(way, X[:, :1] + torch.tensor([[0.0, 1.0, 2.0]]), S)


@ALL_WAYS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_named(way, bad):
    with pytest.raises(NonFiniteError, match=rf"found {bad} at entry 1"):
        k(way, X, np.array([0.2, bad, 0.9]))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "covariance"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite_are_named(way, bad):
    x = X.clone()
    x[5, 2] = bad
    with pytest.raises(NonFiniteError, match=rf"found {bad} at row 5, column 2"):
        k(way, x, S)


@pytest.mark.parametrize(
    ("c", "kind", "words"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], NonFiniteError, "found nan at row 0, column 1"),
        ([[1.0, 0.5], [0.4, 1.0]], CovarianceError, "symmetric.*0.5 at .0, 1. and 0.4 at .1, 0."),
        ([[1.0, 2.0], [2.0, 1.0]], CovarianceError, "semi-definite.*eigenvalue -1"),
        ([[-1.0, 0.0], [0.0, 1.0]], CovarianceError, "semi-definite.*eigenvalue -1"),
        ([[1.0, 0.0]], CovarianceError, r"\[d, d\]; found shape \[1, 2\]"),
    ],
)
def test_what_is_no_covariance_is_named(c, kind, words):
    with pytest.raises(kind, match=words):
        stability_k(np.array(c), S[:2], covariance=True)
