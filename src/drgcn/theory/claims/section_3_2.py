"""Checks of Section 3.2 and what 4.2 makes of it: Theorem 2, the measure K, and Theorem 3."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from scipy.stats import spearmanr
from torch import Tensor

from drgcn.stability import minimal_k
from drgcn.theory.claims.evidence import Claim, Draws, Finding
from drgcn.theory.dos import (
    centring,
    decompose,
    dimensions,
    g_component,
    operator_matrix,
    relative_g_component,
    spectral_radius,
)
from drgcn.theory.fixed_points import (
    backward_gain,
    deviations,
    growth_rate,
    reweighted_fixed_point,
)
from drgcn.theory.maps import (
    ELU,
    RELU,
    TANH,
    derivative,
    dos_at_bsb1,
    leaky_relu,
    relu_power,
)
from drgcn.theory.normalised import (
    Normaliser,
    normalised_derivative,
    normalised_moment,
    normalised_spectrum,
)


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
        rate = spectral_radius(partial(normalised_derivative, fixed, s=s), d)
        pairs.append((relative_g_component(fixed, s), rate))
    k, rates = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    ratio = rates / k
    still = growth_rate(torch.ones(d))
    calm = int((k < 1).sum())
    below = "below" if float(rates.max()) < 1 else "not below"
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
            "largest rate": float(rates.max()),
            "least rate": float(rates.min()),
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
    """Section 3.2: an appropriate S reduces the part in V_G; at C*, and at distances from it."""
    draws = Draws(23)
    numbers: dict[str, float] = {}
    positive, expanded = True, []
    for d in (4, 8, 32):
        spectrum = normalised_spectrum(d)
        fixed = spectrum.fixed_point
        numbers[f"least K at C*, d = {d}"] = minimal_k(fixed, covariance=True).value
        directions = [draws.symmetric(d) for _ in range(12)]
        directions = [x * (fixed.norm() / x.norm()) for x in directions]
        for distance in (0.01, 0.1):
            found = [minimal_k(fixed + distance * x, covariance=True) for x in directions]
            positive = positive and all(bool((least.s > 0).all()) for least in found)
            k = [least.value for least in found]
            numbers[f"least K at distance {distance:g}, best of 12, d = {d}"] = min(k)
            numbers[f"least K at distance {distance:g}, worst of 12, d = {d}"] = max(k)
            if distance == 0.01:
                # Second order in the distance: the unequal part of c_ii - mean_j c_ij, squared.
                slopes = [x.diagonal() - x.mean(1) for x in directions]
                scale = distance**2 / (spectrum.q * spectrum.c * g_component(fixed))
                expanded += [
                    (1 - value) / (scale * float((r - r.mean()).square().sum()))
                    for value, r in zip(k, slopes, strict=True)
                ]
    at_fixed = min(value for name, value in numbers.items() if "at C*" in name)
    nearby = max(value for name, value in numbers.items() if "worst" in name)
    one = torch.eye(4, dtype=torch.float64)[0]
    fixed = normalised_spectrum(4).fixed_point
    shares = [g_component(c) / 3**0.5 / float(c.norm()) for c in (fixed, one.outer(one))]
    return Finding(
        at_fixed < 1 - 1e-9,
        nearby < 1 and positive and all(abs(ratio - 1) < 0.2 for ratio in expanded),
        "not at C*, where K >= 1 for every S, but at almost every C near it, with positive "
        "gates: 1 - K is of the second order in the distance (relative, Frobenius); the share "
        "of the norm of SCS falls even at C*, if S keeps one dimension",
        {
            **numbers,
            "least ratio of 1 - K to its second-order term, distance 0.01": min(expanded),
            "largest": max(expanded),
            "share of the norm in V_G, C*, d = 4": shares[0],
            "the same, S keeps one dimension": shares[1],
        },
    )


def part_of_the_output() -> Finding:
    """The part in V_G of one output, with ||GH|| of each node and with its mean square."""
    numbers: dict[str, float] = {}
    mean, loud = [], []
    bounded, broken = True, float("inf")
    for spread in (0.2, 0.4, 0.8, 1.2, 1.6):
        printed = []
        for d in (6, 16):
            draws = Draws(24)
            for _ in range(8):
                c, s = draws.covariance(d, spread), draws.gate(d, spread)
                k = relative_g_component(c, s)
                gain = _output_gain(c, s, "printed")
                printed.append(gain / k)
                loud += [gain] if k < 1 else []
                mean.append(_output_gain(c, s, "mean") / k)
                bounded = bounded and d / (2 * d - 2) <= mean[-1] <= (2 * d - 2) / d
        numbers[f"least gain / K, printed, spread {spread:g}"] = min(printed)
        numbers[f"largest gain / K, printed, spread {spread:g}"] = max(printed)
        if max(*printed, 1 / min(printed)) > 1.5:
            broken = min(broken, spread)
    return Finding(
        all(abs(value - 1) < 1e-6 for value in numbers.values()),
        bounded,
        "within the factor 2(d - 1)/d of K, for every S and C, if the layer divides by the root "
        "mean square of ||GH|| over nodes; with ||GH|| of each node as printed it is off by "
        f"more than a half from spread {broken} on, of those tried, and there is no bound",
        {
            **numbers,
            "least gain / K, mean square": min(mean),
            "largest gain / K, mean square": max(mean),
            "largest gain of a gate with K < 1, printed": max(loud),
        },
    )


def _output_gain(c: Tensor, s: Tensor, normaliser: Normaliser) -> float:
    """V_G part of the output of one layer, relative to S = I."""
    after, before = (normalised_moment(c, gate, normaliser=normaliser) for gate in (s, None))
    return g_component(after) / g_component(before)


@cache
def _sensitivities() -> dict[str, Tensor]:
    """K and how sensitive one layer is, relative to S = I, over pairs of C and S at d = 5."""
    draws = Draws(25)
    rows = []
    for spread in (0.7, 0.7, 1.2, 1.2):
        c = draws.covariance(5, spread)
        gates = [c.diagonal() ** power for power in (-0.5, -0.25, -0.125, 0.25)]
        gates.append(draws.gate(5, 0.4))
        plain, *gated = (_sensitivity(c, s) for s in (torch.ones(5), *gates))
        for s, found in zip(gates, gated, strict=True):
            ratios = {name: value / plain[name] for name, value in found.items()}
            rows.append({"K": relative_g_component(c, s), **ratios})
    return {
        name: torch.tensor([row[name] for row in rows], dtype=torch.float64) for name in rows[0]
    }


def _sensitivity(c: Tensor, s: Tensor) -> dict[str, float]:
    """Frobenius norms of the derivative of one layer's output by C, and the gain of gradients."""
    d = c.size(0)
    s = s.double() / s.double().square().mean().sqrt()
    both = s[:, None] * s
    step = 1e-4 * torch.linalg.eigvalsh(c)[0]

    def moment(x: Tensor) -> Tensor:
        return normalised_moment(c + step * x, s, normaliser="printed")

    printed = operator_matrix(lambda x: (moment(x) - moment(-x)) / (2 * step), d)
    consistent = operator_matrix(lambda x: normalised_derivative(c, x, s), d)
    free = operator_matrix(lambda x: derivative(both * c, both * x), d)
    # Changes of C in units of the deviations of its features.
    row, col = torch.triu_indices(d, d)
    deviation = c.diagonal().sqrt()
    scaled = float((printed * deviation[row] * deviation[col]).norm())
    return {
        "derivative, Eq. 15": float(printed.norm()),
        "derivative, ||GSH||": float(consistent.norm()),
        "derivative, not normalised": float(free.norm()),
        "derivative per deviation, Eq. 15": scaled,
        "the same relative to the output": scaled / float(moment(0 * c).norm()),
        "gain of gradients, ||GSH||": backward_gain(c, s, samples=4000),
    }


