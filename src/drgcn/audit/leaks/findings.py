"""Findings about label leaks: class names in texts and features, single features, predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from drgcn.audit.finding import Finding, Severity
from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.features import predictive_finding
from drgcn.audit.leaks.predictors import predictor_finding
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
)
from drgcn.audit.texts import NodeTexts
from drgcn.data.splits import AnyLabels
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Flags = npt.NDArray[np.bool_]

_EXCESS: Final = 0.05
_SURPRISING: Final = 4.0
_NAMED: Final = 5
_DEFINITION: Final = (
    "A node carries its label if {where} all words of its class's name (stemmed; or the name "
    'written as one word). "Any" asks for one of the words, "in order" for the words one after '
    "the other. Elsewhere: labelled nodes of other classes with the same words. A warning if the "
    f"nodes that carry their label exceed by {100 * _EXCESS:.0f} % of all what the rate in other "
    f"classes would give, and by {_SURPRISING:g} deviations what shuffled labels would give."
)


def leak_findings(
    data: Data,
    texts: Sequence[str | None] | NodeTexts | None = None,
    feature_names: Sequence[str | None] | None = None,
    class_names: Sequence[str] | None = None,
    *,
    expansions: Expansions = ABBREVIATIONS,
    labels: Literal["all", "train"] = "all",
    seed: int = 0,
) -> list[Finding]:
    """Check texts and features for labels, and how well simple predictors do.

    Args:
        data: A graph with ``x``, ``edge_index``, ``y``, and masks if there is a split. It is not
            changed.
        texts: One text per node, empty or ``None`` where there is none.
        feature_names: One word per feature column, ``None`` where it is not known.
        class_names: One name per class; those that :func:`drgcn.load` wrote down if not given.
        expansions: Class names that are written out before they are looked for.
        labels: Whose labels the test of single features may see. With ``"train"``, what it finds
            may be used to choose features.
        seed: Seed of the permutations.

    Returns:
        Label words in texts (if there are texts), label words among features (if they have
        names), features that give the class away, and simple predictors.
    """
    if labels not in ("all", "train"):
        raise InputError(f"Expected labels to be 'all' or 'train'; found {labels!r}.")
    view = GraphView.of(data)
    names = list(view.class_names if class_names is None else class_names)
    findings = []
    if texts is not None:
        given = texts.texts if isinstance(texts, NodeTexts) else texts
        words = TextIndex(given, view.nodes)
        findings.append(
            word_leak_finding(
                "label words in texts", "its text has", words, view.y, names, expansions
            )
        )
    label_columns: list[int] = []
    if feature_names is not None:
        named = FeatureWords(view.x, feature_names)
        stems = set().union(*(LabelWords.of(name, expansions).stems for name in names))
        label_columns = sorted({column for stem in stems for column in named.columns(stem)})
        findings.append(
            word_leak_finding(
                "label words among features",
                "its features that are not zero have, among the columns whose word is known,",
                named,
                view.y,
                names,
                expansions,
            )
        )
    findings.append(predictive_finding(view, names, feature_names, label_columns, labels, seed))
    findings.append(predictor_finding(view, label_columns))
    return findings


def word_leak_finding(
    name: str,
    where: str,
    source: WordSource,
    y: AnyLabels,
    class_names: Sequence[str],
    expansions: Expansions = ABBREVIATIONS,
) -> Finding:
    """Count class names among the words of the nodes, by all three rules.

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
    counted = [f"{RULE_NAMES[rule]}{where}" for rule in RULES for where in ("", " elsewhere")]
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
        columns=("class", "words", "nodes", "with words", *counted),
        rows=_rows(tables),
    )


def _severity(table: LabelWordTable) -> Severity:
    if not table.rows:
        return "note"
    if table.excess >= _EXCESS and table.surprise >= _SURPRISING:
        return "warning"
    return "note" if table.carriers else "fine"


def _rows(tables: dict[Rule, LabelWordTable]) -> tuple[tuple[str | int, ...], ...]:
    rows = []
    for same in zip(*(table.rows for table in tables.values()), strict=True):
        counts = [count for row in same for count in (row.appeared, row.elsewhere)]
        rows.append((same[0].name, same[0].words, same[0].total, same[0].readable, *counts))
    return tuple(rows)


@dataclass(frozen=True)
class LabelWordRow:
    """Counts of one class.

    Attributes:
        name: The class as the data calls it.
        words: What was looked for.
        total: Nodes of the class.
        readable: Those of them of which any words are known.
        appeared: Those of them that carry the name of their class.
        others: Labelled nodes of other classes.
        elsewhere: Those of them that carry the name all the same.
    """

    name: str
    words: str
    total: int
    readable: int
    appeared: int
    others: int
    elsewhere: int

    @property
    def rate(self) -> float:
        """Share of the class that carries its name; nodes without words count as not."""
        return self.appeared / self.total if self.total else 0.0

    @property
    def rate_elsewhere(self) -> float:
        """Share of the nodes of other classes that carry the name."""
        return self.elsewhere / self.others if self.others else 0.0


