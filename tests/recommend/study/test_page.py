import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_that_of_the_records():
    words = [sys.executable, str(DOCS / "make_recommend_tables.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or "run docs/make_recommend_tables.py"
