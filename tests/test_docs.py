"""The documentation is true: its code runs, and its tables are those of the records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme_code_runs(number):
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})


def test_readme_has_code():
    assert len(BLOCKS) >= 2


def test_tables_are_those_of_the_records():
    done = run(str(ROOT / "docs" / "make_tables.py"), "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_examples_run(script):
    done = run(str(ROOT / "examples" / script))
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_recorded_seed_was_run_to_the_protocol():
    from drgcn.studies.recipes import recipe
    from drgcn.studies.run_record import load_records

    records = load_records(ROOT / "results") + load_records(ROOT / "results" / "search")
    assert records
    for record in records:
        ran = record.experiment
        assert sorted(record.seeds) == list(range(20))
        assert ran.rule == recipe(ran.dataset, ran.split, ran.model).rule
