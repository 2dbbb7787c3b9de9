import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.errors import CovarianceError, InputError, NonFiniteError, UndefinedStability
from drgcn.stability import (
    QuadraticForm,
    attainable,
    minimal_k,
    minimal_k_in_range,
    stability_k,
    standardizing_k,
)

QUICK = settings(max_examples=40, derandomize=True, deadline=None, database=None)


def covariance(d, seed=0, *, nonnegative=False):
    draw = np.random.default_rng(seed)
    root = draw.standard_normal((d, d)) * np.exp(draw.standard_normal(d))[:, None]
    c = root @ root.T
    return np.abs(root) @ np.abs(root).T if nonnegative else c


def on_the_sphere(d, count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, d))


# K as a quotient


@QUICK
@given(d=st.integers(2, 8), seed=st.integers(0, 99))
def test_k_lies_between_the_least_and_the_largest_eigenvalue(d, seed):
    c = covariance(d, seed)
    m = c * (np.eye(d) - 1 / d)
    values = np.linalg.eigvalsh(m) * d / m.sum()
    k = stability_k(c, np.random.default_rng(seed).uniform(0.1, 1, d), covariance=True)
    assert values[0] * (1 - 1e-9) - 1e-12 <= k <= values[-1] * (1 + 1e-9)
    assert minimal_k(c, covariance=True).value == pytest.approx(values[0], rel=1e-8, abs=1e-12)


@QUICK
@given(
    d=st.integers(2, 8),
    seed=st.integers(0, 99),
    a=st.sampled_from([1e-9, 0.3, 1e9]),
    b=st.sampled_from([-1e-200, 7.0, 1e200]),
)
def test_scales_and_the_order_of_dimensions_do_not_matter(d, seed, a, b):
    draw = np.random.default_rng(seed)
    c, s, order = covariance(d, seed), draw.uniform(0.1, 1, d), draw.permutation(d)
    k = stability_k(c, s, covariance=True)
    assert stability_k(a * c, b * s, covariance=True) == pytest.approx(k, rel=1e-10)
    moved = stability_k(c[np.ix_(order, order)], s[order], covariance=True)
    assert moved == pytest.approx(k, rel=1e-10)
    assert stability_k(c, np.full(d, b), covariance=True) == pytest.approx(1, rel=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    form = QuadraticForm.of(covariance(5), covariance=True)
    s = np.linspace(0.2, 1.3, 5)
    _, gradient = form.value_and_gradient(s)
    for i, step in enumerate(1e-6 * np.eye(5)):
        slope = (form.value(s + step) - form.value(s - step)) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-7)


def test_a_square_matrix_is_data_unless_said_otherwise():
    c, s = torch.from_numpy(covariance(4)), torch.rand(4)
    assert stability_k(c, s) != pytest.approx(stability_k(c, s, covariance=True))
    assert stability_k(c, s) == pytest.approx(
        stability_k(torch.cov(c.T, correction=0), s, covariance=True)
    )


# Minima


@QUICK
@given(d=st.integers(2, 7), seed=st.integers(0, 99))
def test_no_vector_goes_below_the_minima(d, seed):
    c = covariance(d, seed)
    form = QuadraticForm.of(c, covariance=True)
    least, nonnegative = minimal_k(form), minimal_k(form, "nonnegative")
    assert least.exact
    assert nonnegative.exact
    assert least.value <= nonnegative.value + 1e-12
    assert (nonnegative.s >= 0).all()
    assert nonnegative.value <= min(np.diag(form.matrix)) + 1e-9  # one dimension alone
    for s in on_the_sphere(d, 200, seed):
        assert form.value(s) >= least.value - 1e-9
        assert form.value(np.abs(s)) >= nonnegative.value - 1e-9
    for found in (least, nonnegative):
        assert stability_k(c, found.s, covariance=True) == pytest.approx(
            found.value, rel=1e-6, abs=1e-10
        )


@pytest.mark.parametrize("d", [3, 20])
def test_without_negative_covariances_both_minima_are_one(d):
    c = covariance(d, nonnegative=True)
    least, nonnegative = (minimal_k(c, o, covariance=True) for o in ("all", "nonnegative"))
    assert nonnegative.exact
    assert nonnegative.value == pytest.approx(least.value, rel=1e-9)
    assert (nonnegative.s > 0).all()


def test_descents_find_what_the_enumeration_proves(monkeypatch):
    for seed in range(5):
        c = covariance(9, seed)
        exact = minimal_k(c, "nonnegative", covariance=True)
        with monkeypatch.context() as patch:
            patch.setattr(attainable, "_ENUMERATED_UP_TO", 0)
            found = minimal_k(c, "nonnegative", covariance=True)
        assert found.value >= exact.value * (1 - 1e-9)
        assert found.value <= exact.value * 1.3


def test_lanczos_finds_what_the_decomposition_does(monkeypatch):
    c = covariance(60)
    slow = minimal_k(c, covariance=True).value
    monkeypatch.setattr(attainable, "_DENSE_UP_TO", 10)
    assert minimal_k(c, covariance=True).value == pytest.approx(slow, rel=1e-6, abs=1e-10)


