import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn import theory
from drgcn.errors import InputError
from drgcn.theory import DOS

from .matrices import SEEDS, gate, sizes, symmetric

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
    rest = theory.operator_matrix(dos.apply, d) - 0.5 * torch.eye(d * (d + 1) // 2)
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
