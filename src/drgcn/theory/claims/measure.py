"""The claims of Section 3.2 about the measure K."""

from __future__ import annotations

import torch

from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import decompose, g_component, relative_g_component
from drgcn.theory.fixed_points import backward_gain
from drgcn.theory.maps import dos_at_bsb1
from drgcn.theory.normalised import normalised_moment, normalised_spectrum


def component_is_k() -> Finding:
    """Section 3.2: the part of SCS in V_G is proportional to K."""
    draws = Draws(22)
    gap = 0.0
    for d in (2, 3, 6, 12):
        c, s = draws.covariance(d, spread=0.5), draws.gate(d)
        after, before = decompose(s[:, None] * c * s).g, decompose(c).g
        k = relative_g_component(c, s)
        gap = max(gap, float((after - k * before).norm() / before.norm()))
    unit = relative_g_component(draws.covariance(4), torch.full((4,), 0.3))
    return Finding(
        gap < 1e-12 and abs(unit - 1) < 1e-12,
        True,
        "P_G(SCS) = K P_G(C) exactly, for mean s^2 = 1; K = 1 for constant s",
        {"largest relative gap": gap, "K of a constant s": unit},
    )


def gates_reduce_g() -> Finding:
    """Section 3.2: near C* an appropriate S reduces the part in V_G."""
    draws = Draws(23)
    least, where = float("inf"), 0
    for d in (4, 8, 32):
        fixed = normalised_spectrum(d).fixed_point
        for index in range(300):
            s = draws.normal(d) if index % 2 else draws.gate(d, spread=0.05 + index / 300)
            found = relative_g_component(fixed, s)
            if found < least:
                least, where = found, d
    other = draws.covariance(8, spread=0.7)
    helped = relative_g_component(other, other.diagonal().rsqrt())
    return Finding(
        least < 1 - 1e-9,
        False,
        "at C* K >= 1 for every S, as c* >= 0; only away from it, where variances differ, "
        "are there gates with K < 1, such as s = 1 / sd",
        {
            "least K at C*, 900 gates": least,
            "at d": where,
            "K of s = 1 / sd, unequal variances": helped,
        },
    )


def one_layer_gain() -> Finding:
    """What remains of Theorem 2: the part in V_G of one output, with the printed normaliser."""
    draws = Draws(24)
    d = 16
    values = []
    for _ in range(16):
        c, s = draws.covariance(d, spread=0.4), draws.gate(d, spread=0.4)
        outputs = [normalised_moment(c, gate, normaliser="printed") for gate in (s, None)]
        values.append(
            (g_component(outputs[0]) / g_component(outputs[1]), relative_g_component(c, s))
        )
    gain, k = torch.tensor(values, dtype=torch.float64).unbind(1)
    correlation = float(torch.corrcoef(torch.stack([gain, k]))[0, 1])
    ratio = gain / k
    return Finding(
        bool(((ratio - 1).abs() < 1e-6).all()),
        correlation > 0.95 and bool(((ratio - 1).abs() < 0.4).all()),
        "about K times, for one layer: it does not compound, as the next layer normalises",
        {
            "mean gain / K": float(ratio.mean()),
            "standard deviation": float(ratio.std()),
            "correlation with K": correlation,
        },
    )


def gradients_calmer() -> Finding:
    """Section 3.2 reads K < 1 as stability; gradients through the normalised layer."""
    draws = Draws(25)
    d = 12
    c = draws.covariance(d, spread=0.7)
    gates = [c.diagonal() ** power for power in (-0.5, -0.25, 0.0, 0.25)]
    gates = [s / s.square().mean().sqrt() for s in gates]
    k = [relative_g_component(c, s) for s in gates]
    gain = [backward_gain(c, s) for s in gates]
    log_k, log_gain = (torch.tensor(x, dtype=torch.float64).log() for x in (k, gain))
    log_k = log_k - log_k.mean()
    slope = float((log_k * (log_gain - log_gain.mean())).sum() / log_k.square().sum())
    return Finding(
        slope > 0,
        False,
        f"the gain of gradients {'rises' if slope < 0 else 'falls'} when K falls: over these "
        f"{len(gates)} gates about like K to the power {slope:.2f}",
        {
            "d log(gain) / d log(K)": slope,
            "gain at the least K": gain[k.index(min(k))],
            "gain at K = 1": gain[2],
            "least K": min(k),
        },
    )


def without_normalisation() -> Finding:
    """Section 3.2 drops normalisation without loss of generality."""
    draws = Draws(26)
    dos = dos_at_bsb1(0.25)
    values = []
    for _ in range(50):
        s = draws.gate(6)
        values.append(
            (dos.spectral_radius(s), relative_g_component(draws.covariance(6, spread=0.5), s))
        )
    rate, k = torch.tensor(values, dtype=torch.float64).unbind(1)
    calm = rate[k < 1]
    return Finding(
        bool((calm < dos.u).all()),
        False,
        "C -> J(SCS) has radius u max s_i^2 >= u whatever C and K are",
        {
            "gates with K < 1": len(calm),
            "least rate among them": float(calm.min()),
            "rate, S = I": dos.u,
        },
    )


CLAIMS = (
    Claim(
        "V_G part is K",
        "Eq. 18 to 20",
        "The part of SCS in V_G is proportional to K; K = 1 without Dr.",
        component_is_k,
    ),
    Claim(
        "S reduces the V_G part",
        "Section 3.2",
        "An appropriately chosen S reduces the proportion in V_G near the fixed point.",
        gates_reduce_g,
    ),
    Claim(
        "V_G part of the output",
        "Section 3.2",
        "The effect of Dr is to reduce the V_G part at each step, by K.",
        one_layer_gain,
    ),
    Claim(
        "gradients",
        "Section 3.2",
        "K measures the improvement of the stability of the learning process.",
        gradients_calmer,
    ),
    Claim(
        "without normalisation",
        "Section 3.2",
        "Analyses with normalisation hold without it, as K is homogeneous.",
        without_normalisation,
    ),
)
