import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from .test_cli import call, own_data  # noqa: F401 - fixtures


def test_the_answer_is_a_verdict_three_lines_a_table_and_warnings(call):  # noqa: F811
    code, out, _ = call("stability", "wine")
    assert code == 0
    verdict, lines, table, *warnings = out.strip().split("\n\n")
    assert verdict.startswith("wine, unscaled features: ")
    assert [line[:2] for line in lines.splitlines()] == ["- "] * 3
    assert "K of 1/std" in table
    assert all(words.startswith("warning: ") for words in warnings)


def _with_columns(own_data, columns):  # noqa: F811
    nodes = own_data / "nodes.csv"
    head, *lines = nodes.read_text().splitlines()
    rows = [
        ",".join([line.split(",")[0], f"{a:.4f}", f"{b:.4f}", *line.split(",")[3:]])
        for line, (a, b) in zip(lines, columns, strict=True)
    ]
    nodes.write_text("\n".join([head, *rows]) + "\n")


def test_verdicts_follow_the_variances(call, own_data):  # noqa: F811
    draw = np.random.default_rng(0).standard_normal((60, 2))
    draw = np.linalg.qr(draw - draw.mean(0))[0]  # not correlated, and of one variance
    found = {}
    for scale in (1, 5, 100):
        _with_columns(own_data, draw * [1, scale])
        found[scale] = json.loads(call("stability", str(own_data), "--json")[1])
        _, out, _ = call("stability", str(own_data))
        assert found[scale]["verdict"] in out
        assert all(line in out for line in found[scale]["lines"])
    assert found[1]["verdict"].startswith("Variances are even")
    assert found[5]["verdict"].startswith("Variances differ")
    assert found[100]["verdict"].startswith("A few columns drown")
    for answer in found.values():
        assert f"from 1 down to {answer['k_range_4']:.2g}" in answer["verdict"]


def test_json_is_one_object(call):  # noqa: F811
    code, out, _ = call("stability", "wine", "--normalize", "standard", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["dataset"]["normalize"] == "standard"
    assert found["k_std"] == pytest.approx(1, abs=0.05)
    assert len(found["variance"]) == 13


def test_training_adds_gates(call, tmp_path):  # noqa: F811
    words = ("stability", "wine", "--train", "--seeds", "2", "--epochs", "3")
    _, out, _ = call(*words, "--json", "--html", str(tmp_path / "page.html"))
    runs = json.loads(out)["trained"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert all(len(run["s"]) == 13 and len(run["k"]) == 2 for run in runs)
    assert all(run["epochs"] == [0, 1, 2, 3] and len(run["k_by_epoch"]) == 4 for run in runs)
    page = (tmp_path / "page.html").read_text()
    assert "2 seeds" in page
    assert "<h1>wine, unscaled features</h1>" in page
    _, out, _ = call(*words)
    assert "K per layer, seed 1" in out
    assert "rank correlation of variance and s" in out


def test_own_folders_are_read(call, own_data):  # noqa: F811
    code, out, _ = call("stability", str(own_data), "--html", "page.html")
    assert code == 0
    assert "page.html" in out
    assert "--train" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no dataset"),
        (["wine", "--normalize", "loud"], "normalize must be one of"),
        (["wine", "--html", "."], "is a folder"),
    ],
)
def test_bad_input_ends_in_one_line_and_exit_code_2(call, words, message):  # noqa: F811
    code, out, error = call("stability", *words)
    assert (code, out) == (2, "")
    assert message in error
    assert "\n" not in error.strip()


def test_features_that_do_not_vary_end_in_exit_code_2(call, own_data):  # noqa: F811
    _with_columns(own_data, [(1, 2)] * 60)
    code, _, error = call("stability", str(own_data))
    assert code == 2
    assert "constant" in error


@pytest.mark.parametrize(("scaling", "warned"), [("none", True), ("standard", False)])
def test_training_warns_of_wild_scales_in_the_same_words(call, scaling, warned):  # noqa: F811
    options = ("--normalize", scaling)
    _, told, _ = call("stability", "wine", *options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code, _, error = call("train", "wine", "--seeds", "1", "--epochs", "1", *options)
    words = error + " ".join(str(one.message) for one in caught)
    assert code == 0
    assert ("wildly different scales" in words) is warned
    (line,) = [w for w in told.splitlines() if "wildly" in w] or [""]
    assert line.removeprefix("warning: ") in words
