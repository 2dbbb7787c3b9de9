"""What all records say together, as the report counts it, and where Dr surely did something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import RunRecord
from drgcn.studies.report.contents import contents
from drgcn.studies.report.gate_tests import GateTest, gate_tests


def findings_list(records: Sequence[RunRecord], folder: Path) -> str:
    """The first lines of ``drgcn report``."""
    found = contents(records, list(paper_tables().values()), folder).findings
    return "\n".join(f"- {line}" for line in found)


def sure_words(records: Sequence[RunRecord]) -> str:
    """The settings in which Dr surely differs from plain, after the correction."""
    tests = gate_tests(records, None)
    correction = tests[0].decision.correction
    heads = {"up": f"Dr is surely above plain ({correction})", "down": "Surely below"}
    return "\n\n".join(
        f"{words}: " + "; ".join(_words(one) for one in tests if one.sign == sign) + "."
        for sign, words in heads.items()
    )


def _words(one: GateTest) -> str:
    made = ", synthetic" if one.synthetic else ""
    return f"{one.model} on {one.dataset}, {one.split}{made} ({one.test.gain.mean:+.2f})"
