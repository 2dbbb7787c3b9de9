"""The claims of Section 3.1 about the covariance map, its derivative and its fixed points."""

from __future__ import annotations

import math

import torch

from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import bsb1
from drgcn.theory.fixed_points import (
    feature_fixed_point,
    iterate_bsb1,
    layer_covariance,
    sample_fixed_point,
)
from drgcn.theory.maps import ELU, RELU, TANH, derivative, dos_at_bsb1, second_moment


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
    return Finding(
        spread < 1e-9,
        gap < 1e-12,
        "only at BSB1 points; elsewhere v and w depend on the pair of dimensions",
        {"range of 2v over pairs at a random C": spread, "gap to DOS at BSB1": gap},
    )


def usable_fixed_point() -> Finding:
    """Section 3.1 assumes a BSB1 fixed point; Appendices G and H ask for v != 0, w != u."""
    limit = sample_fixed_point(1.5, 0.1)
    features = feature_fixed_point(1.5, 0.1)
    assert limit.c is not None
    assert features.c is not None
    there, repaired = dos_at_bsb1(limit.c), dos_at_bsb1(features.c)
    reached = iterate_bsb1(3.0, 0.1, 1.5, 0.1, 100)[1]
    return Finding(
        there.v != 0 and there.w != there.u,
        repaired.v != 0 and repaired.w != repaired.u and 1 - reached < 1e-9,
        "over samples c* = 1, where J is half the identity; over features, averaged over W, "
        "c* = 0 and both conditions hold",
        {
            "c after 100 layers (samples)": reached,
            "v at c* = 1": there.v,
            "w - u at c* = 1": there.w - there.u,
            "v at c* = 0": repaired.v,
            "w - u at c* = 0": repaired.w - repaired.u,
        },
    )


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
        "usable BSB1 fixed point",
        "Eq. 10, Appendices G, H",
        "ReLU has a BSB1 fixed point at which v != 0 and w != u.",
        usable_fixed_point,
    ),
    Claim(
        "features tend to BSB1",
        "Section 3.1",
        "The covariance of features has a BSB1 fixed point.",
        single_networks,
    ),
)
