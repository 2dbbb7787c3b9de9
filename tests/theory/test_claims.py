"""Verdicts on every claim of the paper."""

import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drgcn.cli.verbs import app
from drgcn.theory.claims import CLAIMS
from drgcn.theory.claims.evidence import Finding

from ..golden.goldens import expect_numbers, masked

EXPECTED = {
    "positive S commutes with ReLU": "holds",
    "second moment for covariance": "holds after repair",
    "weights left out": "holds after repair",
    "J is DOS everywhere": "holds after repair",
    "BSB1 fixed point": "holds after repair",
    "derivative at the fixed point": "holds after repair",
    "features tend to BSB1": "holds after repair",
    "some S reduces the image": "holds after repair",
    "stationarity condition": "holds after repair",
    "exceptional set": "holds after repair",
    "norm measures eigenvalues": "fails",
    "eigenmatrices of DOS": "holds",
    "deviations grow": "fails",
    "growth rate proportional to K": "fails",
    "V_G part is K": "holds",
    "S reduces the V_G part": "holds after repair",
    "V_G part of the output": "holds after repair",
    "K measures stability": "fails",
    "without normalisation": "fails",
    "V(S, C) = V(I, SCS)": "holds after repair",
    "four orthogonal spaces": "holds after repair",
    "eigenspaces of J": "holds after repair",
    "lambda_G > 1": "fails",
    "lambda_L, lambda_M < 1": "holds after repair",
    "symmetry with S": "fails",
    "small K, small derivatives": "fails",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return tmp_path_factory.mktemp("theory") / "deep" / "theory.html"


@pytest.fixture(scope="module")
def printed(page):
    """What the command prints as JSON: all checks are run once."""
    done = CliRunner().invoke(app, ["theory", "--json", "--html", str(page)])
    assert done.exit_code == 0
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rows(printed):
    return printed["claims"]


@pytest.fixture(scope="module")
def by_name(rows):
    return {row["name"]: row for row in rows}


def test_numbers_are_as_they_were(printed):
    expect_numbers("json/theory", masked(printed))


def test_every_claim_on_the_command_line(rows, page):
    assert [(row["name"], row["verdict"]) for row in rows] == list(EXPECTED.items())
    assert all(row["numbers"] and row["words"] and row["where"] for row in rows)
    assert sum(row["seconds"] for row in rows) < 60
    html = page.read_text()
    assert "http" not in html
    assert all(row["where"] in html for row in rows)


def test_the_page_names_claims_that_exist():
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    named = re.findall(r"claims? `([^`]+)`", page)
    assert {"exceptional set", "S reduces the V_G part", "V_G part of the output"} <= set(named)
    assert set(named) <= EXPECTED.keys()


def test_words_on_the_command_line(monkeypatch):
    monkeypatch.setattr(
        "drgcn.theory.claims.CLAIMS",
        tuple(claim for claim in CLAIMS if claim.name == "lambda_G > 1"),
    )
    done = CliRunner().invoke(app, ["theory"])
    assert done.exit_code == 0
    assert "lambda_G = 0" in done.stdout
    assert "1 claims: 0 hold, 0 hold after repair, 1 fail" in done.stdout


def test_verdicts_follow_the_numbers():
    assert Finding(True, True, "", {}).verdict == "holds"
    assert Finding(True, False, "", {}).verdict == "holds"
    assert Finding(False, True, "", {}).verdict == "holds after repair"
    assert Finding(False, False, "", {}).verdict == "fails"


def test_counter_examples_are_among_the_numbers(by_name):
    radius = by_name["norm measures eigenvalues"]["numbers"]
    assert radius["the same, s^2 = (1.9, 0.1)"] == pytest.approx(math.sqrt(0.19))
    assert radius["spectral radius, DOS(0.1, 0.05, 1), S = I"] == 1
    exceptional = by_name["exceptional set"]["numbers"]
    assert exceptional["range of F at BSB1, DOS(0.1, 0.02, 1), correlation 0.9"] < 1e-12
    assert exceptional["gamma found there"] == pytest.approx(0.137, abs=5e-4)
    rank_one = by_name["J is DOS everywhere"]["numbers"]
    assert rank_one["range of a at C = a a^T"] > 1
    assert rank_one["gap to DOS(1/2, 0, 1/2) there"] < 1e-12
    name = "rank of the derivative, features averaged over W, d = 4"
    assert by_name["derivative at the fixed point"]["numbers"][name] == 1


def test_small_gains_near_the_fixed_point(by_name):
    numbers = by_name["S reduces the V_G part"]["numbers"]
    for d in (4, 8, 32):
        assert numbers[f"least K at C*, d = {d}"] == pytest.approx(1, abs=1e-12)
        near, far = (numbers[f"least K at distance {x}, best of 12, d = {d}"] for x in (0.01, 0.1))
        assert 0.9 < far < near < 1
        # Ten times the distance, about a hundred times the gain.
        assert (1 - far) / (1 - near) == pytest.approx(100, rel=0.3)


def test_the_spread_at_which_the_output_leaves_k_is_in_the_words(by_name):
    found = by_name["V_G part of the output"]
    spread = float(found["words"].split("from spread ")[1].split()[0])
    largest = {
        float(name.rsplit(" ", 1)[1]): value
        for name, value in found["numbers"].items()
        if name.startswith("largest gain / K, printed")
    }
    assert min(x for x, value in largest.items() if value > 1.5) == spread
    assert sorted(largest.values()) == list(largest.values())
    assert found["numbers"]["largest gain of a gate with K < 1, printed"] > 1


def test_readings_of_stability(by_name):
    numbers = by_name["K measures stability"]["numbers"]
    ranks = {
        name.split(": ")[1]: value
        for name, value in numbers.items()
        if name.startswith("rank correlation with K")
    }
    # The page on theory says which readings get worse as K falls, and which one better.
    rising = {name for name, rank in ranks.items() if rank > 0.5}
    assert rising == {"derivative per deviation, Eq. 15"}
    assert {name for name, rank in ranks.items() if rank < -0.5} == {
        "derivative, Eq. 15",
        "derivative, ||GSH||",
        "the same relative to the output",
        "gain of gradients, ||GSH||",
    }


def test_gates_made_to_damp_do_not_at_their_own_fixed_point(by_name):
    found = by_name["growth rate proportional to K"]
    numbers = found["numbers"]
    assert numbers["largest K of these where they were made"] < 1
    # The page on theory says that no gate tried damps; should one be found, it must be rewritten.
    assert numbers["gates with K < 1"] == 0
    assert numbers["least K"] >= 1
    assert "a damping gate was not seen" in found["words"]
    assert numbers["largest rate"] < 1
