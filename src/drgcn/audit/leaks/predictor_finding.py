"""What simple predictors reach, as a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.baselines import Baselines, baselines
from drgcn.audit.not_done import not_done
from drgcn.errors import InputError

_TOO_EASY: Final = 0.99


def predictor_finding(view: GraphView, label_columns: Sequence[int] = ()) -> Finding:
    """How well they do on the test nodes, as context for everything else.

    Args:
        view: The graph.
        label_columns: Columns that are named after a word of a class name; if there are any, the
            features are tried without them too.
    """
    name = "simple predictors"
    try:
        result = baselines(view)
        without = baselines(view, label_columns) if label_columns else None
    except InputError as error:
        return not_done(name, error)
    rows = [
        ("majority class", result.majority),
        ("neighbours' labels alone", result.neighbours),
        ("features alone", result.features),
    ]
    if without is not None:
        rows.append(("features alone, without label words", without.features))
    return Finding(
        name=name,
        severity="warning" if _easiest(result) >= _TOO_EASY else "note",
        summary=f"Of {result.test:,} test nodes, the majority class is right for "
        f"{100 * result.majority:.1f} %, training neighbours alone for "
        f"{100 * result.neighbours:.1f} %, features alone for {100 * result.features:.1f} %"
        + ("." if without is None else f", without label words {100 * without.features:.1f} %."),
        definition="Accuracy on the test nodes of: the most frequent class of the training nodes; "
        "the most frequent class of a node's training neighbours (the majority where it has "
        "none); logistic regression on the features, C chosen on validation. A warning if one "
        "of them "
        f"reaches {100 * _TOO_EASY:.0f} %.",
        numbers={
            **dict(rows),
            "test nodes with a training neighbour": result.reached,
            "C": result.strength,
            "test nodes": result.test,
            "label word columns": len(label_columns),
        },
        columns=("predictor", "accuracy"),
        rows=tuple(rows),
    )


def _easiest(result: Baselines) -> float:
    return max(result.majority, result.neighbours, result.features)
