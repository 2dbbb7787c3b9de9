"""The claims around Theorem 1: Eq. 13 and Appendices G and H."""

from __future__ import annotations

import math

import torch

from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import DOS, bsb1, off_diagonal_eigenmatrix, operator_matrix, symmetric_basis
from drgcn.theory.maps import dos_at_bsb1
from drgcn.theory.theorem_one import (
    best_reweighting,
    descent_certificate,
    reweighted_norm,
    second_variation,
    stationarity,
)


def some_gate_helps() -> Finding:
    """Theorem 1 with its factor as printed, and with the square that homogeneity asks for."""
    draws = Draws(10)
    dos = dos_at_bsb1(0.25)
    d = 5
    # The printed factor lets S = t I through even where no gate helps.
    best = bsb1(d, 1.0, 0.4)
    t = 0.5 / math.sqrt(d)
    printed = t**2 / (t * math.sqrt(d) / d)
    at_symmetric = best_reweighting(best, dos, starts=4).gamma
    certified = [
        descent_certificate(make(d), dos)
        for d in (2, 3, 5, 8)
        for make in (draws.symmetric, draws.covariance)
        for _ in range(10)
    ]
    gammas = [found.gamma for found in certified if found is not None]
    vacuous = printed < 1 and at_symmetric > 1 - 1e-6  # true of every C, so it says nothing
    return Finding(
        not vacuous,
        len(gammas) == len(certified) and max(gammas) < 1,
        "the factor must be ||S||_F^2 / d; as printed S = t I satisfies it for every C, even "
        "at BSB1 where S = I is the best gate",
        {
            "ratio of the printed sides, S = t I": printed,
            "least gamma at BSB1": at_symmetric,
            "random C": len(certified),
            "of these certified below one": len(gammas),
            "largest certified gamma": max(gammas),
        },
    )


def printed_gradient() -> Finding:
    """Appendix G: the Karush-Kuhn-Tucker line."""
    draws = Draws(11)
    d, step = 5, 1e-5
    c, s, dos = draws.covariance(d), draws.gate(d), dos_at_bsb1(0.25)
    up, down = (
        [reweighted_norm(s + sign * e, c, dos)[0] for e in step * torch.eye(d, dtype=s.dtype)]
        for sign in (1, -1)
    )
    numeric = torch.tensor([a - b for a, b in zip(up, down, strict=True)], dtype=torch.float64)
    numeric = numeric / (2 * step)
    variance = c.diagonal()
    image = dos.apply(s[:, None] * c * s)
    inner = 2 * dos.v * (s * variance)[:, None] + dos.w * c * s
    pairs = (image * inner).fill_diagonal_(0.0).sum(1)
    printed = 4 * dos.u**2 * s**3 * variance + 2 * pairs
    scale = float(numeric.abs().max())
    off = float((printed - numeric).abs().max()) / scale
    right = float((reweighted_norm(s, c, dos)[1] - numeric).abs().max()) / scale
    return Finding(
        off < 1e-6,
        right < 1e-6,
        "c_ii^2 for c_ii in the first term, 4 for 2 in the second: every pair occurs twice",
        {"relative gap, printed": off, "relative gap, repaired": right},
    )


def exceptional_set() -> Finding:
    """Appendix G: C fails on the zeros of one F_i, of codimension one, if v != 0."""
    d = 4
    dos = dos_at_bsb1(0.25)
    draws = Draws(12)
    circulant = torch.tensor([2.0, 0.5, -0.3, 0.5], dtype=torch.float64)
    exceptional = torch.stack([circulant.roll(shift) for shift in range(d)])
    values = stationarity(exceptional, dos)
    step = 1e-6
    slopes = torch.stack(
        [
            (stationarity(exceptional + step * e, dos) - stationarity(exceptional - step * e, dos))
            / (2 * step)
            for e in symmetric_basis(d)
        ]
    )
    rank = int(torch.linalg.matrix_rank(slopes[:, 1:] - slopes[:, :1], rtol=1e-6))
    without_v = descent_certificate(draws.covariance(d), DOS(0.5, 0.0, 0.5))
    return Finding(
        float(values.abs().max()) < 1e-9,
        float(values.max() - values.min()) < 1e-12 and rank == d - 1 and without_v is not None,
        "the condition is F_1 = ... = F_d, of codimension d - 1, as the multiplier is free; "
        "v != 0 is not needed",
        {
            "F at a circulant C": float(values[0]),
            "range of F there": float(values.max() - values.min()),
            "codimension at d = 4": rank,
            "gamma certified with v = 0": without_v.gamma if without_v else 1.0,
            "curvature of f at BSB1, S = I": second_variation(5, 0.4, dos),
        },
    )


