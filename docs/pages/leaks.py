"""Label leaks of Cora and Citeseer by every definition the paper may have meant.

``python docs/pages/leaks.py docs/audit.md`` fills it; with ``--check`` nothing
is written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.class_names import LabelWordTable, label_word_table
from drgcn.audit.leaks.findings import leak_findings
from drgcn.audit.leaks.words import (
    ABBREVIATIONS,
    RULES,
    Expansions,
    FeatureWords,
    LabelWords,
    Rule,
    TextIndex,
    WordSource,
    read_feature_names,
)
from drgcn.audit.texts import NodeTexts
from drgcn.data import load
from drgcn.data.downloader import data_root
from drgcn.data.splits import Mask
from drgcn.errors import InputError, MissingDataError
from drgcn.studies.paper.page import paper_table_of

#: The sets that have leak tables.
LEAK_SETS: Final = ("cora", "citeseer")

# The data's own name of a class where it is not the head of the column.
_SHORT: Final = {written: short for short, written in ABBREVIATIONS.items()}


@dataclass(frozen=True)
class PublishedLeak:
    """One column of the paper's two leak tables of a dataset.

    Attributes:
        total: Papers of the class.
        appeared: Those whose title or abstract has the label.
        rate: The same in percent.
        elsewhere: Papers of other classes that have the label.
        rate_elsewhere: The same in percent, of what the paper divides by.
    """

    total: int
    appeared: int
    rate: float
    elsewhere: int
    rate_elsewhere: float


@cache
def published_leaks(name: str) -> Mapping[str, PublishedLeak]:
    """Both tables of a dataset, by the names that the data gives the classes.

    Args:
        name: One of :data:`LEAK_SETS`.
    """
    found = {}
    for column in paper_table_of(f"leaks-{name}-others").columns:
        label = _SHORT.get(column, column.replace(" ", "_"))
        total, appeared, rate = _column(f"leaks-{name}", column)
        elsewhere, rate_elsewhere = _column(f"leaks-{name}-others", column)
        found[label] = PublishedLeak(
            *(int(total), int(appeared), rate, int(elsewhere), rate_elsewhere)
        )
    return MappingProxyType(found)


def published_totals(name: str) -> tuple[int, int, float]:
    """The column "Total": papers, those that appeared, and the rate in percent."""
    papers, appeared, rate = _column(f"leaks-{name}", "Total")
    return int(papers), int(appeared), rate


def _column(table: str, column: str) -> list[float]:
    cells = [cell for cell in paper_table_of(table).printed if cell.column == column]
    return [cell.printed.mean for cell in cells if cell.printed is not None]


# Papers whose title and abstract the authors had, where they say so: in a back-up, and found by
# searching for author and year. It stands in the text of Appendix A, in no table.
PUBLISHED_TEXTS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({"citeseer": (3186, 81)})


# Words of these papers were guessed from their features: as texts they would say nothing new.
_GUESSED = "recovered bag of words"


@dataclass(frozen=True)
class LeakTexts:
    """Texts and feature names of a dataset of papers.

    Attributes:
        texts: Title and abstract of every paper, as far as they are known.
        feature_names: The word of every feature, where it is known for sure.
        kinds: How many papers have a text of each kind.
        titles: How many papers have words of their title besides.
    """

    texts: tuple[str, ...]
    feature_names: tuple[str | None, ...]
    kinds: dict[str, int]
    titles: int

    @classmethod
    def of_dataset(cls, root: Path, name: str) -> LeakTexts:
        """Read ``text/<name>_planetoid_text.jsonl`` and ``text/<name>_vocab_recovered.csv``.

        Lines of the first are those that ``NodeTexts`` reads; words of a title
        may stand beside the text as ``title_terms``.
        """
        path = root / "text" / f"{name}_planetoid_text.jsonl"
        words = root / "text" / f"{name}_vocab_recovered.csv"
        for file in (path, words):
            if not file.is_file():
                raise MissingDataError(f"there are no texts of {name}: {file} does not exist")
        texts = list(NodeTexts.read(path).texts)
        kinds: Counter[str] = Counter()
        titles = 0
        with path.open("rb") as lines:
            for entry in map(json.loads, filter(bytes.strip, lines)):
                index, title = entry["index"], entry.get("title_terms", "")
                if entry["kind"] == _GUESSED:
                    texts[index] = ""
                kinds[entry["kind"]] += 1
                titles += bool(title)
                texts[index] = f"{texts[index]} {title}".strip()
        return cls(tuple(texts), read_feature_names(words), dict(kinds), titles)


class CombinedWords:
    """Several sources as one: a node has a word if any source says so.

    Args:
        *sources: At least one source.
    """

    def __init__(self, *sources: WordSource) -> None:
        self._sources = sources

    @property
    def readable(self) -> Mask:
        """The nodes of which any source knows words."""
        return self._any(lambda source: source.readable)

    def has_word(self, stem: str) -> Mask:
        """The nodes that have a word in any source."""
        return self._any(lambda source: source.has_word(stem))

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes that have words one after the other within one source."""
        return self._any(lambda source: source.has_phrase(stems))

    def _any(self, ask: Callable[[WordSource], Mask]) -> Mask:
        return np.any([ask(source) for source in self._sources], axis=0)


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


