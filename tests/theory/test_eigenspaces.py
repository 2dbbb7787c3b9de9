import pytest
import torch
from hypothesis import given, settings

from drgcn import theory
from drgcn.errors import DimensionError, ZeroVarianceError

from .matrices import SEEDS, covariance, gate, sizes, symmetric


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
    with pytest.raises(ZeroVarianceError, match="<C, G>"):
        theory.relative_g_component(torch.ones(3, 3), torch.ones(3))
