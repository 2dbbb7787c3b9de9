import json
import sys

import pytest

from drgcn.baselines import baseline_records
from drgcn.cli import main


def drgcn(monkeypatch, *words):
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["drgcn", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_prints_accuracies_and_writes_records(tmp_path, monkeypatch, capsys):
    words = ("baselines", "wine", "--method", "label-propagation", "--method", "ica")
    words = (*words, "--seeds", 2, "--normalize", "standard", "--out", tmp_path)
    assert drgcn(monkeypatch, *words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("label-propagation")
    assert first.endswith("(n=1)")
    assert second.startswith("ica")
    assert second.endswith("(n=2)")
    assert {one.method for one in baseline_records(tmp_path).values()} == {
        "label-propagation",
        "ica",
    }
    assert drgcn(monkeypatch, *words, "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == ""  # nothing was run again
    rows = json.loads(printed.out)["rows"]
    assert [(row["method"], row["seeds"]) for row in rows] == [
        ("label-propagation", 1),
        ("ica", 2),
    ]
    assert f"{rows[0]['test']:.2f}" in first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("wine", "--method", "svm"), "Expected a method out of manireg"),
        (("nothing-of-this-name",), "nothing-of-this-name"),
        (("wine", "--split", "public"), "has no split 'public'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(tmp_path, monkeypatch, capsys, words, said):
    assert drgcn(monkeypatch, "baselines", *words, "--out", tmp_path, "--offline") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_a_folder_that_is_a_file_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "taken").write_text("")
    assert drgcn(monkeypatch, "baselines", "wine", "--out", tmp_path / "taken") == 2
    assert "--out" in capsys.readouterr().err
