"""The claims of Theorem 2: what happens to deviations from the fixed point."""

from __future__ import annotations

import torch

from drgcn.theory.eigenspaces import decompose, relative_g_component
from drgcn.theory.evidence import Claim, Draws, Finding
from drgcn.theory.growth import deviations, growth_rate, reweighted_fixed_point
from drgcn.theory.normalised_spectrum import normalised_spectrum


def deviations_grow() -> Finding:
    """Theorem 2 with S = I: deviations from the fixed point, layer by layer."""
    d = 6
    spectrum = normalised_spectrum(d)
    start = decompose(Draws(20).symmetric(d))
    scale = 1e-5
    rates = {}
    for name, part in (("G", start.g), ("L", start.l), ("M", start.m)):
        before, after = (x.norms()[name] for x in deviations(scale * part, 1))
        rates[f"factor of one layer, part in V_{name}"] = after / before
    generic = deviations(scale * (start.g + start.l + start.m), 12)
    sizes = [float((part.g + part.l + part.m).norm()) for part in generic]
    last = sizes[-1] / sizes[-2]
    return Finding(
        last > 1,
        False,
        f"nothing grows for ReLU and d = {d}: the part in V_G is gone after one layer, the others "
        f"shrink by lambda_L = {spectrum.lambda_l:.4f} and lambda_M = {spectrum.lambda_m:.4f}",
        {**rates, "factor of the twelfth layer, any deviation": last},
    )


def rate_proportional_to_k() -> Finding:
    """Theorem 2 with one S in every layer, each at its own fixed point.

    Besides gates near one, steep ones and ones of either sign are tried, and gates made to damp:
    1 / sd of the fixed point of another, which has K < 1 there, but not at its own.
    """
    draws = Draws(21)
    d = 5
    gates = [draws.gate(d, spread=0.1 + 0.03 * index) for index in range(14)]
    gates += [draws.gate(d, spread=1.0) for _ in range(6)] + [draws.normal(d) for _ in range(6)]
    lent, pairs = [], []
    for index in range(6):
        fixed = reweighted_fixed_point(gates[2 * index + 1], tolerance=1e-10)
        gates.append(fixed.diagonal().rsqrt())
        lent.append(relative_g_component(fixed, gates[-1]))
    for s in gates:
        fixed = reweighted_fixed_point(s, tolerance=1e-10)
        pairs.append((relative_g_component(fixed, s), growth_rate(s)))
    k, rate = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    ratio = rate / k
    still = growth_rate(torch.ones(d))
    calm = int((k < 1).sum())
    below = "below" if float(rate.max()) < 1 else "not below"
    damped = (
        f"{calm} of them have K < 1"
        if calm
        else "none of them has K < 1 at its own fixed point, so a damping gate was not seen"
    )
    return Finding(
        float(ratio.max() - ratio.min()) < 0.01 * float(ratio.mean()),
        False,
        f"the rate was {below} one for all {len(pairs)} S tried, and rate / K went from "
        f"{float(ratio.min()):.2f} to {float(ratio.max()):.2f}; {damped}",
        {
            "gates": len(pairs),
            "gates with K < 1": calm,
            "gates made to damp": len(lent),
            "largest K of these where they were made": max(lent),
            "least rate / K": float(ratio.min()),
            "largest rate / K": float(ratio.max()),
            "largest rate": float(rate.max()),
            "least rate": float(rate.min()),
            "rate, S = I": still,
            "least K": float(k.min()),
        },
    )


CLAIMS = (
    Claim(
        "deviations grow",
        "Theorem 2",
        "Near C* deviations grow exponentially.",
        deviations_grow,
    ),
    Claim(
        "growth rate proportional to K",
        "Theorem 2",
        "The growth rate of deviations from the fixed point is proportional to K.",
        rate_proportional_to_k,
    ),
)
