"""Label leaks of Cora and Citeseer beside the paper's, by every definition it may have meant.

``python docs/pages/leaks.py docs/audit-leaks.md`` fills the section of that page; with ``--check``
nothing is written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from jinja2 import Environment, StrictUndefined

from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.findings import LabelWordTable, label_word_table, leak_findings
from drgcn.audit.leaks.words import (
    ABBREVIATIONS,
    RULE_NAMES,
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

_START, _END = "<!-- leaks -->\n", "<!-- /leaks -->"
_FEATURES = 5  # shown of each set
_ROUNDING = 0.051  # of rates that are printed with one decimal

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
    """Return both tables of a dataset, by the names that the data gives the classes.

    Args:
        name: One of :data:`LEAK_SETS`.
    """
    found = {}
    for column in paper_table_of(f"leaks-{name}-others").columns:
        label = _SHORT.get(column, column.replace(" ", "_"))
        total, appeared, rate = _column(f"leaks-{name}", column)
        elsewhere, rate_elsewhere = _column(f"leaks-{name}-others", column)
        found[label] = PublishedLeak(
            total=int(total),
            appeared=int(appeared),
            rate=rate,
            elsewhere=int(elsewhere),
            rate_elsewhere=rate_elsewhere,
        )
    return MappingProxyType(found)


def published_totals(name: str) -> tuple[int, int, float]:
    """Return the column "Total": papers, those that appeared, and the rate in percent."""
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
        texts: Title and abstract of every paper, empty where they are not known.
        feature_names: The word of every feature, where it is known for sure.
        kinds: Number of papers with a text of each kind.
        titles: Number of papers with words of their title besides.
    """

    texts: tuple[str, ...]
    feature_names: tuple[str | None, ...]
    kinds: dict[str, int]
    titles: int

    @property
    def named_features(self) -> int:
        """Number of features whose word is known."""
        return sum(word is not None for word in self.feature_names)

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
    """Union of several sources: a node has a word if it has it in any source.

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
        rule: Rule of the definition.
        source: Place of the words: ``"text"``, ``"features"`` or ``"either"``.
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
class FarthestClass:
    """The class whose counts are farthest from the paper's.

    Attributes:
        name: The class.
        distance: Sum of how far its two counts are from the paper's.
        others: Carriers in all other classes.
        others_printed: The same in the paper.
    """

    name: str
    distance: int
    others: int
    others_printed: int


@dataclass(frozen=True)
class LeakComparison:
    """All counts of one dataset.

    Attributes:
        name: The dataset.
        known: Its texts and the words of its features.
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

    @property
    def closest_to_total(self) -> Counted:
        """The definition whose total is nearest to the paper's."""
        return min(self.counts, key=lambda counted: abs(counted.table.carriers - self.totals[1]))

    @property
    def printed(self) -> Mapping[str, PublishedLeak]:
        """The paper's cells by class."""
        return published_leaks(self.name)

    @property
    def totals(self) -> tuple[int, int, float]:
        """The paper's column "Total"."""
        return published_totals(self.name)

    @property
    def farthest(self) -> FarthestClass:
        """The class in which the closest definition is farthest from the paper."""
        table = self.closest.table
        far = distances(self.name, table)
        name = max(far, key=lambda label: far[label])
        return FarthestClass(
            name=name,
            distance=far[name],
            others=sum(row.appeared for row in table.rows if row.name != name),
            others_printed=self.totals[1] - self.printed[name].appeared,
        )

    @property
    def wrong_totals(self) -> list[tuple[str, int, int]]:
        """Classes whose papers the paper counts otherwise than the data: name, its count, ours."""
        counted = {row.name: row.total for row in self.closest.table.rows}
        return [
            (label, cell.total, counted[label])
            for label, cell in self.printed.items()
            if cell.total != counted[label]
        ]

    @property
    def wrong_rates(self) -> dict[str, float]:
        """Rates in other classes, in percent, where those the paper prints do not fit its counts.

        Empty unless all of them fit a division by the papers of cora instead.
        """
        cells, usual = self.printed, published_totals("cora")[0]
        rates = {label: 100 * cell.elsewhere / self.totals[0] for label, cell in cells.items()}
        wrong = {
            label: rate
            for label, rate in rates.items()
            if abs(rate - cells[label].rate_elsewhere) > _ROUNDING
        }
        explained = all(
            abs(100 * cells[label].elsewhere / usual - cells[label].rate_elsewhere) < _ROUNDING
            for label in wrong
        )
        return wrong if explained else {}

    def cell_rows(self) -> list[list[object]]:
        """Return the paper's two tables beside the closest definition, one class a row."""
        table = self.closest.table
        ours = {row.name: row for row in table.rows}
        texts = {row.name: row.readable for row in self.of("all").table.rows}
        rows: list[list[object]] = []
        for name, cell in self.printed.items():
            row = ours[name]
            more, elsewhere = row.appeared - cell.appeared, row.elsewhere - cell.elsewhere
            rows.append(
                [
                    name.replace("_", " "),
                    cell.total,
                    row.total,
                    texts[name],
                    cell.appeared,
                    row.appeared,
                    f"{more:+d}",
                    cell.elsewhere,
                    row.elsewhere,
                    f"{elsewhere:+d}",
                ]
            )
        papers, appeared, _ = self.totals
        more = table.carriers - appeared
        total = ["total", papers, table.labelled, sum(texts.values())]
        return [*rows, [*total, appeared, table.carriers, f"{more:+d}", "", "", ""]]

    def of(self, rule: Rule, source: str = "text") -> Counted:
        """Return the counts of a definition, with names written out."""
        return next(
            counted
            for counted in self.counts
            if (counted.rule, counted.source, counted.abbreviations) == (rule, source, False)
        )


