"""Remakes the output below the README's comparison by running its code block.

With ``--check`` nothing is written, and the exit code says whether the output would be another; a
third of a minute.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

from make_tables import filled

README = Path(__file__).parent.parent / "README.md"


def compare_output(page: str) -> str:
    """Run the block of a page that prints a summary, and return what it printed."""
    (code,) = (b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "summary()" in b)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, README.name, "exec"), {})
    return printed.getvalue().strip()


def main() -> None:
    """Fill the page, or check that it is filled."""
    page = README.read_text(encoding="utf-8")
    made = filled(page, {"compare output": compare_output(page)})
    if "--check" in sys.argv:
        sys.exit("README has another output: run docs/make_readme.py" if made != page else 0)
    README.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