def k_measures_stability() -> Finding:
    """Section 3.2: K measures the improvement of stability under perturbation."""
    found = _sensitivities()
    k = found["K"]
    ranks = {
        name: float(spearmanr(k, value).statistic) for name, value in found.items() if name != "K"
    }
    with_k = [name for name, rank in ranks.items() if rank > 0.5]
    against = [name for name, rank in ranks.items() if rank < -0.5]
    return Finding(
        len(with_k) == len(ranks),
        False,
        f"of {len(ranks)} readings of stability {len(against)} get worse as K falls (rank "
        f"correlation below -0.5) and {len(with_k)} better: {', '.join(with_k) or 'none'}",
        {
            "pairs of C and S": len(k),
            **{f"rank correlation with K: {name}": rank for name, rank in ranks.items()},
        },
    )


def small_k_small_derivatives() -> Finding:
    """Section 4.2: K << 1 reduces the derivatives of the covariance matrix."""
    found = _sensitivities()
    small = found["K"] < 0.5
    kinds = [name for name in found if name.startswith("derivative,")]
    fewer = {name: int((found[name][small] < 1).sum()) for name in kinds}
    largest = {name: float(found[name][small].max()) for name in kinds}
    return Finding(
        all(count == int(small.sum()) for count in fewer.values()),
        False,
        "the derivative got smaller for "
        + ", ".join(f"{fewer[name]} ({name.split(', ')[1]})" for name in kinds)
        + f" of {int(small.sum())} pairs of C and S with K < 1/2",
        {
            "pairs with K < 1/2": int(small.sum()),
            "least K": float(found["K"].min()),
            **{f"of these smaller than without Dr: {name}": fewer[name] for name in kinds},
            **{f"largest relative to S = I: {name}": largest[name] for name in kinds},
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
        "as w <= u for ReLU, C -> J(SCS) has radius u max s_i^2 >= u whatever C and K are",
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
        "Near the fixed point an appropriately chosen S reduces the part in V_G.",
        gates_reduce_g,
    ),
    Claim(
        "V_G part of the output",
        "Section 3.2",
        "The effect of Dr is to reduce the V_G part at each step, by K.",
        part_of_the_output,
    ),
    Claim(
        "K measures stability",
        "Section 3.2",
        "K measures the improvement of stability under perturbation.",
        k_measures_stability,
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
    Claim(
        "small K, small derivatives",
        "Section 4.2",
        "K << 1 reduces the magnitude of the derivatives of the covariance matrix.",
        small_k_small_derivatives,
    ),
)