def compare_leaks(root: Path, name: str) -> LeakComparison:
    """Count label words in the data under a root, by every definition.

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
    """Return the distance of each class from the paper's two cells of it."""
    printed = published_leaks(name)
    return {
        row.name: abs(row.appeared - printed[row.name].appeared)
        + abs(row.elsewhere - printed[row.name].elsewhere)
        for row in table.rows
    }


def leak_section(root: Path) -> str:
    """Return the section in Markdown, by the template beside this file."""
    sets = [compare_leaks(root, name) for name in LEAK_SETS]
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["count"] = "{:,}".format
    template = Path(__file__).with_name("leaks.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        sets=sets,
        same_rule=len({one.closest.rule for one in sets}) == 1,
        definitions=definition_rows(sets),
        alternatives=[row for one in sets for row in alternative_rows(one)],
        published_texts=PUBLISHED_TEXTS,
        features=[feature_row(root, one) for one in sets],
    )


def definition_rows(comparisons: Sequence[LeakComparison]) -> list[list[object]]:
    """Return the total of every definition and its distance from the paper's cells."""
    labels = dict.fromkeys(str(c) for comparison in comparisons for c in comparison.counts)
    rows: list[list[object]] = []
    for label in labels:
        cells: list[object] = [label]
        for comparison in comparisons:
            same = [counted for counted in comparison.counts if str(counted) == label]
            cells += [same[0].table.carriers, same[0].distance] if same else ["", ""]
        rows.append(cells)
    printed = [(comparison.totals[1], "") for comparison in comparisons]
    return [*rows, ["the paper", *chain.from_iterable(printed)]]


def alternative_rows(comparison: LeakComparison) -> list[list[object]]:
    """Return counts of other words for a class, beside the paper's."""
    rows: list[list[object]] = []
    for label, words, own, others in comparison.alternatives:
        cell = comparison.printed[label]
        name = label.replace("_", " ")
        rows.append([name, ", ".join(words), cell.appeared, own, cell.elsewhere, others])
    return rows


def feature_row(root: Path, comparison: LeakComparison) -> list[object]:
    """Return the most predictive features of a dataset and the accuracy of simple predictors."""
    data = load(comparison.name, root, split="full", offline=True)
    names = comparison.known.feature_names
    predictive, simple = leak_findings(data, feature_names=names)[-2:]
    best = [f"{row[1] or '?'} ({100 * row[5]:.0f} %)" for row in predictive.rows[:_FEATURES]]
    # Whole percents: a regression may end one node apart on another machine.
    shares = [f"{100 * accuracy:.0f} %" for _, accuracy in simple.rows]
    return [comparison.name, predictive.numbers["found"], ", ".join(best), *shares]


def filled(page: str, section: str) -> str:
    """Return the page with the marked place filled anew."""
    if page.count(_START) != 1 or _END not in page:
        raise InputError(f"Expected a page with one place {_START.strip()} ... {_END}.")
    before, _, rest = page.partition(_START)
    return f"{before}{_START}{section}{_END}{rest.partition(_END)[2]}"


def main() -> None:
    """Fill the page, or check that it is filled."""
    paths = [word for word in sys.argv[1:] if word != "--check"]
    if len(paths) != 1:
        raise InputError("Expected the page to fill, as in: pages/leaks.py docs/audit-leaks.md")
    path = Path(paths[0])
    old = path.read_text(encoding="utf-8")
    new = filled(old, leak_section(data_root()))
    if "--check" in sys.argv:
        sys.exit(f"{path} is not what the data gives: make it anew" if new != old else 0)
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
