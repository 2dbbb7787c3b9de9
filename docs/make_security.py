"""Remakes the figures of SECURITY.md from the records of `make fuzz` and `make kills`.

With ``--check`` nothing is written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from drgcn.reporting.tables import Table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "SECURITY.md"
RECORDS = ROOT / "benchmarks" / "results"
_SAFE = ("refused", "accepted")
_DEFECTS = ("silent acceptance", "traceback", "hang", "signal")
_KILLED = ("kills", "before the end", "resumes")
_LOST = ("failed", "other result", "changed", "left behind", "stuck")


def main() -> int:
    """Make the block, or compare."""
    page = PAGE.read_text(encoding="utf-8")
    block = re.compile(r"(<!-- robustness -->\n).*?(<!-- /robustness -->)", re.DOTALL)
    filled = block.sub(lambda match: match[1] + "".join(sections()) + match[2], page)
    if "--check" in sys.argv:
        return int(filled != page)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


def sections() -> list[str]:
    """Return a paragraph and a table for each record that there is."""
    found = []
    if fuzz := _record("fuzz.json"):
        words = f"{fuzz['minutes']:g} minutes of malformed input on {fuzz['processes']} processes"
        found.append(_section(words, fuzz, "targets", "input for", ("inputs", *_SAFE, *_DEFECTS)))
    if kills := _record("kills.json"):
        found.append(_section("Kills", kills, "verbs", "verb", (*_KILLED, *_LOST)))
    return found or ["None is recorded for this version.\n"]


def _record(name: str) -> dict[str, Any]:
    path = RECORDS / name
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _section(
    words: str, record: dict[str, Any], parts: str, head: str, names: tuple[str, ...]
) -> str:
    made = record["environment"]
    rows = {**record[parts], "all": record}
    table = Table(
        (head, *names),
        [(name, *(f"{row[one]:,}" for one in names)) for name, row in rows.items()],
        left=1,
    )
    where = f"{made['device']}, source {made['source']}, {record['ended'][:10]}"
    return f"{words} ({where}):\n\n{table.markdown()}\n\n"


if __name__ == "__main__":
    sys.exit(main())
