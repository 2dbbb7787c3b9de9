"""Scores without a graph model: features alone, neighbours alone, the same thing in training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.finding import Finding, not_done
from drgcn.audit.graph_view import PARTS, GraphView, is_finite
from drgcn.data.features import Features
from drgcn.data.splits import AnyLabels, Labels, Mask
from drgcn.errors import InputError

STRENGTHS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_WITHOUT_VALIDATION: Final = 1.0
_TOO_EASY: Final = 0.99
_LOOKUP_DEFINITION: Final = (
    "Nodes with one identity are the same thing. The look-up table answers with the labels that "
    "more than half of the training nodes of the same thing have (of classes, with the commonest, "
    "the first of equals); for a thing that is not in training, with what more than half of all "
    "training nodes have (the commonest class), which is also the answer of the majority. Nodes "
    "whose identity is not known are things of their own. Serious if test nodes are the same "
    "thing as training nodes and the table does better on them than the majority."
)


def predictor_finding(view: GraphView, label_columns: Sequence[int] = ()) -> Finding:
    """Report the test accuracy of simple predictors, as context for the other findings.

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
    easiest = max(result.majority, result.neighbours, result.features)
    rows = [
        ("majority class", result.majority),
        ("neighbours' labels alone", result.neighbours),
        ("features alone", result.features),
    ]
    if without is not None:
        rows.append(("features alone, without label words", without.features))
    return Finding(
        name=name,
        severity="warning" if easiest >= _TOO_EASY else "note",
        summary=f"Of {result.test:,} test nodes, the majority class of the "
        f"training nodes is right for "
        f"{100 * result.majority:.1f} %, training neighbours alone for "
        f"{100 * result.neighbours:.1f} %, features alone for {100 * result.features:.1f} %"
        + ("." if without is None else f", without label words {100 * without.features:.1f} %."),
        definition="Accuracy on the test nodes of: the most frequent class of the training nodes; "
        "the most frequent class of a node's training neighbours (the majority where it has "
        "none); logistic regression on the features, C chosen on validation. A warning if one "
        f"of them reaches {100 * _TOO_EASY:.0f} %.",
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


@dataclass(frozen=True)
class Baselines:
    """Test accuracy of three simple predictors.

    Attributes:
        majority: The most frequent class of the training nodes, always.
        features: Logistic regression on the features alone.
        neighbours: The most frequent class of a node's training neighbours; the majority where
            it has none.
        reached: Share of test nodes with a training neighbour.
        strength: ``C`` of the regression, chosen on validation.
        test: Number of test nodes.
    """

    majority: float
    features: float
    neighbours: float
    reached: float
    strength: float
    test: int


def baselines(view: GraphView, leave_out: Sequence[int] = ()) -> Baselines:
    """Train on the training nodes, choose on the validation nodes, and count on the test nodes.

    Columns that are mostly zero, as word counts are, are divided by one number, the root mean
    square of their training entries that are not zero; any other by its own deviation in
    training. ``C`` is the one of :data:`STRENGTHS` with the highest validation accuracy, the
    smallest of equals; 1 without validation nodes.

    Args:
        view: A graph with a training and a test part, one class a node.
        leave_out: Feature columns that the regression must not see.

    Raises:
        InputError: If labels, parts or features do not allow it.
    """
    train, val, test = _parts(view)
    y = view.y.astype(np.int64)
    counts = np.bincount(y[train])
    guess = int(counts.argmax())
    strength, predicted = _regression(view.x, y, train, val, test, leave_out)
    votes = _votes(view.pairs, y, train)
    reached = np.asarray(votes.any(axis=1))
    voted = np.where(reached, votes.argmax(axis=1), guess)
    truth = y[test]
    return Baselines(
        majority=float((truth == guess).mean()),
        features=float((truth == predicted).mean()),
        neighbours=float((truth == voted[test]).mean()),
        reached=float(reached[test].mean()),
        strength=strength,
        test=len(truth),
    )


def _parts(view: GraphView) -> tuple[Mask, Mask, Mask]:
    if view.y.ndim == 2:
        raise InputError("Expected one class a node; found several labels a node.")
    train, val, test = (view.mask(part) & view.known for part in ("train", "val", "test"))
    classes = len(np.unique(view.y[train]))
    if classes < 2 or not test.any():
        raise InputError(
            f"Expected training nodes of at least 2 classes and test nodes; found {classes} "
            f"classes and {int(test.sum())} test nodes. Give a split."
        )
    if not is_finite(view.x):
        raise InputError("Expected finite features; found NaN or infinity. Replace them first.")
    return train, val, test


def _regression(
    x: Features, y: Labels, train: Mask, val: Mask, test: Mask, leave_out: Sequence[int]
) -> tuple[float, Labels]:
    """Return the strength chosen, and the classes predicted for the test nodes."""
    kept = np.setdiff1d(np.arange(x.shape[1]), np.asarray(leave_out, dtype=np.int64))
    if not len(kept):
        return _WITHOUT_VALIDATION, np.full(test.sum(), np.bincount(y[train]).argmax())
    columns = sparse.csr_array(x)[:, kept].astype(np.float64)
    scaled = columns @ sparse.diags_array(_scale(columns[train]), format="csr")
    # Where little is zero, plain arrays are quicker.
    scaled = scaled if 4 * scaled.nnz < np.prod(scaled.shape) else scaled.toarray()
    best: tuple[float, float, Any] | None = None
    for strength in STRENGTHS if val.any() else (_WITHOUT_VALIDATION,):
        model = _fitted(scaled[train], y[train], strength)
        score = float((model.predict(scaled[val]) == y[val]).mean()) if val.any() else 0.0
        if best is None or score > best[0]:
            best = (score, strength, model)
    assert best is not None
    return best[1], best[2].predict(scaled[test])


def _scale(known: sparse.csr_array) -> npt.NDArray[np.float64]:
    """One over the scale of each column, zero for a column that is zero in training."""
    filled = np.bincount(known.indices[known.data != 0], minlength=known.shape[1])
    square = np.asarray(known.multiply(known).sum(axis=0)).ravel()
    mean = np.asarray(known.sum(axis=0)).ravel() / known.shape[0]
    few = 2 * filled <= known.shape[0]
    common = square[few].sum() / max(filled[few].sum(), 1)
    variance = np.where(few, common, np.maximum(square / known.shape[0] - mean**2, 0.0))
    # What rounding leaves of a constant column is no deviation.
    varies = (filled > 0) & (variance > 1e-12 * np.maximum(mean**2, 1e-300))
    return np.divide(1.0, np.sqrt(variance), out=np.zeros(len(filled)), where=varies)


def _fitted(x: Features, y: Labels, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # The last digits of a weight change no accuracy worth naming.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, max_iter=500).fit(x, y)


def _votes(pairs: npt.NDArray[np.int64], y: Labels, train: Mask) -> npt.NDArray[np.float64]:
    """Count the training neighbours of each class for every node."""
    source, target = pairs
    # Its own label is what is to be guessed.
    counted = train[source] & (source != target)
    votes = np.zeros((len(y), int(y.max()) + 1))
    np.add.at(votes, (target[counted], y[source[counted]]), 1.0)
    return votes


def lookup_finding(view: GraphView, printed: Mapping[str, float] | None = None) -> Finding:
    """Count nodes that are the same thing as a training node, and score a table of its labels.

    Args:
        view: A graph whose nodes have an identity.
        printed: Scores that others print for this task, by name, to stand beside.
    """
    name = "the same thing in training"
    try:
        parts, metric = lookup_scores(view)
    except InputError as error:
        return not_done(name, error)
    test = parts["test"]
    rows = [("look-up table of training labels", test.table), ("the majority", test.majority)]
    if test.seen:
        rows.append(("look-up table, things in training", test.table_on_seen))
        rows.append(("look-up table, other things", test.table_on_others))
    rows += list((printed or {}).items())
    shared = sum(one.seen for one in parts.values())
    better = (test.table_on_seen or 0.0) > (test.majority_on_seen or 0.0)
    return Finding(
        name=name,
        severity="serious" if better else "warning" if shared else "fine",
        summary=_lookup_words(parts, metric, printed or {})
        if shared
        else f"No validation or test node is the same thing as a training node; the majority "
        f"reaches {metric} {_percent(test.majority)} on the test nodes.",
        definition=_LOOKUP_DEFINITION,
        numbers={
            "metric": metric,
            **_thing_counts(view),
            **{
                f"{part}: {key}": value
                for part, one in parts.items()
                for key, value in one.numbers.items()
            },
        },
        columns=("predictor", metric),
        rows=tuple(rows),
    )


def _lookup_words(
    parts: Mapping[str, LookupScores], metric: str, printed: Mapping[str, float]
) -> str:
    counted = ", ".join(
        f"{one.seen:,} of {one.nodes:,} {part} nodes ({one.seen / max(one.nodes, 1):.1%})"
        for part, one in parts.items()
    )
    test = parts["test"]
    beside = ", ".join(f"{model} {_percent(score)}" for model, score in printed.items())
    return (
        f"{counted} are the same thing as a training node. A look-up table of training labels "
        f"reaches {metric} {_percent(test.table)} on the test nodes: "
        f"{_percent(test.table_on_seen)} on those, {_percent(test.table_on_others)} on the "
        f"others; the majority {_percent(test.majority)}."
    ) + (f" Printed: {beside}." if beside else "")


def _thing_counts(view: GraphView) -> dict[str, int]:
    """Count different things, and those whose labelled nodes do not all have the same labels."""
    things = _things(view)
    labelled, y = things[view.known], view.y[view.known]
    _, first, thing = np.unique(labelled, return_index=True, return_inverse=True)
    differs = y != y[first][thing]
    differing = thing[differs.any(axis=1) if y.ndim == 2 else differs]
    return {
        "things": len(np.unique(things)),
        "things with different labels": len(np.unique(differing)),
    }


@dataclass(frozen=True)
class LookupScores:
    """Scores of a look-up table of training labels on one part; ``None`` on no nodes.

    Attributes:
        nodes: Labelled nodes of the part.
        seen: Those of them that are the same thing as a training node.
        table: Score of the table.
        table_on_seen: The same, on the nodes seen alone.
        table_on_others: The same, on the others.
        majority: Score of the majority's answer.
        majority_on_seen: The same, on the nodes seen alone.
    """

    nodes: int
    seen: int
    table: float | None
    table_on_seen: float | None
    table_on_others: float | None
    majority: float | None
    majority_on_seen: float | None

    @property
    def numbers(self) -> dict[str, int | float | None]:
        """The numbers by words."""
        return {
            "nodes": self.nodes,
            "same thing as a training node": self.seen,
            "look-up table": self.table,
            "look-up table on these": self.table_on_seen,
            "look-up table on the others": self.table_on_others,
            "majority": self.majority,
            "majority on these": self.majority_on_seen,
        }


def lookup_scores(view: GraphView) -> tuple[dict[str, LookupScores], str]:
    """Score a table of the training labels of each thing on validation and test nodes.

    Returns:
        Scores by part, and the metric: ``accuracy``, or ``micro-F1`` for several labels a node.

    Raises:
        InputError: If nodes have no identity or labels, or there is no training part.
    """
    if view.identity is None:
        raise InputError("Expected an identity of each node; found none.")
    several = view.y.ndim == 2
    if several and not np.isin(view.y[view.known], (0, 1)).all():
        raise InputError("Expected classes or labels; found measured values.")
    train = view.mask("train") & view.known
    if not train.any():
        raise InputError("Expected training nodes with labels; found none. Give a split.")
    # One column a class: a thing's commonest class is the largest share of its training nodes.
    y = view.y if several else view.y[:, None] == np.arange(len(view.class_names))
    things, thing = np.unique(_things(view), return_inverse=True)
    trained = np.flatnonzero(train)
    member = sparse.csr_array(
        (np.ones(len(trained)), (thing[trained], trained)), shape=(len(things), view.nodes)
    )
    counts = np.diff(member.indptr)
    prior = y[train].mean(axis=0)
    sums = member @ y.astype(np.float64)
    shares = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], prior)
    told = (shares > 0.5).astype(np.float64) if several else shares.argmax(axis=1)
    usual = (prior > 0.5).astype(np.float64) if several else prior.argmax()
    answers = told[thing]
    majority = np.broadcast_to(usual, answers.shape)
    score = _micro_f1 if several else _accuracy
    found = {}
    for part in PARTS[1:]:
        asked = view.mask(part) & view.known
        seen = asked & (counts[thing] > 0)
        found[part] = LookupScores(
            nodes=int(asked.sum()),
            seen=int(seen.sum()),
            table=score(answers[asked], view.y[asked]),
            table_on_seen=score(answers[seen], view.y[seen]),
            table_on_others=score(answers[asked & ~seen], view.y[asked & ~seen]),
            majority=score(majority[asked], view.y[asked]),
            majority_on_seen=score(majority[seen], view.y[seen]),
        )
    return found, "micro-F1" if several else "accuracy"


def _things(view: GraphView) -> npt.NDArray[np.int64]:
    """Return a number a node, its own where its identity is not known."""
    assert view.identity is not None
    known = view.identity != -1
    _, numbers = np.unique(view.identity, return_inverse=True)
    return np.where(known, numbers, view.nodes + np.arange(view.nodes))


def _accuracy(answers: npt.NDArray[Any], truth: AnyLabels) -> float | None:
    return float((answers == truth).mean()) if len(truth) else None


def _micro_f1(answers: npt.NDArray[Any], truth: AnyLabels) -> float | None:
    """Return twice the hits among all that is answered and all that is true."""
    whole = float(answers.sum() + truth.sum(dtype=np.float64))
    return 2 * float((answers * truth).sum()) / whole if whole else None


def _percent(score: float | None) -> str:
    return "-" if score is None else f"{100 * score:.2f} %"
