"""Section 3 against numbers computed elsewhere, in a file that ``DRGCN_ORACLES`` points to."""

import pytest
import torch

from drgcn import theory

from .. import oracles


def matrix(values):
    return torch.tensor(values, dtype=torch.float64)


def dos(values):
    if "c_dos" in values:
        return theory.dos_at_bsb1(values["c_dos"])
    return theory.DOS(values["u"], values["v"], values["w"])


def coefficients(operator):
    return {"u": operator.u, "v": operator.v, "w": operator.w}


def point(fixed):
    return {"kind": fixed.kind, "q": fixed.q, "c": fixed.c}


def spectrum(d, activation):
    found = theory.normalised_spectrum(d, activation)
    return {
        "lambda_G_forward": found.lambda_g,
        "lambda_L": found.lambda_l,
        "lambda_M": found.lambda_m,
        "lambda_G_backward": found.lambda_g_backward,
        "q": found.q,
        "c": found.c,
    }


def objective(v):
    f, gradient = theory.reweighted_norm(matrix(v["s"]), matrix(v["C"]), dos(v))
    return {"f": f, "grad": gradient}


def diagonal(v):
    found = theory.diagonal_reweighting(matrix(v["cdiag"]), dos(v))
    return {"gamma": found.gamma, "s_squared": found.s.square()}


def eigenmatrix(v):
    operator = dos(v)
    found = operator.diagonal_eigenmatrix(v["d"], v["i"])
    image = operator.apply(found)
    return {"L": found, "eigenvalue": float((image * found).sum() / (found * found).sum())}


def norm(v):
    u, w = dos(v).multiplicities(v["d"])
    return {"norm": dos(v).operator_norm(v["d"]), "mult_u": u, "mult_w": w}


def defective(v):
    matrix_of = theory.operator_matrix(dos(v).apply, v["d"])
    rest = matrix_of - v["u"] * torch.eye(len(matrix_of), dtype=torch.float64)
    assert dos(v).nilpotent_rank(v["d"]) == torch.linalg.matrix_rank(rest, atol=1e-12)
    return {
        "diagonalizable": dos(v).diagonalisable,
        "rank_T_minus_u": dos(v).nilpotent_rank(v["d"]),
        "rank_square": int(torch.linalg.matrix_rank(rest @ rest, atol=1e-12)),
    }


def projections(v):
    found = theory.decompose(matrix(v["C"]))
    return {"P0": found.zero, "PG": found.g, "PL": found.l, "PM": found.m}


def sizes(v):
    return {f"V{name}": size for name, size in theory.dimensions(v["d"]).items()}


def one_step(v):
    fixed = theory.normalised_spectrum(v["d"]).fixed_point
    after = theory.normalised_moment(fixed + v["eps"] * theory.centring(v["d"]))
    return {"deviation_F": float((after - fixed).norm())}


def light_decay(v):
    g = theory.centring(v["d"])
    start = 1e-6 * g @ torch.diag(matrix(v["delta"])) @ g
    before, after = theory.deviations(start, 1)
    return {"ratio": after.norms()["L"] / before.norms()["L"]}


def both_normalisers(v):
    fixed = theory.normalised_spectrum(v["d"]).fixed_point
    ours = theory.normalised_moment(fixed, matrix(v["s"]))
    printed = theory.normalised_moment(fixed, matrix(v["s"]), normaliser="printed")
    return {
        "V_consistent": ours,
        "V_printed": printed,
        "trace_consistent": float(ours.trace()),
        "trace_printed": float(printed.trace()),
    }


def g_ratio(v):
    c, s = matrix(v["C"]), matrix(v["s"])
    ratio = theory.g_component(s[:, None] * c * s) / theory.g_component(c)
    return {"ratio": ratio, "K": theory.relative_g_component(c, s)}


def every_layer(v):
    s = matrix(v["s"])
    fixed = theory.reweighted_fixed_point(s)
    return {
        "C_star_S": fixed,
        "K": theory.relative_g_component(fixed, s),
        "rho": theory.growth_rate(s),
        "rho_at_S_identity": theory.growth_rate(torch.ones(len(s))),
    }


def feature_space(v):
    plain = theory.feature_fixed_point(v["sw2"], v["sb2"])
    centred = theory.feature_fixed_point(v["sw2"], v["sb2"], centred=True)
    return {"q": plain.q, "c": plain.c, "q_centered": centred.q}


def normalised_jacobian(v):
    fixed = theory.normalised_spectrum(v["d"]).fixed_point
    image = theory.normalised_derivative(fixed, matrix(v["D"]))
    torch.testing.assert_close(image, theory.normalised_spectrum(v["d"]).apply(matrix(v["D"])))
    return {"J": image}


