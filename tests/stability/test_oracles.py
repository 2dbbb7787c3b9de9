"""K against numbers computed elsewhere, in a file that ``DRGCN_ORACLES`` points to."""

import numpy as np
import pytest
import torch

from drgcn.errors import UndefinedStability
from drgcn.stability import (
    FeatureMoments,
    QuadraticForm,
    minimal_k,
    minimal_k_in_range,
    stability_k,
    standardizing_k,
    variance_spread,
)

from .. import oracles
from ..reference import stability as reference

KINDS = ("K", "streaming", "weighted streaming", "degenerate", "constant feature", "C>=0", "||P_G")
CASES = [
    case for case in oracles.CASES if case["quantity"].startswith(KINDS) and case["item"] in (6, 8)
]
FIXED_POINTS = [case for case in oracles.CASES if "C_star_S" in case["expected"]]
ANSWERED = [*CASES, *FIXED_POINTS]

pytestmark = pytest.mark.skipif(not oracles.FILE, reason=oracles.WITHOUT_FILE)


def _covariance(inputs):
    if "C" in inputs:
        return np.array(inputs["C"])
    if "variances" in inputs:
        return np.diag(inputs["variances"])
    d, q, c = inputs["d"], inputs["q"], inputs["c"]
    return q * ((1 - c) * np.eye(d) + c)


def _streamed(inputs):
    x, w = torch.tensor(inputs["X"], dtype=torch.float64), inputs.get("w")
    w = None if w is None else torch.tensor(w, dtype=torch.float64)
    moments, start = FeatureMoments(x.size(1)), 0
    for rows in inputs["chunks"]:
        part = slice(start, start + rows)
        moments.update(x[part], None if w is None else w[part])
        start += rows
    return moments.covariance().numpy()


def _projected_norm(c):
    """Norm of the part of C along G."""
    d = len(c)
    g = np.eye(d) - 1 / d
    return abs(np.sum(c * g)) / np.sqrt(d - 1)


def _gradient(c, s):
    return QuadraticForm.of(torch.from_numpy(c), covariance=True).value_and_gradient(s)[1]


def _k(inputs):
    if "X" in inputs:
        return stability_k(torch.tensor(inputs["X"], dtype=torch.float64), inputs["s"])
    return stability_k(_covariance(inputs), inputs["s"], covariance=True)


def _ratio(inputs):
    s, c = np.diag(inputs["s"]), _covariance(inputs)
    return _projected_norm(s @ c @ s) / _projected_norm(c)


def _range(inputs, ratio):
    return minimal_k_in_range(_covariance(inputs), ratio, covariance=True).value


def _means(inputs):
    variance = np.array(inputs["variances"])
    return 1 / np.mean(1 / variance) / np.mean(variance)


def _spread(inputs):
    root = reference.features_of_covariance(_covariance(inputs))
    return variance_spread(torch.from_numpy(root))


COMPUTE = {
    "K": _k,
    "grad": lambda i: _gradient(_covariance(i), np.array(i["s"])),
    "inner_SCS_G": lambda i: (
        np.array(i["s"])
        @ (_covariance(i) * (np.eye(len(i["s"])) - 1 / len(i["s"])))
        @ np.array(i["s"])
    ),
    "K_star": lambda i: minimal_k(_covariance(i), covariance=True).value,
    "K_star_nonneg": lambda i: minimal_k(_covariance(i), "nonnegative", covariance=True).value,
    "s_star_rms1": lambda i: minimal_k(_covariance(i), "nonnegative", covariance=True).s.numpy(),
    "K_star_r2": lambda i: _range(i, 2),
    "K_star_r4": lambda i: _range(i, 4),
    "K_star_r": lambda i: _range(i, i["r"]),
    "K_std": lambda i: standardizing_k(_covariance(i), covariance=True),
    "hm_over_am": _means,
    "cv": _spread,
    "cov_ddof0": _streamed,
    "cov": _streamed,
    "ratio": _ratio,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_oracle(case):
    for name, expected in case["expected"].items():
        if expected == "undefined":
            with pytest.raises(UndefinedStability):
                COMPUTE[name](case["inputs"])
        elif name != "reason":
            found = COMPUTE[name](case["inputs"])
            np.testing.assert_allclose(found, expected, rtol=case["rtol"], atol=case["atol"])


@pytest.mark.parametrize("case", FIXED_POINTS, ids=lambda case: case["id"])
def test_k_at_a_fixed_point(case):
    c = np.array(case["expected"]["C_star_S"])
    found = stability_k(c, case["inputs"]["s"], covariance=True)
    assert found == pytest.approx(case["expected"]["K"], rel=case["rtol"])
