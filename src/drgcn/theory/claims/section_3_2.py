"""Checks of Section 3.2: Theorem 2, the measure K, and Theorem 3 on the normalised map."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import (
    centring,
    decompose,
    dimensions,
    g_component,
    operator_matrix,
    relative_g_component,
)
from drgcn.theory.fixed_points import (
    backward_gain,
    deviations,
    growth_rate,
    reweighted_fixed_point,
)
from drgcn.theory.maps import ELU, RELU, TANH, dos_at_bsb1, leaky_relu, relu_power
from drgcn.theory.normalised import normalised_derivative, normalised_moment, normalised_spectrum


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
    """Theorem 2 for one layer: the part in V_G of one output, with the printed normaliser."""
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


def reduction_to_scs() -> Finding:
    """Section 3.2: V(S, C) = V(I, SCS)."""
    draws = Draws(30)
    d = 6
    c, s = draws.covariance(d), draws.gate(d)
    target = normalised_moment(s[:, None] * c * s)
    printed = float((normalised_moment(c, s, normaliser="printed") - target).norm())
    consistent = float((normalised_moment(c, s) - target).norm())
    return Finding(
        printed < 1e-9,
        consistent < 1e-9,
        "the normaliser must be ||G S H||; with ||G H|| of Eq. 15 V depends on more than SCS",
        {"gap, printed normaliser": printed, "gap, normaliser ||G S H||": consistent},
    )


def four_spaces() -> Finding:
    """Theorem 3: dimensions and orthogonality."""
    draws = Draws(31)
    worst = 0.0
    ranks_right = True
    spaces: dict[str, Callable[[Tensor], Tensor]] = {
        "0": lambda c: decompose(c).zero,
        "G": lambda c: decompose(c).g,
        "L": lambda c: decompose(c).l,
        "M": lambda c: decompose(c).m,
    }
    for d in (2, 3, 4, 7):
        for name, project in spaces.items():
            image = operator_matrix(project, d)
            rank = round(float(image.trace()))
            worst = max(worst, float((image @ image - image).abs().max()))
            worst = max(worst, float((image - image.T).abs().max()))
            ranks_right = ranks_right and rank == dimensions(d)[name]
        parts = decompose(draws.symmetric(d))
        total = parts.zero + parts.g + parts.l + parts.m
        overlap = float((parts.l * parts.m).sum().abs() + (parts.g * parts.l).sum().abs())
        worst = max(worst, overlap, float((parts.zero * total).sum() - parts.zero.square().sum()))
    return Finding(
        dimensions(2)["M"] == 2 * (2 - 3) // 2,
        ranks_right and worst < 1e-12,
        "for d >= 3; at d = 2 the printed d(d - 3)/2 is -1, and V_L and V_M are zero",
        {"largest defect of the projections": worst, "printed dimension of V_M, d = 2": -1.0},
    )


def invariant_spaces() -> Finding:
    """Theorem 3: each of the spaces is an eigenspace of J."""
    d = 6
    draws = Draws(32)
    spectrum = normalised_spectrum(d)
    parts = decompose(draws.symmetric(d))

    def residual(direction: Tensor, value: float) -> float:
        image = normalised_derivative(spectrum.fixed_point, direction)
        return float((image - value * direction).norm() / direction.norm())

    delta = draws.normal(d)
    delta = delta - delta.mean()
    g = centring(d)
    inner = g @ normalised_derivative(spectrum.fixed_point, parts.l) @ g
    residuals = {
        "V_0": residual(parts.zero, 0.0),
        "V_G": residual(parts.g, 0.0),
        "V_M": residual(parts.m, spectrum.lambda_m or 0.0),
        "V_L, printed": residual(parts.l, spectrum.lambda_l),
        "V_L, tilted": residual(spectrum.eigenvector_l(delta), spectrum.lambda_l),
        "V_L, J followed by G": float((inner - spectrum.lambda_l * parts.l).norm()),
    }
    right = {name: value for name, value in residuals.items() if name != "V_L, printed"}
    return Finding(
        max(residuals.values()) < 1e-9,
        max(right.values()) < 1e-9,
        "V_L is an eigenspace of G J G only; of J itself it is tilted by "
        "k (delta 1^T + 1 delta^T)",
        {f"residual, {name}": value for name, value in residuals.items()},
    )


def g_above_one() -> Finding:
    """Theorem 3: lambda_G > 1."""
    sizes = (4, 8, 64)
    images = {
        d: float(normalised_derivative(normalised_spectrum(d).fixed_point, centring(d)).norm())
        for d in sizes[:2]
    }
    draws = Draws(33)
    c, s = draws.covariance(6), draws.gate(6)
    anywhere = float(normalised_derivative(c, c, s).norm())
    backward = {f"backward, d = {d}": normalised_spectrum(d).lambda_g_backward for d in sizes}
    return Finding(
        min(images.values()) > 1,
        False,
        "lambda_G = 0: the normalised map does not see the scale of C; the number above one "
        "belongs to the backward pass",
        {
            **{f"norm of J(G), d = {d}": norm for d, norm in images.items()},
            "norm of J(C) at a random C and S": anywhere,
            **{name: value for name, value in backward.items() if value is not None},
        },
    )


def others_below_one() -> Finding:
    """Theorem 3: lambda_L and lambda_M below one."""
    sizes = (3, 4, 8, 32, 256, 2048)
    largest = {}
    for activation in (RELU, leaky_relu(0.2), TANH, ELU):
        values = [normalised_spectrum(d, activation) for d in sizes]
        largest[activation.name] = max(max(x.lambda_l, x.lambda_m or 0.0) for x in values)
    square = {d: normalised_spectrum(d, relu_power(2)).lambda_l for d in (6, 7, 8)}
    return Finding(
        max(*largest.values(), *square.values()) < 1,
        max(largest.values()) < 1,
        "for ReLU, leaky ReLU, tanh and ELU at every d tried; squared ReLU breaks it from d = 7",
        {
            **{f"largest, {name}": value for name, value in largest.items()},
            **{f"lambda_L, ReLU^2, d = {d}": value for d, value in square.items()},
        },
    )


def symmetry_with_gates() -> Finding:
    """Section 3.2: with S the operators keep the symmetry that Theorem 3 needs."""
    d = 5
    s = Draws(34).gate(d)

    def spread(gate: Tensor) -> float:
        """Range of the d - 1 eigenvalues that are one, lambda_L, for S = I."""
        fixed = reweighted_fixed_point(gate)
        image = operator_matrix(lambda x: normalised_derivative(fixed, x, gate), d)
        top = torch.linalg.eigvals(image).real.sort(descending=True).values[: d - 1]
        return float(top[0] - top[-1])

    symmetric, broken = spread(torch.ones(d)), spread(s)
    fixed = reweighted_fixed_point(s).diagonal()
    return Finding(
        broken < 1e-6,
        False,
        "the fixed point of S != I is not BSB1, and the d - 1 equal eigenvalues split",
        {
            "range of the d - 1 largest eigenvalues, S = I": symmetric,
            "range of the d - 1 largest eigenvalues, S": broken,
            "range of variances at the fixed point of S": float(fixed.max() - fixed.min()),
        },
    )


#: In the order of the paper.
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
    Claim(
        "V(S, C) = V(I, SCS)",
        "Section 3.2, Eq. 15",
        "With normalisation, V of S and C is V of I and SCS.",
        reduction_to_scs,
    ),
    Claim(
        "four orthogonal spaces",
        "Theorem 3, Eq. 17",
        "V_0, V_G, V_L (d - 1) and V_M (d(d - 3)/2 dimensions) are orthogonal and complete.",
        four_spaces,
    ),
    Claim(
        "eigenspaces of J",
        "Theorem 3",
        "V_0, V_G, V_L and V_M are eigenspaces of J at C*.",
        invariant_spaces,
    ),
    Claim("lambda_G > 1", "Theorem 3", "The eigenvalue of V_G is above one.", g_above_one),
    Claim(
        "lambda_L, lambda_M < 1",
        "Theorem 3",
        "The eigenvalues of V_L and V_M are below one.",
        others_below_one,
    ),
    Claim(
        "symmetry with S",
        "Section 3.2",
        "With S the operators still satisfy the DOS and ultrasymmetry conditions.",
        symmetry_with_gates,
    ),
)
