"""Whether labels leak into what a model sees: words, single features, and how far these get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.class_names import word_leak_finding
from drgcn.audit.leaks.features import telling_finding
from drgcn.audit.leaks.predictors import predictor_finding
from drgcn.audit.leaks.words import ABBREVIATIONS, Expansions, FeatureWords, LabelWords, TextIndex
from drgcn.audit.texts import NodeTexts
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
    """Look for labels in texts and features.

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
    told_columns: list[int] = []
    if feature_names is not None:
        named = FeatureWords(view.x, feature_names)
        stems = set().union(*(LabelWords.of(name, expansions).stems for name in names))
        told_columns = sorted({column for stem in stems for column in named.columns(stem)})
        findings.append(
            word_leak_finding(
                "label words among features",
                "its features that are not zero have, among the columns whose word is known,",
                *(named, view.y, names, expansions),
            )
        )
    findings.append(telling_finding(view, names, feature_names, told_columns, labels, seed))
    findings.append(predictor_finding(view, told_columns))
    return findings
