"""Reports, and folders with a damaged record among the others."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drgcn.cli.comparing import comparison, guess_of
from drgcn.data import load
from drgcn.errors import DrgcnWarning
from drgcn.studies.experiment import Experiment
from drgcn.studies.records import SeedResult
from drgcn.studies.run import Outcome

from .test_cli import call  # noqa: F401 - a fixture

RESULTS = Path(__file__).parents[2] / "results"
TRAIN = ("train", "planted", "--seeds", "2", "--epochs", "3", "--hidden", "4")


def damaged(folder):
    """A record cut off in the middle."""
    (whole,) = folder.glob("*.json")
    path = folder / "cut-off-seeds-0-1.json"
    path.write_text(whole.read_text()[:400])
    return path


def test_the_report_has_learnt_k_and_stuck_gates(call, tmp_path):  # noqa: F811
    call(*TRAIN)
    code, out, _ = call("report", "runs", "--html", "page.html")
    assert code == 0
    size, *parts, path = out.strip().split("\n\n")
    learnt, trained = size.splitlines()
    assert "no row is better than a guess" in learnt
    assert trained == "Trained: 2 networks in 1 experiment with 1 model on 1 dataset."
    gates, records = (part.splitlines() for part in (parts[1], parts[4]))
    assert parts[0] == "### Learnt K and stuck gates"
    assert "| stuck per layer |" in gates[0]
    assert "gcn + dr (hidden channels 4, epochs 3)" in gates[2]
    assert gates[2].count(" % ") == 2
    assert "test accuracy %" in records[0]
    assert path == "page.html"


def test_tables_are_written_in_every_format(call, tmp_path):  # noqa: F811
    call(*TRAIN, "--compare")
    options = ("--html", "a/page.html", "--markdown", "b/tables.md", "--latex", "c")
    code, out, _ = call("report", "runs", *options)
    assert code == 0
    assert out.strip().split("\n\n")[-3:] == ["a/page.html", "b/tables.md", "c/all.tex"]
    assert "Dr against the static gate" in (tmp_path / "b" / "tables.md").read_text()
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert {"all.tex", "dr-plain.tex", "k-and-stuck.tex", "spectrum.tex"} <= names
    page = (tmp_path / "a" / "page.html").read_text()
    assert "Learnt s" in page  # records of today keep its deciles


def test_one_table_alone_has_its_cells_and_their_controls(call):  # noqa: F811
    code, out, _ = call("report", str(RESULTS), "--table", "full")
    assert code == 0
    assert "### Table 12" in out
    assert "of 16 printed numbers" in out
    assert "| Dr-ASGCN (a) | Citeseer | 79.1 ± 0.4 |" in out
    assert "In 8 settings trained alike with and without it, Dr is" in out
    assert re.search(r"the plain model: .*\(paired t-test, Holm over 8 comparisons\)", out)


@pytest.mark.parametrize(("table", "words"), [("ppi", "found none"), ("pppi", "'pppi'")])
def test_a_table_without_records_is_refused_and_so_is_an_unknown_one(
    call,  # noqa: F811
    table,
    words,
):
    call(*TRAIN)
    code, out, error = call("report", "runs", "--table", table)
    assert (code, out) == (2, "")
    assert words in error


def test_without_dr_there_is_no_table_of_k(call):  # noqa: F811
    call(*TRAIN, "--reweight", "none")
    _, out, _ = call("report", "runs")
    assert "stuck" not in out


def test_a_damaged_record_keeps_nobody_from_reporting_and_training(call, tmp_path):  # noqa: F811
    call(*TRAIN)
    path = damaged(tmp_path / "runs")
    with pytest.warns(DrgcnWarning, match=path.name):
        code, out, _ = call("report", "runs")
    assert code == 0
    assert "| planted (synthetic) | random |" in out
    with pytest.warns(DrgcnWarning, match=path.name):
        code, out, _ = call(*TRAIN[:3], "4", *TRAIN[4:])
    assert code == 0
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3
    assert path.exists()


def test_a_user_sees_one_line_that_names_it(call, tmp_path):  # noqa: F811
    call(*TRAIN)
    path = damaged(tmp_path / "runs")
    done = subprocess.run(
        [sys.executable, "-c", "import drgcn.cli; drgcn.cli.main()", "report", "runs"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("warning: left out a damaged record.")
    assert path.name in line


def test_a_folder_of_damaged_records_alone_has_nothing_to_report(call, tmp_path):  # noqa: F811
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "odd-seeds-0-1.json").write_text("{}")
    with pytest.warns(DrgcnWarning, match="odd-seeds"):
        code, _, error = call("report", "runs")
    assert code == 2
    assert "found none" in error


def test_one_seed_has_a_mean_and_no_deviation(call, tmp_path):  # noqa: F811
    call("train", "planted", "--seeds", "1", *TRAIN[4:], "--compare")
    options = ("--html", "page.html", "--markdown", "tables.md", "--latex", "tex")
    code, out, _ = call("report", "runs", *options)
    assert code == 0
    written = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".md", ".tex")]
    assert len(written) > 4
    for text in (out, *(path.read_text() for path in written)):
        assert not re.search(r"(±|pm\$) nan", text)
        assert "inf]" not in text
    (row,) = (line for line in out.splitlines() if "| gcn (hidden" in line and "random" in line)
    assert re.search(r"\| \d+\.\d(, no better than a guess)? \|", row)


def test_a_missing_folder_and_a_file_are_told_apart(call, tmp_path):  # noqa: F811
    code, _, error = call("report", "nowhere")
    assert (code, "there is no folder nowhere" in error) == (2, True)
    (tmp_path / "some.json").write_text("{}")
    code, _, error = call("report", "some.json")
    assert (code, "some.json is a file" in error, "--out" in error) == (2, True, False)


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        (
            "--html",
            "file/page.html",
            "found file/page.html, which is a file",
        ),
        ("--markdown", "runs", "found runs, which is a folder"),
        (
            "--latex",
            "file",
            "found file, which is a file",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    call,  # noqa: F811
    tmp_path,
    option,
    path,
    words,
):
    call(*TRAIN)
    (tmp_path / "file").write_text("")
    code, out, error = call("report", "runs", option, path)
    assert (code, out) == (2, "")
    assert f"Expected {option} to be a" in error
    assert words in error
    assert "Errno" not in error


def test_rows_of_two_builds_have_no_gain_and_no_verdict():
    data = load("planted", nodes=200, labels_per_class=6, val_per_class=12)
    seeds = {seed: SeedResult(0.9, 0.9, 1, 1, [], [], []) for seed in range(2)}
    builds = frozenset({("this",)})
    outcomes = [
        Outcome(Experiment("planted", "random", reweight=gate), seeds, (), (), builds)
        for gate in (None, "dr", "static", "constant")
    ]
    guess = guess_of(data, None)
    assert comparison(data, outcomes, guess)["rows"][1]["gain_over_plain"] == [0, 0, 0]
    outcomes[0] = replace(outcomes[0], builds=frozenset({("another",)}))
    found = comparison(data, outcomes, guess)
    assert "two builds" in found["verdict"]
    assert all(row["gain_over_plain"] is None for row in found["rows"])
    mixed = replace(outcomes[0], builds=builds | outcomes[0].builds)
    assert comparison(data, [mixed], guess)["verdict"] is None
