"""Label words as a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drgcn.audit.finding import Finding, Severity
from drgcn.audit.leaks.label_words import ABBREVIATIONS, RULES, Expansions, Rule
from drgcn.audit.leaks.word_leaks import LabelWordTable, label_word_table
from drgcn.audit.leaks.word_source import WordSource
from drgcn.data.splits import AnyLabels

_MUCH: Final = 0.05
_SURPRISING: Final = 4.0
_NAMED: Final = 5

_DEFINITION: Final = (
    "A node carries its label if {where} all words of its class's name (stemmed; or the name "
    'written as one word). "Any" asks for one of the words, "in order" for the words one after '
    "the other. Elsewhere: labelled nodes of other classes with the same words. A warning if the "
    f"nodes that carry their label exceed by {100 * _MUCH:.0f} % of all what the rate in other "
    f"classes would give, and by {_SURPRISING:g} deviations what shuffled labels would give."
)


def word_leak_finding(
    name: str,
    where: str,
    source: WordSource,
    y: AnyLabels,
    class_names: Sequence[str],
    expansions: Expansions = ABBREVIATIONS,
) -> Finding:
    """Count by all three rules.

    Args:
        name: Name of the finding.
        where: Where the words stand, as in "its text has".
        source: The words of the nodes.
        y: Class numbers, or zeros and ones for several labels a node.
        class_names: One name per class.
        expansions: Names that are written out before they are looked for.
    """
    tables = {rule: label_word_table(source, y, class_names, rule, expansions) for rule in RULES}
    first = tables["all"]
    readable = int(source.readable.sum())
    skipped = ", ".join(map(repr, first.skipped[:_NAMED])) or "none"
    skipped += f" and {len(first.skipped) - _NAMED} more" * (len(first.skipped) > _NAMED)
    silent = len(y) - readable
    note = f" {silent:,} nodes have no words to look at." if silent else ""
    note += f" Classes without words were left out: {skipped}." if first.skipped else ""
    return Finding(
        name=name,
        severity=_severity(first) if readable else "note",
        summary=f"{first.carriers:,} of {first.labelled:,} labelled nodes "
        f"({100 * first.rate:.1f} %) carry all words of their class's name, "
        f"{tables['any'].carriers:,} at least one." + note
        if first.rows
        else f"No class name has letters, so there are no words to look for: {skipped}.",
        definition=_DEFINITION.format(where=where),
        numbers={
            **{f"carriers ({rule})": table.carriers for rule, table in tables.items()},
            "labelled": first.labelled,
            "nodes with words": readable,
            "rate": first.rate,
            "excess": first.excess,
            "deviations above shuffled labels": first.surprise,
            "skipped classes": list(first.skipped),
        },
        columns=("class", "words", "nodes", "with words", *_heads()),
        rows=_rows(tables),
    )


def _severity(table: LabelWordTable) -> Severity:
    if not table.rows:
        return "note"
    if table.excess >= _MUCH and table.surprise >= _SURPRISING:
        return "warning"
    return "note" if table.carriers else "fine"


def _heads() -> list[str]:
    shown: dict[Rule, str] = {"all": "all words", "any": "any word", "phrase": "in order"}
    return [f"{shown[rule]}{end}" for rule in RULES for end in ("", " elsewhere")]


def _rows(tables: dict[Rule, LabelWordTable]) -> tuple[tuple[str | int, ...], ...]:
    rows = []
    for same in zip(*(table.rows for table in tables.values()), strict=True):
        counts = [count for row in same for count in (row.appeared, row.elsewhere)]
        rows.append((same[0].name, same[0].words, same[0].total, same[0].readable, *counts))
    return tuple(rows)
