import math

import pytest
import torch
from hypothesis import given, settings

from drgcn import theory
from drgcn.errors import DimensionError, InputError
from drgcn.theory import DOS

from .matrices import SEEDS, covariance, gate, sizes, symmetric

RELU = theory.dos_at_bsb1(0.25)


def literal_norm(s, c, dos):
    total = 0.0
    for i in range(len(s)):
        for j in range(len(s)):
            a, b = float(s[i] ** 2 * c[i, i]), float(s[j] ** 2 * c[j, j])
            entry = dos.v * (a + b) + dos.w * float(s[i] * s[j] * c[i, j])
            total += (dos.u * a if i == j else entry) ** 2
    return total


@given(sizes(2), SEEDS)
@settings(max_examples=30, deadline=None)
def test_objective_and_gradient(d, seed):
    c, s = symmetric(d, seed), gate(d, seed)
    value, gradient = theory.reweighted_norm(s, c, RELU)
    assert value == pytest.approx(literal_norm(s, c, RELU), rel=1e-12)
    for i in range(d):
        step = torch.zeros(d, dtype=torch.float64)
        step[i] = 1e-5
        up, down = literal_norm(s + step, c, RELU), literal_norm(s - step, c, RELU)
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)
    # Degree four in s, which the printed factor overlooks.
    assert theory.reweighted_norm(2 * s, c, RELU)[0] == pytest.approx(16 * value, rel=1e-12)
    assert float(gradient @ s) == pytest.approx(4 * value, rel=1e-10)


@given(sizes(2), SEEDS)
@settings(max_examples=25, deadline=None)
def test_a_certificate_for_every_random_matrix(d, seed):
    c = covariance(d, seed)
    found = theory.descent_certificate(c, RELU)
    assert found is not None
    assert found.gamma < 1
    assert float(found.s.square().sum()) == pytest.approx(d)
    value = theory.reweighted_norm(found.s, c, RELU)[0]
    start = theory.reweighted_norm(torch.ones(d), c, RELU)[0]
    assert found.gamma == pytest.approx(math.sqrt(value / start))
    assert theory.best_reweighting(c, RELU, starts=1).gamma <= found.gamma + 1e-9


@pytest.mark.parametrize(("make", "seed"), [(covariance, 0), (symmetric, 0), (symmetric, 1)])
def test_best_gate_is_that_of_a_grid(make, seed):
    c = make(3, seed)
    start = literal_norm(torch.ones(3), c, RELU)
    angles = torch.linspace(0, math.pi / 2, 41, dtype=torch.float64)
    best = min(
        theory.reweighted_norm(
            math.sqrt(3) * torch.stack([a.cos() * b.cos(), a.cos() * b.sin(), a.sin()]),
            c,
            RELU,
        )[0]
        for a in angles
        for b in angles
    )
    found = theory.best_reweighting(c, RELU)
    assert bool((found.s >= 0).all())
    assert float(found.s.square().sum()) == pytest.approx(3)
    assert found.gamma <= math.sqrt(best / start) + 1e-9
    assert found.gamma >= math.sqrt(best / start) - 0.02


@pytest.mark.parametrize("seed", range(2))
def test_diagonal_matrices_exactly(seed):
    variance = covariance(6, seed).diagonal() * torch.tensor([0.02, 1, 1, 1, 1, 30])
    for dos in (RELU, DOS(0.5, 0.0, 0.5), DOS(0.1, 0.3, 0.2), DOS(0.0, 0.2, 0.0)):
        exact = theory.diagonal_reweighting(variance, dos)
        found = theory.best_reweighting(torch.diag(variance), dos)
        assert exact.gamma == pytest.approx(found.gamma, rel=1e-5)
        assert exact.gamma <= found.gamma + 1e-9
        assert float(exact.s.square().sum()) == pytest.approx(6)
        value = theory.reweighted_norm(exact.s, torch.diag(variance), dos)[0]
        start = theory.reweighted_norm(torch.ones(6), torch.diag(variance), dos)[0]
        assert exact.gamma == pytest.approx(math.sqrt(value / start))


