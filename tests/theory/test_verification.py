import json

import pytest
from typer.testing import CliRunner

from drgcn.cli import app
from drgcn.theory.claims import CLAIMS
from drgcn.theory.claims.evidence import Finding

EXPECTED = {
    "positive S commutes with ReLU": "holds",
    "second moment for covariance": "holds after repair",
    "weights left out": "holds after repair",
    "J is DOS everywhere": "holds after repair",
    "usable BSB1 fixed point": "holds after repair",
    "features tend to BSB1": "holds after repair",
    "some S reduces the image": "holds after repair",
    "stationarity condition": "holds after repair",
    "exceptional set": "holds after repair",
    "norm measures eigenvalues": "fails",
    "eigenmatrices of DOS": "holds",
    "deviations grow": "fails",
    "growth rate proportional to K": "fails",
    "V_G part is K": "holds",
    "S reduces the V_G part": "fails",
    "V_G part of the output": "holds after repair",
    "gradients": "fails",
    "without normalisation": "fails",
    "V(S, C) = V(I, SCS)": "holds after repair",
    "four orthogonal spaces": "holds after repair",
    "eigenspaces of J": "holds after repair",
    "lambda_G > 1": "fails",
    "lambda_L, lambda_M < 1": "holds after repair",
    "symmetry with S": "fails",
}
BY_NAME = {claim.name: claim for claim in CLAIMS}


def test_every_claim_on_the_command_line(tmp_path):
    page = tmp_path / "deep" / "theory.html"
    done = CliRunner().invoke(app, ["theory", "--json", "--html", str(page)])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)["claims"]
    assert {row["name"]: row["verdict"] for row in rows} == EXPECTED
    assert all(row["numbers"] and row["words"] and row["where"] for row in rows)
    assert sum(row["seconds"] for row in rows) < 60
    html = page.read_text()
    assert "http" not in html
    assert all(row["where"] in html for row in rows)


def test_words_on_the_command_line(monkeypatch):
    monkeypatch.setattr("drgcn.theory.claims.CLAIMS", (BY_NAME["lambda_G > 1"],))
    done = CliRunner().invoke(app, ["theory"])
    assert done.exit_code == 0
    assert "lambda_G = 0" in done.stdout
    assert "1 claims: 0 hold, 0 hold after repair, 1 fail" in done.stdout


def test_names_are_unique():
    assert len(BY_NAME) == len(CLAIMS)


@pytest.mark.parametrize(
    ("printed", "repaired", "verdict"),
    [
        (True, True, "holds"),
        (True, False, "holds"),
        (False, True, "holds after repair"),
        (False, False, "fails"),
    ],
)
def test_verdicts_follow_the_numbers(printed, repaired, verdict):
    assert Finding(printed, repaired, "", {}).verdict == verdict


def test_words_about_gradients_have_the_power_that_was_fitted():
    found = BY_NAME["gradients"].run()
    power = float(found.words.rsplit(" ", 1)[1])
    assert power == pytest.approx(found.numbers["d log(gain) / d log(K)"], abs=0.005)
    assert ("rises when K falls" in found.words) == (power < 0)
    # The page on theory says that it is not like 1 / K.
    assert abs(power + 1) > 0.1


def test_gates_made_to_damp_do_not_at_their_own_fixed_point():
    found = BY_NAME["growth rate proportional to K"].run()
    assert found.numbers["largest K of these where they were made"] < 1
    # The page on theory says that no gate tried damps; should one be found, it must be rewritten.
    assert found.numbers["gates with K < 1"] == 0
    assert found.numbers["least K"] >= 1
    assert "a damping gate was not seen" in found.words
    assert found.numbers["largest rate"] < 1
