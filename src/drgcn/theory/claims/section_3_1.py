"""Checks of Section 3.1 and Appendices G and H: the covariance map, Theorem 1, DOS operators."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import DOS, bsb1, off_diagonal_eigenmatrix, operator_matrix, symmetric_basis
from drgcn.theory.fixed_points import (
    FixedPoint,
    feature_fixed_point,
    iterate_bsb1,
    layer_covariance,
    sample_fixed_point,
    unmixed_fixed_point,
)
from drgcn.theory.maps import ELU, RELU, TANH, derivative, dos_at_bsb1, second_moment
from drgcn.theory.theorem_one import (
    best_reweighting,
    descent_certificate,
    diagonal_reweighting,
    reweighted_norm,
    second_variation,
    stationarity,
)


def positive_gates_commute() -> Finding:
    """Section 3.1: ReLU commutes with a positive diagonal matrix."""
    draws = Draws(1)
    h, s = draws.normal(200, 6), draws.gate(6)
    gaps = {f.name: float((f(s * h) - s * f(h)).abs().max()) for f in (RELU, ELU, TANH)}
    return Finding(
        gaps["ReLU"] < 1e-14,
        True,
        "equal to rounding for ReLU and s > 0; false for ELU and tanh",
        {f"largest gap, {name}": gap for name, gap in gaps.items()},
    )


def weights_left_out() -> Finding:
    """Eq. 11 replaces W V W^T of Eq. 9 by V."""
    draws = Draws(2)
    d = 6
    start = bsb1(d, 1.3, 0.4)
    bias = 0.1 * torch.eye(d, dtype=torch.float64)
    printed = second_moment(start) + bias
    rotation, _ = torch.linalg.qr(draws.normal(d, d))
    # A reflection that keeps the ones fixed: it maps BSB1 matrices to themselves.
    axis = draws.normal(d)
    axis = axis - axis.mean()
    mirror = torch.eye(d, dtype=torch.float64) - 2 * axis.outer(axis) / axis.dot(axis)
    gap = float((layer_covariance(start, rotation, bias) - printed).norm() / printed.norm())
    kept = float((layer_covariance(start, mirror, bias) - printed).abs().max())
    return Finding(
        gap < 1e-9,
        kept < 1e-12,
        "needs W = I, or at a BSB1 point an orthogonal W that keeps the vector of ones",
        {"relative gap, random rotation": gap, "gap, rotation that keeps ones": kept},
    )


def second_moment_for_covariance() -> Finding:
    """Eq. 9 puts E[phi phi^T] where the covariance of phi belongs."""
    draws = Draws(3)
    d, samples = 5, 200_000
    c = draws.covariance(d)
    h = draws.normal(samples, d) @ torch.linalg.cholesky(c).T
    weight = draws.normal(d, d) / math.sqrt(d)
    output = torch.relu(h) @ weight.T
    sampled = torch.cov(output.T, correction=0)
    printed = weight @ second_moment(c) @ weight.T
    mean = c.diagonal().sqrt() / math.sqrt(2 * math.pi)
    centred = printed - weight @ mean.outer(mean) @ weight.T
    scale = float(sampled.norm())
    off = float((printed - sampled).norm()) / scale
    right = float((centred - sampled).norm()) / scale
    return Finding(
        off < 0.02,
        right < 0.02,
        "the mean of phi has to be taken off: W (V - E[phi] E[phi]^T) W^T + Cov(b)",
        {"relative gap, printed": off, "relative gap, centred": right},
    )


def linear_coefficients() -> Finding:
    """Appendix G: J is DOS(u, v, w) whatever the point."""
    draws = Draws(4)
    d = 5
    direction = draws.symmetric(d)
    anywhere = derivative(draws.covariance(d), torch.eye(d, dtype=torch.float64))
    off = anywhere[*torch.triu_indices(d, d, offset=1)]
    spread = float(off.max() - off.min())
    gap = max(
        float((derivative(bsb1(d, q, c), direction) - dos_at_bsb1(c).apply(direction)).abs().max())
        for q, c in ((1.0, 0.0), (2.5, 0.4), (0.3, -0.2))
    )
    a = draws.normal(d).exp()
    half = DOS(0.5, 0.0, 0.5).apply(direction)
    rank_one = float((derivative(a.outer(a), direction) - half).abs().max())
    return Finding(
        spread < 1e-9,
        gap < 1e-12 and rank_one < 1e-6,
        "for ReLU at BSB1 points, and at C = a a^T with a > 0, where J is half the identity; "
        "elsewhere v and w depend on the pair of dimensions (at d = 2, correlation -1 is left)",
        {
            "range of 2v over pairs at a random C": spread,
            "gap to DOS at BSB1": gap,
            "range of a at C = a a^T": float(a.max() - a.min()),
            "gap to DOS(1/2, 0, 1/2) there": rank_one,
        },
    )


# Variances of weights and biases for which all readings of Eq. 10 have a limit.
_WEIGHT, _BIAS = 1.5, 0.1


def bsb1_fixed_point() -> Finding:
    """Eq. 10 for one W, and in the readings in which it has a BSB1 solution."""
    draws = Draws(5)
    d = 6
    weight = 0.5 * draws.normal(d, d) / math.sqrt(d)
    bias = _BIAS * torch.eye(d, dtype=torch.float64)
    mixed, before = bias, bias
    for _ in range(60):
        before, mixed = mixed, layer_covariance(mixed, weight, bias)
    distance = float((mixed - _nearest_bsb1(mixed)).norm() / mixed.norm())
    unmixed = draws.covariance(d)
    for _ in range(120):
        unmixed = _WEIGHT * second_moment(unmixed) + bias
    q, c = _values(unmixed_fixed_point(_WEIGHT, _BIAS))
    gap = float((unmixed - bsb1(d, q, c)).abs().max())
    reached = iterate_bsb1(3.0, 0.1, _WEIGHT, _BIAS, 100)[1]
    return Finding(
        distance < 1e-9,
        max(1 - reached, gap) < 1e-9 and feature_fixed_point(_WEIGHT, _BIAS).kind == "bsb1",
        "the fixed point of a random W is not BSB1; there is one over samples, averaged over W "
        "(c* = 1), over features, averaged over W (c* = 0), and for W = sigma_w I with "
        "independent biases (0 < c* < 1)",
        {
            "relative distance from BSB1, one random W": distance,
            "last change there": float((mixed - before).norm() / mixed.norm()),
            "c after 100 layers, samples": reached,
            "c*, W = sigma_w I": c,
            "gap to it after 120 layers from a random C": gap,
        },
    )


def derivative_at_fixed_point() -> Finding:
    """Appendices G and H ask for v != 0 and w != u, of the recursion at its own fixed point."""
    d = 4
    samples = dos_at_bsb1(_values(sample_fixed_point(_WEIGHT, _BIAS))[1])
    level = _values(feature_fixed_point(_WEIGHT, _BIAS))[0]
    identity = torch.eye(d, dtype=torch.float64)
    averaged = operator_matrix(
        lambda x: _WEIGHT / d * derivative(level * identity, x).trace() * identity, d
    )
    q, c = _values(unmixed_fixed_point(_WEIGHT, _BIAS))
    printed = operator_matrix(lambda x: _WEIGHT * derivative(bsb1(d, q, c), x), d)
    at_c = dos_at_bsb1(c)
    dos = DOS(_WEIGHT * at_c.u, _WEIGHT * at_c.v, _WEIGHT * at_c.w)
    gap = float((printed - operator_matrix(dos.apply, d)).abs().max())
    return Finding(
        samples.v != 0 and samples.w != samples.u,
        dos.v != 0 and dos.w != dos.u and gap < 1e-12,
        "over samples v = 0 and w = u; over features, averaged over W, the derivative has rank "
        "one and is not DOS; for W = sigma_w I, which is Eq. 11, both conditions hold",
        {
            "v, samples": samples.v,
            "w - u, samples": samples.w - samples.u,
            "rank of the derivative, features averaged over W, d = 4": float(
                torch.linalg.matrix_rank(averaged, atol=1e-12)
            ),
            "v, W = sigma_w I": dos.v,
            "w - u, W = sigma_w I": dos.w - dos.u,
            "gap to DOS there": gap,
        },
    )


def _values(limit: FixedPoint) -> tuple[float, float]:
    assert limit.q is not None
    assert limit.c is not None
    return limit.q, limit.c


def _nearest_bsb1(c: Tensor) -> Tensor:
    """The orthogonal projection on BSB1 matrices: means of the diagonal and of the rest."""
    d = c.size(0)
    own = c.trace() / d
    shared = (c.sum() - c.trace()) / (d * (d - 1))
    return shared + (own - shared) * torch.eye(d, dtype=torch.float64)


def single_networks() -> Finding:
    """Section 3.1: covariances of features tend to a BSB1 matrix, for given weights."""
    plain, centred = (
        [_off_diagonal(d, centre=centre) for d in (32, 128, 512)] for centre in (False, True)
    )
    return Finding(
        plain[-1] < 0.5 * plain[0],
        centred[-1] < 0.5 * centred[0],
        "as the width grows, centred covariances tend to a multiple of I; second moments as "
        "printed keep correlations of order one",
        {
            f"correlation off the diagonal, {kind}, d = {d}": value
            for kind, values in (("printed", plain), ("centred", centred))
            for d, value in zip((32, 128, 512), values, strict=True)
        },
    )


def _off_diagonal(d: int, *, centre: bool) -> float:
    """Root mean square correlation after eight layers of one random network."""
    draws = Draws(d)
    c = torch.eye(d, dtype=torch.float64)
    for _ in range(8):
        moment = second_moment(c)
        if centre:
            mean = c.diagonal().sqrt() / math.sqrt(2 * math.pi)
            moment = moment - mean.outer(mean)
        weight = draws.normal(d, d) / math.sqrt(d)
        c = weight @ moment @ weight.T + 0.5 * torch.eye(d, dtype=torch.float64)
        c = (c + c.T) / 2
    scale = c.diagonal().sqrt()
    rho = c / scale.outer(scale)
    return float((rho.square().sum() - d).div(d * (d - 1)).sqrt())


def some_gate_helps() -> Finding:
    """Theorem 1 with its factor as printed, and with the square that homogeneity asks for."""
    draws = Draws(10)
    dos = dos_at_bsb1(0.25)
    d = 5
    # The printed factor lets S = t I through even where no S helps, of whatever signs.
    t = 0.5 / math.sqrt(d)
    printed = t**2 / (t * math.sqrt(d) / d)
    at_identity = diagonal_reweighting(torch.ones(d), dos).gamma
    certified = [
        descent_certificate(make(d), dos)
        for d in (2, 3, 5, 8)
        for make in (draws.symmetric, draws.covariance)
        for _ in range(10)
    ]
    gammas = [found.gamma for found in certified if found is not None]
    vacuous = printed < 1 and at_identity > 1 - 1e-12  # true of every C, so it says nothing
    return Finding(
        not vacuous,
        len(gammas) == len(certified) and max(gammas) < 1,
        "the factor must be ||S||_F^2 / d; as printed S = t I satisfies it for every C, even "
        "at C = I, where no S has gamma below one",
        {
            "ratio of the printed sides, S = t I": printed,
            "least gamma at C = I": at_identity,
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
    # All F agree at a BSB1 matrix, yet S = I is no minimum for this operator.
    steep, equal = DOS(0.1, 0.02, 1.0), bsb1(d, 1.0, 0.9)
    same = stationarity(equal, steep)
    helped = best_reweighting(equal, steep, starts=2).gamma
    without_v = descent_certificate(draws.covariance(d), DOS(0.5, 0.0, 0.5))
    # With w alone, an S that keeps one dimension sends every C to zero, for every d.
    emptied = [
        reweighted_norm(math.sqrt(n) * torch.eye(n)[0], draws.covariance(n), DOS(0.0, 0.0, 1.0))
        for n in (2, d)
    ]
    return Finding(
        float(values.abs().max()) < 1e-9,
        float(values.max() - values.min()) < 1e-12
        and rank == d - 1
        and helped < 1
        and without_v is not None
        and all(value == 0 for value, _ in emptied),
        "it can fail only where all F_i agree, d - 1 conditions; that is necessary, not "
        "sufficient; no condition on u, v and w is needed",
        {
            "F at a circulant C": float(values[0]),
            "range of F there": float(values.max() - values.min()),
            "codimension at d = 4": rank,
            "range of F at BSB1, DOS(0.1, 0.02, 1), correlation 0.9": float(
                same.max() - same.min()
            ),
            "curvature of f there": second_variation(d, 0.9, steep),
            "gamma found there": helped,
            "curvature of f at BSB1, ReLU": second_variation(5, 0.4, dos),
            "gamma certified with v = 0": without_v.gamma if without_v else 1.0,
            "largest image with u = v = 0, S = sqrt(d) E_11, d = 2 and 4": max(
                value for value, _ in emptied
            ),
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
    # Not a ReLU: with |w| > (d - 1) |u| some gates do lower the radius.
    wide, squares = DOS(0.1, 0.05, 1.0), torch.tensor([1.9, 0.1], dtype=torch.float64)
    return Finding(
        found.gamma < 1 and after <= before,
        False,
        "the norm is that of one image; for ReLU the best gate of Theorem 1 raises the spectral "
        "radius of C -> J(SCS), which no S lowers where |w| <= (d - 1) |u|, and J is not normal: "
        "its operator norm grows with d",
        {
            "gamma of the best gate": found.gamma,
            "spectral radius, S = I": before,
            "spectral radius, best gate": after,
            "least spectral radius over S, d = 5": dos.least_spectral_radius(5),
            "spectral radius, DOS(0.1, 0.05, 1), S = I": wide.spectral_radius(torch.ones(2)),
            "the same, s^2 = (1.9, 0.1)": wide.spectral_radius(squares.sqrt()),
            "the same, least over S, d = 2": wide.least_spectral_radius(2),
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


#: In the order of the paper.
CLAIMS = (
    Claim(
        "positive S commutes with ReLU",
        "Section 3.1",
        "phi(SH) = S phi(H) for ReLU and positive diagonal S.",
        positive_gates_commute,
    ),
    Claim(
        "second moment for covariance",
        "Eq. 8, 9",
        "Cov(H) = W V W^T + Cov(b) with V = E[phi phi^T].",
        second_moment_for_covariance,
    ),
    Claim(
        "weights left out",
        "Eq. 9, 11",
        "Eq. 9 can be written without W.",
        weights_left_out,
    ),
    Claim(
        "J is DOS everywhere",
        "Appendix G",
        "J belongs to DOS(u, v, w), without fixed point structure.",
        linear_coefficients,
    ),
    Claim(
        "BSB1 fixed point",
        "Eq. 10",
        "C = W V(S, C) W^T + Cov(b) has a BSB1 solution.",
        bsb1_fixed_point,
    ),
    Claim(
        "derivative at the fixed point",
        "Eq. 12, Appendices G, H",
        "At its fixed point the recursion has a DOS derivative with v != 0 and w != u.",
        derivative_at_fixed_point,
    ),
    Claim(
        "features tend to BSB1",
        "Section 3.1",
        "Covariances of features tend to a BSB1 matrix, for given weights.",
        single_networks,
    ),
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