def verdict_words(found: Mapping[str, LeakComparison]) -> str:
    """Which definition comes closest to each total, and that it is not the same one."""
    lines = []
    for name, comparison in found.items():
        papers, appeared, rate = published_totals(name)
        closest = comparison.closest
        by_total = min(comparison.counts, key=lambda c: abs(c.table.carriers - appeared))
        lines.append(
            f"- {name}: the paper has {appeared:,} of {papers:,} ({rate} %). Closest over all "
            f"cells is *{closest}*: {_count(closest)}. {_farthest(name, closest)} "
            f"Closest to the total alone is *{by_total}*: {_count(by_total)}."
        )
    counts = {
        rule: " and ".join(
            f"{_count(comparison.of(rule))} of {name}" for name, comparison in found.items()
        )
        for rule in ("all", "any")
    }
    same = len({comparison.closest.rule for comparison in found.values()}) == 1
    lines.append(
        "- The two sets are closest to the same rule. "
        if same
        else "- The two sets are closest to different rules, so the paper's two rates do not "
        "compare with each other. "
    )
    lines[-1] += f"By text alone, all words are carried by {counts['all']}; any word by " + (
        f"{counts['any']}."
    )
    return "\n".join(lines)


def coverage_words(found: Mapping[str, LeakComparison]) -> str:
    """Of how many papers there are words at all."""
    lines = []
    for name, comparison in found.items():
        kinds = "; ".join(
            f"{count:,} {kind}" for kind, count in sorted(comparison.known.kinds.items())
        )
        named = sum(word is not None for word in comparison.known.feature_names)
        lines.append(
            f"- {name}: {kinds}; words of the title for {comparison.known.titles:,} besides. The "
            f"word of {named:,} of {len(comparison.known.feature_names):,} features is known."
        )
        if name in PUBLISHED_TEXTS:
            backup, searched = PUBLISHED_TEXTS[name]
            lines[-1] += (
                f" The authors had titles and abstracts of {backup + searched:,} ({backup:,} from "
                f"a back-up, {searched} by searching)."
            )
    return "\n".join(lines)


def error_words(found: Mapping[str, LeakComparison]) -> str:
    """Cells of the paper that contradict one another, or the data."""
    lines = []
    usual = published_totals("cora")[0]
    for name, comparison in found.items():
        papers, _, _ = published_totals(name)
        cells = published_leaks(name)
        totals = {row.name: row.total for row in comparison.closest.table.rows}
        for label, cell in cells.items():
            if cell.total != totals[label]:
                lines.append(
                    f"- {name}: the paper counts {cell.total} papers of {label}, but "
                    f"{totals[label]} have this label; "
                    f"{papers - comparison.closest.table.labelled} papers have none."
                )
        rates = {label: 100 * cell.elsewhere / papers for label, cell in cells.items()}
        wrong = {
            label: rate
            for label, rate in rates.items()
            if abs(rate - cells[label].rate_elsewhere) > 0.051
        }
        by_other = all(
            abs(100 * cells[label].elsewhere / usual - cells[label].rate_elsewhere) < 0.051
            for label in wrong
        )
        if wrong and by_other:
            right = ", ".join(
                f"{label} {rate:.1f} % (printed {cells[label].rate_elsewhere} %)"
                for label, rate in wrong.items()
            )
            lines.append(
                f"- {name}: rates in other classes are divided by {usual:,}, the papers of cora. "
                f"Of {papers:,} they are {right}."
            )
    return "\n".join(lines)


def _farthest(name: str, counted: Counted) -> str:
    far = distances(name, counted.table)
    label = max(far, key=lambda key: far[key])
    total, (_, appeared, _) = sum(far.values()), published_totals(name)
    rest = sum(row.appeared for row in counted.table.rows if row.name != label)
    printed = appeared - published_leaks(name)[label].appeared
    return (
        f"The cells are {total:,} apart in all, {far[label]:,} of it in "
        f"{label.replace('_', ' ')}; the other classes have {rest:,} carriers (paper {printed:,})."
    )


def _count(counted: Counted) -> str:
    table = counted.table
    return f"{table.carriers:,} ({100 * table.rate:.1f} %)"


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
