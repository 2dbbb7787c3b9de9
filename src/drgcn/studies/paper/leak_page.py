"""The section on label leaks of the page on audits, made from the data.

``python -m drgcn.studies.paper.leak_page docs/audit.md`` fills it; with ``--check`` nothing
is written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from drgcn.audit.leaks.findings import leak_findings
from drgcn.data import load
from drgcn.data.downloader import data_root
from drgcn.errors import InputError
from drgcn.studies.paper.leak_comparison import LeakComparison, compare_leaks
from drgcn.studies.paper.leak_words import coverage_words, error_words, verdict_words
from drgcn.studies.paper.published_leaks import LEAK_SETS, published_leaks, published_totals

_START, _END = "<!-- leaks -->\n", "<!-- /leaks -->"
_TELLING = 5


def leak_section(root: Path) -> str:
    """All tables and sentences, in Markdown."""
    found = {name: compare_leaks(root, name) for name in LEAK_SETS}
    parts = [verdict_words(found)]
    for name, comparison in found.items():
        parts += [f"**{name}, {comparison.closest}**", cell_table(comparison)]
    parts += ["**All definitions**", definition_table(found)]
    parts += ["**Other words for a class**: any of them, in the text", alternative_table(found)]
    parts += ["**What is known of the papers' words**", coverage_words(found)]
    parts += ["**Where the paper's cells contradict themselves or the data**", error_words(found)]
    parts += [
        "**Features and how far they get** (labels of all nodes; accuracy on the full split)"
    ]
    parts += [_telling(root, found)]
    return "\n\n".join(parts) + "\n"


def cell_table(comparison: LeakComparison) -> str:
    """The paper's two tables of a dataset and ours, one class a row."""
    printed = published_leaks(comparison.name)
    rows = {row.name: row for row in comparison.closest.table.rows}
    texts = {row.name: row.readable for row in comparison.of("all").table.rows}
    lines = []
    for name, cell in printed.items():
        row = rows[name]
        lines.append(
            [
                *(name.replace("_", " "), f"{cell.total}", f"{row.total}", f"{texts[name]}"),
                *(f"{cell.appeared}", f"{row.appeared}", f"{row.appeared - cell.appeared:+d}"),
                *(f"{cell.elsewhere}", f"{row.elsewhere}", f"{row.elsewhere - cell.elsewhere:+d}"),
            ]
        )
    total, appeared, _ = published_totals(comparison.name)
    table = comparison.closest.table
    lines.append(
        [
            *("total", f"{total}", f"{table.labelled}", f"{sum(texts.values())}"),
            *(f"{appeared}", f"{table.carriers}", f"{table.carriers - appeared:+d}"),
            *("", "", ""),
        ]
    )
    heads = ("class", "papers", "ours", "with text", "appeared", "ours", "", "elsewhere", "ours")
    return markdown((*heads, ""), lines)


def definition_table(found: Mapping[str, LeakComparison]) -> str:
    """Every definition's total, and its distance from the paper's cells."""
    heads = ["definition", *(f"{name}{end}" for name in found for end in ("", ", distance"))]
    labels = dict.fromkeys(str(c) for comparison in found.values() for c in comparison.counts)
    lines = []
    for label in labels:
        cells = [label]
        for comparison in found.values():
            same = [counted for counted in comparison.counts if str(counted) == label]
            cells += [f"{c.table.carriers}" for c in same] or [""]
            cells += [f"{c.distance}" for c in same] or [""]
        lines.append(cells)
    printed = [f"{published_totals(name)[1]}" for name in found]
    lines.append(["the paper", *(cell for number in printed for cell in (number, ""))])
    return markdown(heads, lines)


def alternative_table(found: Mapping[str, LeakComparison]) -> str:
    """Counts of other words, beside the paper's."""
    lines = []
    for name, comparison in found.items():
        for label, words, own, others in comparison.alternatives:
            cell = published_leaks(name)[label]
            numbers = (cell.appeared, own, cell.elsewhere, others)
            lines.append([label.replace("_", " "), ", ".join(words), *map(str, numbers)])
    return markdown(("class", "words", "appeared", "ours", "elsewhere", "ours"), lines)


def _telling(root: Path, found: Mapping[str, LeakComparison]) -> str:
    lines = []
    for name, comparison in found.items():
        data = load(name, root, split="full", offline=True)
        names = comparison.known.feature_names
        telling, simple = leak_findings(data, feature_names=names)[-2:]
        best = [f"{row[1] or '?'} ({100 * row[5]:.0f} %)" for row in telling.rows[:_TELLING]]
        # Whole percents: a regression may end one node apart on another machine.
        shares = [f"{100 * accuracy:.0f} %" for _, accuracy in simple.rows]
        lines.append([name, f"{telling.numbers['found']}", ", ".join(best), *shares])
    heads = (
        *("dataset", "features beyond chance", "most telling (settles of a class)"),
        *("majority", "neighbours", "features", "without label words"),
    )
    return markdown(heads, lines)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def filled(page: str, section: str) -> str:
    """The page with the marked place filled anew."""
    if page.count(_START) != 1 or _END not in page:
        raise InputError(f"Expected a page with one place {_START.strip()} ... {_END}.")
    before, _, rest = page.partition(_START)
    return f"{before}{_START}{section}{_END}{rest.partition(_END)[2]}"


def main() -> None:
    """Fills the page, or checks that it is filled."""
    paths = [word for word in sys.argv[1:] if word != "--check"]
    if len(paths) != 1:
        raise InputError("Expected the page to fill, as in: leak_page docs/audit.md")
    path = Path(paths[0])
    old = path.read_text(encoding="utf-8")
    new = filled(old, leak_section(data_root()))
    if "--check" in sys.argv:
        sys.exit(f"{path} is not what the data gives: make it anew" if new != old else 0)
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