@dataclass(frozen=True)
class LabelWordTable:
    """Counts of nodes that carry the name of their class.

    Attributes:
        rule: Rule of :meth:`drgcn.audit.leaks.words.LabelWords.found`.
        rows: One per class whose name has words.
        skipped: Names of the other classes.
        carriers: Nodes that carry the name of (one of) their class(es).
        labelled: Nodes with a label.
        expected: Mean of the sum of all ``appeared`` if labels were shuffled among the nodes.
        deviation: Its standard deviation.
    """

    rule: Rule
    rows: tuple[LabelWordRow, ...]
    skipped: tuple[str, ...]
    carriers: int
    labelled: int
    expected: float
    deviation: float

    @property
    def rate(self) -> float:
        """Share of the labelled nodes that carry the name of their class."""
        return self.carriers / self.labelled if self.labelled else 0.0

    @property
    def excess(self) -> float:
        """Share of carriers beyond those expected, were the rate that of other classes."""
        more = sum(row.appeared - row.rate_elsewhere * row.total for row in self.rows)
        return more / self.labelled if self.labelled else 0.0

    @property
    def surprise(self) -> float:
        """Carriers above the mean of shuffled labels, in standard deviations."""
        more = sum(row.appeared for row in self.rows) - self.expected
        return more / self.deviation if self.deviation > 0 else 0.0


def label_word_table(
    source: WordSource,
    y: AnyLabels,
    class_names: Sequence[str],
    rule: Rule = "all",
    expansions: Expansions = ABBREVIATIONS,
) -> LabelWordTable:
    """Count the nodes that carry their own class's name, and those that carry another's.

    Args:
        source: The words of the nodes.
        y: Class numbers, -1 where there is none, or zeros and ones for several labels a node.
        class_names: One name per class, in the order of their numbers.
        rule: What counts: all words of a name, any word, or the phrase.
        expansions: Names that are written out before they are looked for.

    Raises:
        InputError: If names and labels do not fit each other.
    """
    members = _members(y, class_names, len(source.readable))
    known = members.any(axis=1) if y.ndim == 1 else np.ones(len(members), dtype=np.bool_)
    readable = source.readable
    carriers = np.zeros_like(known)
    rows, skipped, carried = [], [], np.zeros(members.shape, dtype=np.bool_)
    for number, name in enumerate(class_names):
        words = LabelWords.of(name, expansions)
        if not words.forms:
            skipped.append(name)
            continue
        own, found = members[:, number], words.found(source, rule)
        carriers |= own & found
        carried[:, number] = found
        rows.append(
            LabelWordRow(
                name=name,
                words=str(words),
                total=int(own.sum()),
                readable=int((own & readable).sum()),
                appeared=int((own & found).sum()),
                others=int((known & ~own).sum()),
                elsewhere=int((known & ~own & found).sum()),
            )
        )
    expected, deviation = _shuffled(carried[known], members[known])
    return LabelWordTable(
        rule=rule,
        rows=tuple(rows),
        skipped=tuple(skipped),
        carriers=int(carriers.sum()),
        labelled=int(known.sum()),
        expected=expected,
        deviation=deviation,
    )


def _shuffled(carried: Flags, members: Flags) -> tuple[float, float]:
    """Return mean and deviation of the count of own names when labels are shuffled.

    The sum over nodes v of a(v, p(v)), p a random permutation, has the variance of all doubly
    centred a(v, w), summed in squares and divided by n - 1 (Hoeffding).
    """
    nodes = len(carried)
    if nodes < 2:
        return float((carried & members).sum()), 0.0
    mean = carried.mean(axis=0), members.mean(axis=0)
    f, y = carried - mean[0], members - mean[1]
    variance = float(((f.T @ f) * (y.T @ y)).sum()) / (nodes - 1)
    return float(nodes * mean[0] @ mean[1]), max(variance, 0.0) ** 0.5


def _members(y: AnyLabels, class_names: Sequence[str], nodes: int) -> Flags:
    """Return flags ``[nodes, classes]``: the classes of each node."""
    if isinstance(class_names, str):
        raise InputError("Expected one name per class; found a single string. Give a list.")
    if len(y) != nodes:
        raise InputError(f"Expected labels of {nodes} nodes, those with words; found {len(y)}.")
    classes = y.shape[1] if y.ndim == 2 else int(y.max(initial=-1)) + 1
    if len(class_names) < classes or (y.ndim == 2 and len(class_names) != classes):
        raise InputError(
            f"Expected a name for each of {classes} classes; found {len(class_names)}. Give an "
            "empty name to a class that has none."
        )
    if y.ndim == 2:
        return np.asarray(y != 0)
    return np.asarray(y[:, None] == np.arange(len(class_names)))
