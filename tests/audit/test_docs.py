"""The page about audits: its code runs, and its tables are those of the data."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest

from drgcn.errors import MissingDataError

from ..data.conftest import real_root  # noqa: F401 - a fixture

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "audit.md").read_text(encoding="utf-8")


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_audits", DOCS / "make_audits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def between(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGE, re.DOTALL)
    assert found is not None, name
    return found[1].strip()


def test_code_on_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        exec(compile(block, f"audit.md block {number}", "exec"), {})
    assert "test nodes are neighbours" in capsys.readouterr().out


def test_every_set_has_a_line(script):
    lines = between("audits").splitlines()[2:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(script.SETS)


def test_only_marked_places_are_filled(script):
    page = "before\n<!-- audits -->\nold\n<!-- /audits -->\nafter\n<!-- other -->\n"
    new = script.filled(page, {"audits": "new \\1"})
    assert new == page.replace("old", "new \\1")


@pytest.mark.slow
@pytest.mark.data
def test_look_ups_are_those_of_the_data(script, real_root):  # noqa: F811
    if not (real_root / "ppi-rebuilt").is_dir():
        pytest.skip("no PPI with rebuilt labels here")
    assert between("identity") == script.identity_words(real_root)
    table = script.Table(script.IDENTITY_HEADS, script.identity_rows(real_root))
    assert between("identity table") == table.markdown()


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", ["cora", "chameleon-filtered", "wine"])
def test_lines_are_those_of_the_data(script, real_root, name):  # noqa: F811
    try:
        row = script.audit_row(real_root, name)
    except MissingDataError as error:
        pytest.skip(str(error))
    assert f"| {' | '.join(row)} |" in between("audits").splitlines()


@pytest.mark.data
def test_edge_counts_are_those_of_the_data(script, real_root):  # noqa: F811
    if not (real_root / "linqs-cora").is_dir():
        pytest.skip("no citations here")
    assert script.edge_words(real_root) == between("edge counts")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sparse")
def test_refined_sets_are_those_of_the_data(script, real_root):  # noqa: F811
    if not (real_root / "text").is_dir():
        pytest.skip("no texts here")
    for row in script.refined_rows(real_root, "cora"):
        assert f"| {' | '.join(row)} |" in between("refined").splitlines()


NEEDED = ("planetoid/ind.cora.x", "refined/corax_adj.pkl", "text/cora_planetoid_text.jsonl")


@pytest.fixture
def root_with_texts() -> Path:
    root = os.environ.get("DRGCN_DATA")
    if not root:
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    for path in (*NEEDED, "linqs-cora/cora.content"):
        if not (Path(root) / path).is_file():
            pytest.skip(f"{path} is not under DRGCN_DATA")
    return Path(root)


@pytest.mark.data
@pytest.mark.slow
def test_page_is_current(root_with_texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = str(DOCS / "make_duplicates.py")
    monkeypatch.setattr("sys.argv", [script, "--data-root", str(root_with_texts), "--check"])
    # A page that is not what the data say ends the script with a sentence: SystemExit.
    runpy.run_path(script, run_name="__main__")


def test_page_has_the_table_between_its_marks() -> None:
    page = (DOCS / "audit-removed.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- duplicates -->\n(.*?)<!-- /duplicates -->", page, re.DOTALL)
    assert "| citeseer | as nodes | either, 0.5 or more |" in table