def test_dimensions_under_water():
    found = theory.diagonal_reweighting(torch.tensor([1e-2, 1.0, 1.0]), DOS(0.1, 1.0, 0.0))
    assert found.s.tolist() == pytest.approx([math.sqrt(3), 0, 0])
    without_u = theory.diagonal_reweighting(torch.tensor([3.0, 1.0]), DOS(0.0, 1.0, 1.0))
    assert without_u.s.tolist() == pytest.approx([0, math.sqrt(2)])
    assert without_u.gamma == pytest.approx(0.5)
    empty = theory.diagonal_reweighting(torch.tensor([1.0, 0.0, 2.0]), RELU)
    assert empty.gamma == 0
    assert empty.s.tolist() == pytest.approx([0, math.sqrt(3), 0])


def test_exceptional_points():
    for c in (theory.bsb1(5, 2.0, 0.4), torch.eye(4), torch.tensor([[1.0, 0.7], [0.7, 1.0]])):
        assert theory.descent_certificate(c, RELU) is None
    assert theory.best_reweighting(theory.bsb1(5, 1.0, 0.4), RELU).gamma == pytest.approx(1)


def test_equal_conditions_do_not_make_a_matrix_exceptional():
    c, dos = theory.bsb1(4, 1.0, 0.9), DOS(0.1, 0.02, 1.0)
    values = theory.stationarity(c, dos)
    assert float(values.max() - values.min()) < 1e-12
    assert theory.descent_certificate(c, dos) is None
    assert theory.second_variation(4, 0.9, dos) < 0
    assert theory.best_reweighting(c, dos, starts=1).gamma == pytest.approx(0.137, abs=5e-4)


def test_at_the_identity_no_gate_helps():
    for dos in (RELU, DOS(0.1, 0.02, 1.0), DOS(0.0, 0.3, 0.2)):
        assert theory.diagonal_reweighting(torch.ones(5), dos).gamma == pytest.approx(1)


def test_signs_help_where_positive_gates_do_not():
    c = theory.bsb1(5, 1.0, 0.4)
    start = theory.reweighted_norm(torch.ones(5), c, RELU)[0]
    signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0])
    assert theory.reweighted_norm(signs, c, RELU)[0] < 0.7 * start


@pytest.mark.parametrize("d", [2, 3, 5])
def test_without_u_and_v_every_matrix_has_a_gate(d):
    c, dos = covariance(d), DOS(0.0, 0.0, 1.0)
    one = torch.eye(d)[0]
    assert theory.reweighted_norm(one, c, dos)[0] == 0
    # S = I is stationary for two dimensions, a maximum.
    assert (theory.descent_certificate(c, dos) is None) == (d == 2)
    assert theory.best_reweighting(c, dos, starts=1).gamma < 1e-3


@pytest.mark.parametrize(("d", "rho"), [(2, 0.3), (5, 0.4), (6, -0.1)])
def test_second_variation(d, rho):
    c = theory.bsb1(d, 1.0, rho)
    tau = torch.zeros(d, dtype=torch.float64)
    tau[0], tau[1] = 1.0, -1.0
    start = theory.reweighted_norm(torch.ones(d), c, RELU)[0]

    def value(step):
        return theory.reweighted_norm((1 + step * tau).sqrt(), c, RELU)[0]

    numeric = (value(1e-3) + value(-1e-3) - 2 * start) / (2 * 1e-6) / 2
    assert theory.second_variation(d, rho, RELU) == pytest.approx(numeric, rel=1e-4)


def test_refused():
    with pytest.raises(DimensionError, match=r"d >= 2; found d = 1"):
        theory.best_reweighting(torch.eye(1), RELU)
    with pytest.raises(InputError, match=r"T\(C\) = 0"):
        theory.best_reweighting(torch.zeros(3, 3), RELU)
    with pytest.raises(InputError, match="not negative"):
        theory.diagonal_reweighting(torch.tensor([1.0, -1.0]), RELU)
    with pytest.raises(InputError, match=r"T\(C\) = 0"):
        theory.diagonal_reweighting(torch.tensor([1.0, 2.0]), DOS(0.0, 0.0, 1.0))
    with pytest.raises(InputError, match="C = 0"):
        theory.diagonal_reweighting(torch.zeros(3), RELU)
