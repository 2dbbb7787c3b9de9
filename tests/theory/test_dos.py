"""DOS operators, and the four spaces of Theorem 3."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn import theory
from drgcn.errors import DimensionError, InputError, ZeroVarianceError
from drgcn.theory import DOS

from .matrices import SEEDS, covariance, gate, sizes, symmetric

NUMBERS = st.floats(-2, 2).map(lambda x: round(x, 3))


@given(sizes(1), SEEDS, NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=40, deadline=None)
def test_apply_is_the_definition(d, seed, u, v, w):
    c, found = symmetric(d, seed), DOS(u, v, w).apply(symmetric(d, seed))
    for i in range(d):
        for j in range(d):
            off = v * c[i, i] + v * c[j, j] + w * c[i, j]
            assert float(found[i, j]) == pytest.approx(
                float(u * c[i, i] if i == j else off), abs=1e-12
            )


@given(sizes(2), SEEDS, NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=40, deadline=None)
def test_eigenmatrices_span_and_norm(d, seed, u, v, w):
    dos = DOS(u, v, w)
    for i in range(d):
        light = dos.diagonal_eigenmatrix(d, i)
        torch.testing.assert_close(dos.apply(light), u * light, atol=1e-12, rtol=0)
    pair = theory.off_diagonal_eigenmatrix(d, 0, 1)
    torch.testing.assert_close(dos.apply(pair), w * pair)
    image = theory.operator_matrix(dos.apply, d)
    norm = float(torch.linalg.matrix_norm(image, 2))
    assert dos.operator_norm(d) == pytest.approx(norm, rel=1e-10, abs=1e-12)
    if abs(w - u) > 1e-2:
        c = symmetric(d, seed)
        lights, pairs = dos.coordinates(c)
        row, col = torch.triu_indices(d, d, offset=1)
        total = sum(x * dos.diagonal_eigenmatrix(d, i) for i, x in enumerate(lights))
        for value, i, j in zip(pairs, row.tolist(), col.tolist(), strict=True):
            total = total + value * theory.off_diagonal_eigenmatrix(d, i, j)
        torch.testing.assert_close(total, c, rtol=1e-8, atol=1e-8)
        assert sum(dos.multiplicities(d)) == d * (d + 1) // 2


@pytest.mark.parametrize(("d", "v", "rank"), [(1, 0.1, 0), (2, 0.1, 1), (3, 0.1, 3), (5, 0.0, 0)])
def test_defective_operators(d, v, rank):
    dos = DOS(0.5, v, 0.5)
    rest = theory.operator_matrix(dos.apply, d) - 0.5 * torch.eye(
        d * (d + 1) // 2, dtype=torch.float64
    )
    assert dos.nilpotent_rank(d) == rank == int(torch.linalg.matrix_rank(rest, atol=1e-12))
    assert float((rest @ rest).abs().max()) < 1e-14
    assert dos.diagonalisable == (v == 0)
    with pytest.raises(InputError, match="no basis"):
        dos.coordinates(torch.eye(d))
    with pytest.raises(InputError, match="one eigenvalue"):
        dos.multiplicities(d)


def test_what_other_operators_refuse():
    with pytest.raises(InputError, match="nilpotent"):
        DOS(0.5, 0.1, 0.4).nilpotent_rank(3)
    with pytest.raises(InputError, match="two different"):
        theory.off_diagonal_eigenmatrix(3, 1, 1)


@given(sizes(2), SEEDS, NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=30, deadline=None)
def test_spectral_radius_with_a_gate(d, seed, u, v, w):
    # Distinct u and w keep the numeric eigenvalues of a triangular matrix well conditioned.
    dos, s = DOS(u + 3, v, w), gate(d, seed)
    numeric = theory.spectral_radius(lambda c: dos.apply(s[:, None] * c * s), d)
    assert dos.spectral_radius(s) == pytest.approx(numeric, rel=1e-6)
    assert dos.spectral_radius(s) >= abs(dos.u) * (1 - 1e-12)


def test_a_gate_that_lowers_the_spectral_radius():
    dos, s = DOS(0.1, 0.05, 1.0), torch.tensor([1.9, 0.1], dtype=torch.float64).sqrt()
    assert dos.spectral_radius(torch.ones(2)) == 1
    assert dos.spectral_radius(s) == pytest.approx(math.sqrt(0.19))
    assert theory.spectral_radius(lambda c: dos.apply(s[:, None] * c * s), 2) == pytest.approx(
        math.sqrt(0.19)
    )


# On both sides of |w| = (d - 1) |u|, and on the line.
@pytest.mark.parametrize(
    ("d", "u", "w"),
    [
        (2, 0.1, 1),
        (2, 0.5, 0.5),
        (3, 0.5, 0.9),
        (3, 0.5, 1),
        (3, 0.5, -1.2),
        (4, 0.2, 1),
        (3, 0, 1),
    ],
)
def test_least_spectral_radius(d, u, w):
    dos = DOS(u, 0.3, w)
    least, plain = dos.least_spectral_radius(d), dos.spectral_radius(torch.ones(d))
    lowered = abs(w) > (d - 1) * abs(u)
    assert (least < plain - 1e-9) == lowered
    draw = torch.Generator().manual_seed(d)
    # Many gates with one large entry: where there is a gain, it is there.
    squares = torch.rand(300, d, dtype=torch.float64, generator=draw).pow(8)
    radii = [dos.spectral_radius((d * x / x.sum()).sqrt()) for x in squares]
    assert min(radii) >= least - 1e-12
    large = d * w**2 / ((d - 1) * u**2 + w**2)
    best = torch.full((d,), (d - large) / (d - 1), dtype=torch.float64)
    best[0] = large
    if lowered:
        assert dos.spectral_radius(best.sqrt()) == pytest.approx(least)
    else:
        assert least == plain


def test_relu_and_tanh_lie_on_different_sides():
    for c in (-0.2, 0.0, 0.5, 1.0):
        dos = theory.dos_at_bsb1(c)
        assert dos.least_spectral_radius(2) == dos.spectral_radius(torch.ones(2)) == 0.5
    dos = theory.dos_at_bsb1(0.5, theory.TANH)
    assert dos.least_spectral_radius(2) < dos.spectral_radius(torch.ones(2))


@given(sizes(2, 8), SEEDS)
@settings(max_examples=40, deadline=None)
def test_parts_are_orthogonal_complete_and_in_their_spaces(d, seed):
    c = symmetric(d, seed)
    parts = theory.decompose(c)
    every = [parts.zero, parts.g, parts.l, parts.m]
    torch.testing.assert_close(sum(every), c, rtol=0, atol=1e-12)
    for i, a in enumerate(every):
        for b in every[:i]:
            assert abs(float((a * b).sum())) < 1e-10
    g = theory.centring(d)
    assert float((g @ parts.zero @ g).abs().max()) < 1e-12
    assert float((parts.m.sum(0).abs() + parts.m.diagonal().abs()).max()) < 1e-12
    assert float(parts.l.trace().abs()) < 1e-12
    assert float(parts.l.sum(0).abs().max()) < 1e-12
    for name, again in zip("0GLM", every, strict=True):
        norms = theory.decompose(again).norms()
        assert sum(norm for other, norm in norms.items() if other != name) < 1e-10


@pytest.mark.parametrize("d", [2, 3, 4, 7])
def test_dimensions_are_ranks(d):
    ranks = [
        int(torch.linalg.matrix_rank(theory.operator_matrix(part, d), atol=1e-10))
        for part in (
            lambda c: theory.decompose(c).zero,
            lambda c: theory.decompose(c).g,
            lambda c: theory.decompose(c).l,
            lambda c: theory.decompose(c).m,
        )
    ]
    assert ranks == list(theory.dimensions(d).values())
    assert sum(ranks) == d * (d + 1) // 2


@given(sizes(2, 8), SEEDS)
@settings(max_examples=30, deadline=None)
def test_part_along_g_is_multiplied_by_k(d, seed):
    c, s = covariance(d, seed), gate(d, seed)
    k = theory.relative_g_component(c, s)
    torch.testing.assert_close(
        theory.decompose(s[:, None] * c * s).g, k * theory.decompose(c).g, atol=1e-12, rtol=1e-9
    )
    assert theory.relative_g_component(2.5 * c, 0.3 * s) == pytest.approx(k)
    norm = theory.decompose(c).norms()["G"]
    assert norm == pytest.approx(theory.g_component(c) / (d - 1) ** 0.5)


@given(sizes(2, 8), SEEDS)
@settings(max_examples=30, deadline=None)
def test_no_gate_helps_at_a_symmetric_point(d, seed):
    assert theory.relative_g_component(theory.bsb1(d, 1.3, 0.3), gate(d, seed)) >= 1 - 1e-12


def test_k_of_data_is_k_of_its_covariance():
    from drgcn import stability_k

    x, s = torch.randn(50, 6, dtype=torch.float64), gate(6)
    found = theory.relative_g_component(torch.cov(x.T, correction=0), s)
    assert found == pytest.approx(stability_k(x, s), rel=1e-10)


def test_refused():
    with pytest.raises(DimensionError, match="found d = 1"):
        theory.decompose(torch.eye(1))
    with pytest.raises(DimensionError, match="found d = 1"):
        theory.dimensions(1)
    with pytest.raises(DimensionError, match="found d = 1"):
        DOS(1.0, 0.0, 2.0).least_spectral_radius(1)
    with pytest.raises(ZeroVarianceError, match="<C, G>"):
        theory.relative_g_component(torch.ones(3, 3), torch.ones(3))
