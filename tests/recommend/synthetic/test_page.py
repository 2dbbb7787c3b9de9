"""docs/recommend_astar.md says what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def check(*words):
    words = [sys.executable, str(DOCS / "make_astar.py"), "--check", *words]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_parameters_and_columns_are_those_of_the_code():
    done = check()
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_is_measured_is_still_so():
    done = check("--measured")
    assert done.returncode == 0, done.stderr


def test_code_on_the_page_runs(capsys):
    page = (DOCS / "recommend_inside.md").read_text()
    text = page.partition("\n## `astar`")[2]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "recommend_inside.md", "exec"), {})
    assert "129834" in capsys.readouterr().out