def gain(v):
    c = theory.bsb1(v["d"], 1.0, v["rho"]) if "rho" in v else matrix(v["C"])
    return {"gamma": theory.best_reweighting(c, dos(v)).gamma}


# By the beginning of the quantity's name.
ANSWERS = {
    "relu_V": lambda v: {"V": theory.second_moment(matrix(v["C"]))},
    "dos_params_relu_centered": lambda v: coefficients(theory.centred_relu_dos(v["c"])),
    "dos_params_relu": lambda v: coefficients(theory.dos_at_bsb1(v["c"])),
    "dos_params_leaky": lambda v: coefficients(
        theory.dos_at_bsb1(v["c"], theory.leaky_relu(v["slope"]))
    ),
    "dos_params_general tanh": lambda v: coefficients(
        theory.dos_at_bsb1(v["c"], theory.TANH, v["q"])
    ),
    "relu_J (": lambda v: {"J": theory.derivative(matrix(v["C"]), matrix(v["D"]))},
    "relu_J at BSB1": lambda v: {
        "J": theory.derivative(theory.bsb1(v["d"], v["q"], v["c"]), matrix(v["D"]))
    },
    "fixed_point_relu": lambda v: point(theory.sample_fixed_point(v["sw2"], v["sb2"])),
    "iterate (q,c)": lambda v: dict(
        zip(
            "qc",
            theory.iterate_bsb1(v["q0"], v["c0"], v["sw2"], v["sb2"], v["n"]),
            strict=True,
        )
    ),
    "critical sw2=2": lambda v: {"c": theory.iterate_bsb1(1.0, v["c0"], 2.0, 0.0, v["n"])[1]},
    "matrix iteration": lambda v: {"C": theory.iterate_samples(matrix(v["C0"]), 1.2, 0.4, v["n"])},
    "fixed point of normalised map": lambda v: {
        "q": theory.normalised_spectrum(v["d"]).q,
        "c": theory.normalised_spectrum(v["d"]).c,
    },
    "feature-space": feature_space,
    "gamma_nonneg": gain,
    "objective f(s)": objective,
    "KKT vector": lambda v: {"F": theory.stationarity(matrix(v["C"]), dos(v))},
    "second variation": lambda v: {"coef": theory.second_variation(v["d"], v["rho"], dos(v))},
    "gamma for diagonal": diagonal,
    "dos_apply": lambda v: {"T": dos(v).apply(matrix(v["C"]))},
    "L_i eigenmatrix": eigenmatrix,
    "operator norm": norm,
    "coordinates of C": lambda v: {"coef": torch.cat(dos(v).coordinates(matrix(v["C"])))},
    "w=u": defective,
    "eigenvalues, ReLU": lambda v: spectrum(v["d"], theory.RELU),
    "eigenvalues, leaky": lambda v: spectrum(v["d"], theory.leaky_relu(v["slope"])),
    "eigenvalues, tanh": lambda v: spectrum(v["d"], theory.TANH),
    "eigenvalues, relu^2": lambda v: spectrum(v["d"], theory.relu_power(2)),
    "orthogonal projections": projections,
    "dimensions": sizes,
    "V of the normalised": lambda v: {"V": theory.normalised_moment(matrix(v["C"]))},
    "Jacobian of the normalised": normalised_jacobian,
    "one step of": one_step,
    "decay ratio": light_decay,
    "V(S,C*)": both_normalisers,
    "spectral radius of C->J": lambda v: {
        "rho": theory.dos_at_bsb1(0.25).spectral_radius(matrix(v["s"]))
    },
    "||P_G(SCS)||": g_ratio,
    "S repeated": every_layer,
}


def answer(quantity):
    return next((ask for start, ask in ANSWERS.items() if quantity.startswith(start)), None)


ANSWERED = [case for case in oracles.CASES if answer(case["quantity"])]


@pytest.mark.skipif(not oracles.FILE, reason=oracles.WITHOUT_FILE)
@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case["id"])
def test_number_from_elsewhere(case):
    found = answer(case["quantity"])(case["inputs"])
    for name, expected in case["expected"].items():
        if expected is None or isinstance(expected, str | bool):
            assert found[name] == expected
            continue
        gap = (torch.as_tensor(found[name], dtype=torch.float64) - matrix(expected)).abs()
        assert bool((gap <= case["atol"] + case["rtol"] * matrix(expected).abs()).all()), name


@pytest.mark.parametrize("u", [0.3, 0.5])
def test_the_answer_about_defective_operators_needs_no_round_number(u):
    found = defective({"d": 4, "u": u, "v": 0.1, "w": u})
    assert found == {"diagonalizable": False, "rank_T_minus_u": 4, "rank_square": 0}