def test_a_constant_dimension_makes_the_minimum_zero():
    c = np.diag([1.0, 2.0, 0.0])
    found = minimal_k(c, covariance=True)
    assert found.value == 0
    assert found.s.abs().argmax() == 2


def test_equally_correlated_dimensions_cannot_be_improved():
    found = minimal_k(0.7 * np.eye(6) + 0.3, "nonnegative", covariance=True)
    assert found.value == pytest.approx(1, rel=1e-12)


@QUICK
@given(d=st.integers(2, 6), seed=st.integers(0, 99), ratio=st.sampled_from([1.5, 2, 4, 10]))
def test_no_vector_in_the_range_goes_below_its_minimum(d, seed, ratio):
    form = QuadraticForm.of(covariance(d, seed), covariance=True)
    found = minimal_k_in_range(form, ratio)
    assert float(found.s.max() / found.s.min()) <= ratio * (1 + 1e-9)
    assert minimal_k(form, "nonnegative").value - 1e-9 <= found.value <= 1 + 1e-12
    draw = np.random.default_rng(seed)
    for s in draw.uniform(1, ratio, (300, d)):
        assert form.value(s) >= found.value - 1e-9
    corners = np.array(np.meshgrid(*[[1, ratio]] * d)).reshape(d, -1).T
    assert min(form.value(s) for s in corners) >= found.value - 1e-9


def test_the_threshold_rule_is_the_best_of_all_corners():
    variance = np.array([3.0, 0.2, 1.0, 5.0, 0.7])
    form = QuadraticForm.of(np.diag(variance), covariance=True)
    corners = np.array(np.meshgrid(*[[1.0, 3.0]] * 5)).reshape(5, -1).T
    found = minimal_k_in_range(form, 3)
    assert found.exact
    assert found.value == pytest.approx(min(form.value(s) for s in corners), rel=1e-12)


def test_a_wider_range_reaches_further():
    form = QuadraticForm.of(covariance(30), covariance=True)
    values = [minimal_k_in_range(form, ratio).value for ratio in (1.5, 2, 4, 10, 100)]
    assert values == sorted(values, reverse=True)


def test_standardizing_uncorrelated_dimensions_gives_the_quotient_of_means():
    variance = np.array([3.0, 0.2, 1.0, 5.0])
    wanted = 1 / np.mean(1 / variance) / np.mean(variance)
    assert standardizing_k(np.diag(variance), covariance=True) == pytest.approx(wanted, rel=1e-12)
    x = torch.rand(50, 4, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.1, 30.0])
    wanted = stability_k(x, 1 / x.std(0, correction=0))
    assert standardizing_k(x) == pytest.approx(wanted, rel=1e-10)


# Bad input


def refused(kind, words, c, s=None):
    with pytest.raises(kind, match=words):
        stability_k(c, np.ones(len(c)) if s is None else s, covariance=True)
    if s is None:
        with pytest.raises(kind, match=words):
            minimal_k(c, covariance=True)


def test_what_is_no_covariance_is_refused_by_name():
    refused(CovarianceError, "symmetric", np.array([[1.0, 0.5], [0.4, 1.0]]))
    refused(CovarianceError, "semi-definite.*-1", np.array([[1.0, 2.0], [2.0, 1.0]]))
    refused(CovarianceError, "shape", np.ones((2, 3)), np.ones(3))
    refused(NonFiniteError, "row 1, column 0", np.array([[1.0, 0.0], [np.nan, 1.0]]))


def test_where_k_is_undefined_the_condition_is_named():
    refused(UndefinedStability, "d = 1", np.array([[2.0]]))
    refused(UndefinedStability, "total variance is zero", np.zeros((3, 3)))
    refused(UndefinedStability, "equal up to constants", np.full((3, 3), 2.0))
    refused(UndefinedStability, "s is zero", np.eye(3), np.zeros(3))
    refused(NonFiniteError, "entry 1", np.eye(3), np.array([1, np.inf, 2]))
    with pytest.raises(UndefinedStability, match="1 of 3 dimensions are constant"):
        standardizing_k(np.diag([1.0, 0.0, 2.0]), covariance=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_covariance_with_the_rounding_of_its_type_is_taken(dtype):
    x = torch.randn(20, 30, generator=torch.Generator().manual_seed(0), dtype=dtype) + 3
    c = torch.cov(x.T)  # fewer rows than columns: eigenvalues of zero, some below by rounding
    s = torch.rand(30)
    found = stability_k(c, s, covariance=True)
    assert found == pytest.approx(stability_k(x, s), rel=1e-4)


@pytest.mark.parametrize("ratio", [1.0, 0.5, float("inf"), float("nan")])
def test_ranges_that_are_none_are_refused(ratio):
    with pytest.raises(InputError, match="ratio"):
        minimal_k_in_range(np.eye(3), ratio, covariance=True)


def test_other_domains_are_refused():
    with pytest.raises(InputError, match="nonnegative"):
        minimal_k(np.eye(3), "positive", covariance=True)
