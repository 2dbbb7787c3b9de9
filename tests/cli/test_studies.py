"""drgcn studies: list, show, validate."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.errors import DrgcnError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.page import NAMES, paper_tables

PAGE = """
title = "mine"
unit = "percent"
[columns]
Cora = { dataset = "cora", split = "full" }
[rows]
GCN = { model = "gcn", norm = "layer" }
"""


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")

    def run(*words):
        result = CliRunner().invoke(drgcn.cli.verbs.app, ["studies", *words])
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def test_list_has_every_table_and_the_sum(call):
    code, out, _ = call("list")
    assert code == 0
    lines = [line.strip("│ ") for line in out.splitlines()]
    for name in NAMES:
        assert any(line.startswith(name + " ") for line in lines)
    (total,) = (line for line in lines if line.startswith("all "))
    assert next(word for word in total.split() if word.isdecimal()) == "306"
    assert "seeds" not in out
    words = " ".join(out.split("Of ")[-1].split())
    cells = [cell for table in paper_tables().values() for cell in table.cells]
    assert words.startswith(f"{sum(cell.state is not None for cell in cells)} cells ")
    assert all(cell.state is not None for cell in cells if cell.printed is not None)
    assert words.endswith(
        "25 need data without a direct link, 136 count or describe data, and 2 "
        "are of private data."
    )


@pytest.mark.parametrize(
    ("width", "more"), [(40, ()), (80, ()), (100, ()), (80, ("--results", "."))]
)
def test_names_are_whole_in_any_width(call, monkeypatch, width, more):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = call("list", *more)
    names = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert [name for name in names if name] == [*NAMES, "all"]
    assert width < 80 or max(map(len, out.splitlines())) <= width


def test_list_counts_what_is_on_record(call, request, tmp_path):
    results = request.config.rootpath / "results"
    found = json.loads(call("list", "--json", "--results", str(results))[1])
    tables = {one["name"]: one for one in found}
    semi = tables["semi"]
    assert [semi[key] for key in ("printed", "runnable", "run_apart")] == [48, 24, 24]
    assert semi["on_record"] + semi["not_run"] == semi["runnable"]
    assert all(one["complete"] <= one["on_record"] for one in found)
    assert semi["apart_complete"] + semi["apart_not_run"] <= semi["run_apart"]
    assert semi["apart_complete"] >= 15
    # Only one record, and that of five seeds of twenty.
    (tmp_path / "some").mkdir()
    name = "reddit-like-full-asgcn-dr-*.json"
    shutil.copy(next(results.glob(name)), tmp_path / "some")
    found = json.loads(call("list", "--json", "--results", "some")[1])
    assert sum(one["on_record"] for one in found) == 1
    tables = {one["name"]: one for one in found}
    seeds = json.loads(next((tmp_path / "some").iterdir()).read_text())["seeds"]
    assert tables["reddit-like"]["complete"] == (len(seeds) >= 20)
    assert "on_record" not in json.loads(call("list", "--json")[1])[0]


def test_list_of_no_folder(call):
    code, _, err = call("list", "--results", "nowhere")
    assert (code, "nowhere" in err) == (2, True)


def test_show_resolves_every_cell(call):
    facts = json.loads(call("show", "main", "--json")[1])
    cells = {(cell["row"], cell["column"]): cell for cell in facts["cells"]}
    assert len(cells) == 40
    table = paper_tables()["main"]
    for place, cell in cells.items():
        job = table.cell(*place).job
        assert ("experiment" in cell) == (job is not None)
        if job is not None:
            assert Experiment(**cell["experiment"]) == job.experiment
            assert cell["seeds"] == list(range(20))
    sage = cells["GraphSage", "Pubmed"]
    assert (sage["normalize"], sage["printed"]["mean"], sage["runnable"]) == ("none", 84.2, True)
    assert sage["settings"]["fan_outs"] == [10, 10]
    assert sage["budget"] == {"epochs": 100, "rule": "best-validation", "patience": None}
    assert not cells["ASGCN", "Reddit"]["runnable"]
    assert (sage["state"], cells["ASGCN", "Reddit"]["state"]) == ("can be run", "needs data")
    assert "files of Reddit" in cells["ASGCN", "Reddit"]["reason"]


def test_show_in_words(call):
    code, out, _ = call("show", "semi")
    assert code == 0
    assert out.startswith("Table 13 (semi-supervised)\n")
    blocks = {block.splitlines()[0]: block for block in out.split("\n\n")[1:]}
    assert len(blocks) == 51
    gat = blocks["DR-GAT | Pubmed: 79.1 ± 0.3"]
    assert "pubmed (public), features scaled: row; gat + dr" in gat
    assert "out_heads 8" in gat
    assert "at most 10000 epochs, stopped after 100 epochs without a better validation loss" in gat
    assert "stopped when the validation loss rises" in blocks["MLP | Cora: 55.1"]
    assert "run apart: quoted" in blocks["LP | Cora: 68.0"]
    assert "all at their default" in blocks["GCN | Cora: 81.5"]
    assert "needs: the files of PPI" in call("show", "ppi")[1]
    assert "instead: the table ppi-rebuilt" in call("show", "ppi")[1]


def test_every_table_can_be_shown(call):
    for name in NAMES:
        assert call("show", name)[0] == 0


def test_validate_all(call):
    code, out, _ = call("validate")
    assert code == 0
    assert len(out.splitlines()) == len(NAMES) + 1
    last = out.splitlines()[-1]
    assert re.fullmatch(r"all in order: 306 printed numbers, \d+ recipes that build", last)


def test_validate_a_page_of_ones_own(call, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(PAGE)
    assert call("validate", "mine.toml")[:2] == (
        0,
        "mine: 1 rows, 1 columns, 0 printed numbers, 1 recipes\n"
        "all in order: 0 printed numbers, 1 recipes that build\n",
    )
    assert "gcn + layer norm" in call("show", "mine.toml")[1]
    for old, new, words in (
        ('"layer"', '"loud"', "row 'GCN', column 'Cora'"),
        ('"full"', '"half"', "found 'half'"),
        ("[rows]", "[rows", "no TOML"),
    ):
        path.write_text(PAGE.replace(old, new))
        code, _, err = call("validate", "full", "mine.toml")
        assert (code, words in err, "mine" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("number", "row", "fine"),
    [
        *[("-86.4", "", False), ("186", "", False), ("100", "", True)],
        *[("-0.2", ', quantity = "gain"', True), ("-101", ', quantity = "gain"', False)],
        *[("186", ', quantity = "count"', True)],
    ],
)
def test_a_share_lies_between_nothing_and_all(call, tmp_path, number, row, fine):
    grid = f'numbers = """\n | Cora\nGCN | {number}\n"""\n[columns]'
    page = PAGE.replace("[columns]", grid).replace('norm = "layer"', f'norm = "layer"{row}')
    (tmp_path / "mine.toml").write_text(page)
    code, _, err = call("validate", "mine.toml")
    assert code == (0 if fine else 2)
    assert fine or ("row 'GCN', column 'Cora'" in err and number in err)


@pytest.mark.slow
def test_what_is_wrong_is_one_line_and_exit_code_two(tmp_path):
    (tmp_path / "mine.toml").write_text(PAGE.replace('"gcn"', '"gnc"'))
    command = [sys.executable, "-c", "from drgcn.cli import main; main()"]
    done = subprocess.run(
        [*command, "studies", "validate", "mine.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: mine.toml: row 'GCN', column 'Cora': Expected a model")
