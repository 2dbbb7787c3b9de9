"""Label words counted by every definition the paper may have meant, beside its own counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.class_names import LabelWordTable, label_word_table
from drgcn.audit.leaks.combined_words import CombinedWords
from drgcn.audit.leaks.words import (
    ABBREVIATIONS,
    RULES,
    Expansions,
    FeatureWords,
    LabelWords,
    Rule,
    TextIndex,
    WordSource,
)
from drgcn.data import load
from drgcn.studies.paper.leak_texts import LeakTexts
from drgcn.studies.paper.published_leaks import published_leaks

RULE_NAMES: Final[dict[Rule, str]] = {"all": "all words", "any": "any word", "phrase": "in order"}

# Class names with their abbreviation as a second way to write them.
_BOTH: Final[Expansions] = {
    short: (str(written), short) for short, written in ABBREVIATIONS.items()
}

# What else the paper may have looked for, class by class; any of the words.
ALTERNATIVES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "cora": {
        "Case_Based": ("case",),
        "Probabilistic_Methods": ("probabilistic",),
        "Rule_Learning": ("rule",),
        "Reinforcement_Learning": ("reinforcement",),
        "Neural_Networks": ("neural",),
        "Genetic_Algorithms": ("genetic",),
    },
    "citeseer": {
        "AI": ("artificial", "intelligence", "AI"),
        "HCI": ("HCI", "interface", "interaction"),
    },
}


@dataclass(frozen=True)
class Counted:
    """One definition and its counts.

    Attributes:
        rule: What counts.
        source: Where words were looked for: ``"text"``, ``"features"`` or ``"either"``.
        abbreviations: Whether a class's abbreviation counts as its name.
        table: The counts.
        distance: Sum over all cells of how far they are from the paper's.
    """

    rule: Rule
    source: str
    abbreviations: bool
    table: LabelWordTable
    distance: int

    def __str__(self) -> str:
        where = {"text": "text", "features": "named features", "either": "text or named features"}
        short = ", or the abbreviation" if self.abbreviations else ""
        return f"{RULE_NAMES[self.rule]}{short}; {where[self.source]}"


@dataclass(frozen=True)
class LeakComparison:
    """All counts of one dataset.

    Attributes:
        name: The dataset.
        known: What is known of its words.
        counts: One entry per definition.
        alternatives: Per class, the words tried instead, and how many papers of the class and of
            others have any of them in their text.
    """

    name: str
    known: LeakTexts
    counts: tuple[Counted, ...]
    alternatives: tuple[tuple[str, tuple[str, ...], int, int], ...]

    @property
    def closest(self) -> Counted:
        """The definition with the smallest distance."""
        return min(self.counts, key=lambda counted: counted.distance)

    def of(self, rule: Rule, source: str = "text") -> Counted:
        """The counts of a definition, with names written out."""
        return next(
            counted
            for counted in self.counts
            if (counted.rule, counted.source, counted.abbreviations) == (rule, source, False)
        )


def compare_leaks(root: Path, name: str) -> LeakComparison:
    """Count on the data under a root.

    Args:
        root: Data root.
        name: ``"cora"`` or ``"citeseer"``.
    """
    view = GraphView.of(load(name, root, offline=True))
    known = LeakTexts.of_dataset(root, name)
    texts = TextIndex(known.texts, view.nodes)
    features = FeatureWords(view.x, known.feature_names)
    sources: dict[str, WordSource] = {
        "text": texts,
        "features": features,
        "either": CombinedWords(texts, features),
    }
    shortened = any(short in view.class_names for short in ABBREVIATIONS)
    counts = []
    for where, source in sources.items():
        for rule in RULES:
            for both in (False, True) if shortened else (False,):
                written = _BOTH if both else ABBREVIATIONS
                table = label_word_table(source, view.y, view.class_names, rule, written)
                counts.append(
                    Counted(rule, where, both, table, sum(distances(name, table).values()))
                )
    alternatives = []
    for label, words in ALTERNATIVES[name].items():
        found = LabelWords.of(label, {label: words}).found(texts, "any")
        own = view.y == view.class_names.index(label)
        others = view.known & ~own
        alternatives.append((label, words, int(np.sum(found & own)), int(np.sum(found & others))))
    return LeakComparison(name, known, tuple(counts), tuple(alternatives))


def distances(name: str, table: LabelWordTable) -> dict[str, int]:
    """How far each class is from the paper's two cells of it."""
    printed = published_leaks(name)
    return {
        row.name: abs(row.appeared - printed[row.name].appeared)
        + abs(row.elsewhere - printed[row.name].elsewhere)
        for row in table.rows
    }
