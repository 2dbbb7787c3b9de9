"""The page about duplicates says what the data say."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NEEDED = ("planetoid/ind.cora.x", "refined/corax_adj.pkl", "text/cora_planetoid_text.jsonl")


@pytest.fixture
def real_root() -> Path:
    root = os.environ.get("DRGCN_DATA")
    if not root:
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    for path in (*NEEDED, "linqs-cora/cora.content"):
        if not (Path(root) / path).is_file():
            pytest.skip(f"{path} is not under DRGCN_DATA")
    return Path(root)


@pytest.mark.data
def test_page_is_current(real_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = str(ROOT / "docs" / "make_duplicates.py")
    monkeypatch.setattr("sys.argv", [script, "--data-root", str(real_root), "--check"])
    # A page that is not what the data say ends the script with a sentence: SystemExit.
    runpy.run_path(script, run_name="__main__")


def test_page_has_the_table_between_its_marks() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- duplicates -->\n(.*?)<!-- /duplicates -->", page, re.DOTALL)
    assert "| citeseer | as nodes | either, 0.5 or more |" in table
