"""Features that give the class away, as a finding."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from drgcn.audit.finding import Finding, Severity
from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.telling_features import TellingFeatures, telling_features
from drgcn.audit.not_done import not_done
from drgcn.errors import InputError

_SHOWN: Final = 20
# How much of whether a node is of a class a feature must settle to be more than a note: less if
# it is a word of a class name, since a strong feature need not be a leak.
_LABEL_WORD: Final = 0.25
_WARNING: Final = 0.8
_SERIOUS: Final = 0.95


def telling_finding(
    view: GraphView,
    class_names: Sequence[str],
    feature_names: Sequence[str | None] | None = None,
    label_columns: Collection[int] = (),
    labels: Literal["all", "train"] = "all",
    seed: int = 0,
) -> Finding:
    """Test every feature, and show the most telling ones.

    Args:
        view: The graph.
        class_names: One name per class.
        feature_names: One word per column, if they are known.
        label_columns: Columns that are named after a word of a class name.
        labels: Whose labels may be seen.
        seed: Seed of the permutations.
    """
    name = "features that give the class away"
    mask = view.mask("train") if labels == "train" else None
    try:
        result = telling_features(view.x, view.y, mask, seed=seed)  # type: ignore[arg-type]
    except InputError as error:
        return not_done(name, error)
    strongest = result.found[0] if result.found else None
    summary = "No feature says more of the class than chance."
    if strongest is not None:
        word = feature_names[strongest.column] if feature_names is not None else None
        summary = (
            f"{len(result.found):,} of {len(result.information):,} features say more of the class "
            f"than chance; column {strongest.column}{f' ({word})' if word else ''} alone settles "
            f"{100 * strongest.share:.0f} % of whether a node is "
            f"{_class_name(class_names, strongest.label)}."
        )
    seen = "training nodes" if labels == "train" else "all labelled nodes"
    return Finding(
        name=name,
        severity=_severity(result, label_columns),
        summary=summary,
        definition="Mutual information of each feature (zero or not, or cut into groups) with the "
        f"class over {seen}, against the largest of all features when labels are "
        f"shuffled {result.permutations} times: the chance of any false alarm is at most "
        f"{result.rate:g}. A feature may say much because it is good, not because it leaks: look "
        f"at the words. A warning if it settles {100 * _WARNING:.0f} % of whether a node is of a "
        f"class, {100 * _LABEL_WORD:.0f} % for a word of a class name; serious from "
        f"{100 * _SERIOUS:.0f} % on.",
        numbers={
            "found": len(result.found),
            "features": len(result.information),
            "threshold in bits": result.threshold,
            "entropy of the class in bits": result.entropy,
            "rate of false alarms": result.rate,
            "permutations": result.permutations,
            "nodes": result.nodes,
            "labels": labels,
        },
        columns=("column", "word", "label word", "bits", "class", "share", "precision", "recall"),
        rows=tuple(
            (
                feature.column,
                (feature_names[feature.column] or "") if feature_names is not None else "",
                feature.column in label_columns,
                round(feature.information, 4),
                _class_name(class_names, feature.label),
                *(round(feature.share, 4), round(feature.precision, 4), round(feature.recall, 4)),
            )
            for feature in result.found[:_SHOWN]
        ),
    )


def _severity(result: TellingFeatures, label_columns: Collection[int]) -> Severity:
    if any(feature.share >= _SERIOUS for feature in result.found):
        return "serious"
    for feature in result.found:
        if feature.share >= (_LABEL_WORD if feature.column in label_columns else _WARNING):
            return "warning"
    return "note" if result.found else "fine"


def _class_name(names: Sequence[str], label: int) -> str:
    return names[label] if label < len(names) else str(label)
