"""Reports, and folders with a damaged record among the others."""

import subprocess
import sys

import pytest

from drgcn.errors import DrgcnWarning

from .test_cli import call  # noqa: F401 - a fixture

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
    first, second, path = out.strip().split("\n\n")
    assert "test accuracy %" in first
    assert "| stuck per layer |" in second.splitlines()[0]
    assert "gcn + dr (hidden channels 4, epochs 3)" in second.splitlines()[2]
    assert second.splitlines()[2].count(" % ") == 2
    assert path == "page.html"


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