def norm_of_an_image() -> Finding:
    """Eq. 13: the norm in Theorem 1 measures the eigenvalues of the operator."""
    dos = dos_at_bsb1(0.0)
    norms = {d: dos.operator_norm(d) for d in (10, 100, 1000)}
    c = torch.diag(torch.tensor([4.0, 2.0, 1.0, 0.5, 0.25], dtype=torch.float64))
    found = best_reweighting(c, dos, starts=2)
    before, after = dos.spectral_radius(torch.ones(5)), dos.spectral_radius(found.s)
    numeric = float(torch.linalg.matrix_norm(operator_matrix(dos.apply, 10), 2))
    return Finding(
        found.gamma < 1 and after <= before,
        False,
        "the norm is that of one image; the best gate of Theorem 1 raises the spectral radius "
        "of C -> J(SCS), and J is not normal: its operator norm grows with d",
        {
            "gamma of the best gate": found.gamma,
            "spectral radius, S = I": before,
            "spectral radius, best gate": after,
            **{f"operator norm, d = {d}": norm for d, norm in norms.items()},
            "gap of the norm to its matrix, d = 10": abs(norms[10] - numeric),
        },
    )


def eigenmatrices() -> Finding:
    """Appendix H, Theorem 4."""
    d = 5
    worst = 0.0
    for dos in (DOS(0.5, 0.07, 0.3), DOS(0.2, -0.4, 0.9), dos_at_bsb1(-0.2)):
        matrices = [(dos.diagonal_eigenmatrix(d, i), dos.u) for i in range(d)]
        matrices += [
            (off_diagonal_eigenmatrix(d, i, j), dos.w) for i in range(d) for j in range(i)
        ]
        gaps = [float((dos.apply(x) - value * x).abs().max()) for x, value in matrices]
        worst = max(worst, *gaps)
    rank = int(torch.linalg.matrix_rank(torch.stack([x.flatten() for x, _ in matrices])))
    broken = DOS(0.5, 0.1, 0.5)
    rest = operator_matrix(broken.apply, d) - 0.5 * torch.eye(15, dtype=torch.float64)
    return Finding(
        worst < 1e-14 and rank == d * (d + 1) // 2,
        True,
        "as printed, for w != u; for w = u and v != 0 the operator is defective",
        {
            "largest residual": worst,
            "rank of all eigenmatrices, d = 5": rank,
            "rank of T - u for w = u": float(torch.linalg.matrix_rank(rest)),
            "norm of (T - u)^2 for w = u": float((rest @ rest).norm()),
        },
    )


CLAIMS = (
    Claim(
        "some S reduces the image",
        "Theorem 1",
        "||J(SCS)||_F <= gamma ||J(C)||_F ||S||_F / d with gamma < 1, for almost every C.",
        some_gate_helps,
    ),
    Claim(
        "stationarity condition",
        "Appendix G",
        "4u^2 s_i^3 c_ii + sum 2(...)(...) - 2 lambda s_i = 0.",
        printed_gradient,
    ),
    Claim(
        "exceptional set",
        "Appendix G",
        "The statement may fail where one F_i vanishes: codimension one, if v != 0.",
        exceptional_set,
    ),
    Claim(
        "norm measures eigenvalues",
        "Eq. 13",
        "The norm of Theorem 1 measures the eigenvalues of the operator: updates get stabler.",
        norm_of_an_image,
    ),
    Claim(
        "eigenmatrices of DOS",
        "Appendix H, Theorem 4",
        "M_ij and L_i are eigenmatrices with eigenvalues w and u, and span, for w != u.",
        eigenmatrices,
    ),
)
