import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_that_of_the_records(monkeypatch):
    script = str(DOCS / "make_recommend_tables.py")
    monkeypatch.setattr("sys.argv", [script, "--check"])
    monkeypatch.syspath_prepend(str(DOCS))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == 0, ended.value.code
