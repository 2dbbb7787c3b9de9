"""Findings about duplicates: counts by evidence, parts of the split, labels, similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drgcn.audit.duplicates.features import DuplicatePairs
from drgcn.audit.duplicates.groups import (
    NODES_PER_ROW,
    DuplicateGroups,
    Groups,
    connected_groups,
    find_duplicates,
)
from drgcn.audit.finding import Finding, Severity
from drgcn.audit.graph_view import PARTS, GraphView

if TYPE_CHECKING:
    from torch_geometric.data import Data

_COLUMNS = ("nodes", "parts", "labels", "evidence")
_EXAMPLES = 20
_STEPS = 20  # of similarity, from 0 to 1
_SAME = "have the same features as another node"
_NOT_JUDGED = "Not judged by features, which do not tell nodes apart: see exact duplicates."


def duplicate_findings(
    data: Data,
    texts: Sequence[str] | None = None,
    *,
    expected_false: float = 0.05,
    seed: int = 0,
    found: DuplicateGroups | None = None,
) -> list[Finding]:
    """Findings about equal features, near features, near texts, and all of them together.

    A finding is serious if a group has nodes in the training and in the test part: then the test
    asks what training has seen. Else duplicates are a warning.

    Args:
        data: One graph, or several as one. It is not changed.
        texts: One text per node, empty where there is none.
        expected_false: Expected number of false pairs in the whole dataset, at most.
        seed: Seed of the hash functions.
        found: What :func:`drgcn.audit.duplicates.groups.find_duplicates` found in the same data,
            if it was asked before.

    Raises:
        InputError: If features are not finite, or texts do not fit the nodes.
    """
    view = GraphView.of(data)
    if found is None:
        found = find_duplicates(data, texts, expected_false=expected_false, seed=seed)
    findings = [_exact(view, found), _near(view, found)]
    if found.text is not None:
        findings.append(_text(view, found))
    return [*findings, _together(view, found)]


def similarity_finding(found: DuplicateGroups) -> Finding:
    """Count pairs by similarity in steps of 0.05, for each kind of evidence with pairs.

    Many pairs far above the threshold suggest copies; counts that fall off towards it suggest
    pairs that are merely close.
    """
    kinds = [pairs for pairs in found.pairs() if len(pairs)]
    # Rounding can take a similarity past one.
    steps = [
        np.minimum((np.clip(pairs.score, 0, 1) * _STEPS).astype(np.int64), _STEPS - 1)
        for pairs in kinds
    ]
    counts = np.array([np.bincount(step, minlength=_STEPS) for step in steps])
    lowest = min((int(step.min()) for step in steps), default=_STEPS)
    total = sum(map(len, kinds))
    return Finding(
        name="similarity of the pairs",
        severity="fine",
        summary=f"{total:,} pairs of duplicates, by similarity: "
        + ", ".join(
            f"{len(pairs):,} by {pairs.evidence} (median {np.median(pairs.score):.2f})"
            for pairs in kinds
        )
        + "."
        if total
        else "No pairs of duplicates were found."
        if found.comparable
        else _NOT_JUDGED,
        definition="Similarities of the pairs that make groups of duplicates, equal features "
        f"being 1, counted from each step up to the next, {1 / _STEPS:g} further on.",
        numbers={str(pairs.evidence): len(pairs) for pairs in kinds},
        columns=("similarity from", *(str(pairs.evidence) for pairs in kinds)),
        rows=tuple(
            (round(step / _STEPS, 2), *(int(count) for count in counts[:, step]))
            for step in range(lowest, _STEPS)
        ),
    )


def _why_not_judged(found: DuplicateGroups) -> str:
    described = found.nodes - len(found.zero_rows)
    if not described:
        why = f"All {found.nodes:,} nodes have no feature but zeros: features do"
    elif found.one_hot:
        why = f"Each of {described:,} nodes has one feature, which no other node has: features do"
    else:
        rows = "1 distinct row" if found.distinct == 1 else f"{found.distinct:,} distinct rows"
        why = f"{described:,} nodes have only {rows} of features: these do"
    return f"{why} not tell which nodes are alike, so duplicates cannot be judged from them."


def _exact(view: GraphView, found: DuplicateGroups) -> Finding:
    groups = found.groups("exact features")
    chance = len(np.unique(found.by_chance.nodes))
    finding = _finding(
        view,
        found,
        "exact duplicates",
        _SAME,
        "Rows of the feature matrix that are equal in every entry (float32), unless a row is so "
        "short or so frequent that more than the stated number of equal pairs is expected by "
        f"chance ({chance:,} such nodes here, in no group). Rows of zeros are not counted. "
        f"Nothing is judged where a row stands for {NODES_PER_ROW} nodes or more on average.",
        groups,
        {
            "rows of zeros": len(found.zero_rows),
            "nodes equal to another as chance may have it": chance,
            "expected false pairs": found.near.expected_false,
            "distinct rows": found.distinct,
        },
    )
    if not found.comparable:
        severity: Severity = "note" if found.one_hot else "warning"
        return replace(finding, severity=severity, summary=_why_not_judged(found))
    if groups or not chance:
        return finding
    return replace(
        finding,
        summary=f"No nodes {_SAME} beyond chance; {chance:,} nodes {_SAME}, but in rows so short "
        "or so frequent that chance may have it.",
    )


def _near(view: GraphView, found: DuplicateGroups) -> Finding:
    near = found.near
    finding = _finding(
        view,
        found,
        "near duplicates",
        f"have nearly the features of another ({near.similarity} {near.threshold:.3f} or more)",
        f"Pairs of different rows with a {near.similarity} similarity of at least "
        f"{near.threshold:.3f}. With columns permuted independently, at most "
        f"{near.expected_false:g} pairs of the whole dataset are expected to reach "
        f"{near.null_quantile:.3f}. Versions of one text and texts with one beginning are among "
        "them: read them before merging.",
        connected_groups(near.pairs.nodes, view.nodes),
        {
            "threshold": _plain(near.threshold),
            "null quantile": _plain(near.null_quantile),
            "expected false pairs": near.expected_false,
        },
    )
    if not found.comparable:
        return replace(finding, severity="note", summary=_NOT_JUDGED)
    if near.threshold > 1:
        return replace(
            finding,
            severity="note",
            summary="Not judged: rows are so short that chance may have any similarity of two.",
            definition=f"Pairs of different rows with a {near.similarity} similarity that, with "
            f"columns permuted independently, at most {near.expected_false:g} pairs of the whole "
            "dataset are expected to reach. Here every similarity can be reached by more.",
        )
    return finding


def _text(view: GraphView, found: DuplicateGroups) -> Finding:
    text = found.text
    assert text is not None
    return _finding(
        view,
        found,
        "text duplicates",
        "have nearly the text of another",
        f"Pairs of texts with a Jaccard similarity of their words of at least "
        f"{text.threshold:.3f}, or titles alike but for some letters, that share more words than "
        f"chance gives them (at most {text.expected_false:g} false pairs expected in the whole "
        f"dataset). {text.texts:,} of {view.nodes:,} nodes have a text.",
        connected_groups(text.pairs.nodes, view.nodes),
        {
            "texts": text.texts,
            "threshold": _plain(text.threshold),
            "null quantile": _plain(text.null_quantile),
            "expected false pairs": text.expected_false,
        },
    )


def _together(view: GraphView, found: DuplicateGroups) -> Finding:
    groups = found.groups()
    pairs = [tuple(pair) for kind in found.pairs() for pair in kind.nodes.tolist()]
    twins = {tuple(pair) for pair in found.twins.nodes.tolist()}
    finding = _finding(
        view,
        found,
        "duplicate groups",
        "are in a group of duplicates",
        "Sets of nodes connected by pairs of equal features, near features or near texts. A group "
        "straddles if it has nodes in two parts of the split; its labels conflict if two that are "
        "known differ. Twins have the same two or more neighbours: a sign, and no proof.",
        groups,
        {
            "pairs": len(set(pairs)),
            "pairs that are twins": len(set(pairs) & twins),
            "twins in the graph": len(twins),
        },
    )
    if groups or found.comparable:
        return finding
    return replace(finding, severity="note", summary=_NOT_JUDGED)


def _finding(
    view: GraphView,
    found: DuplicateGroups,
    name: str,
    words: str,
    definition: str,
    groups: Groups,
    numbers: dict[str, Any],
) -> Finding:
    both = straddling(view, groups, "train", "test")
    conflicts = label_conflicts(view, groups)
    nodes = sum(map(len, groups))
    severity: Severity = "serious" if both else "warning" if groups else "fine"
    summary = (
        f"{nodes:,} nodes {words}: {len(groups):,} groups, of which {len(both):,} have nodes to "
        f"train and to test, and {len(conflicts):,} labels that differ."
        if groups
        else f"No nodes {words}."
    )
    counts = {
        "groups": len(groups),
        "nodes": nodes,
        "copies": nodes - len(groups),
        "groups in train and test": len(both),
        "groups in two parts or more": len(_in_two_parts(view, groups)),
        "groups with different labels": len(conflicts),
    }
    # Groups in train and test come first: they matter most.
    shown = [*both, *(group for group in groups if group not in set(both))][:_EXAMPLES]
    return Finding(
        name=name,
        severity=severity,
        summary=summary,
        definition=definition,
        numbers=counts | numbers,
        columns=_COLUMNS,
        rows=tuple(_group_row(view, found, group) for group in shown),
    )


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def straddling(view: GraphView, groups: Groups, *parts: str) -> Groups:
    """Return the groups with a node in each of some parts of the split."""
    masks = [view.mask(part) for part in parts]
    return tuple(group for group in groups if all(mask[list(group)].any() for mask in masks))


def label_conflicts(view: GraphView, groups: Groups) -> Groups:
    """Return the groups whose known labels differ."""
    conflicting = []
    for group in groups:
        members = [node for node in group if view.known[node]]
        if len(np.unique(view.y[members], axis=0)) > 1:
            conflicting.append(group)
    return tuple(conflicting)


def _in_two_parts(view: GraphView, groups: Groups) -> set[tuple[int, ...]]:
    """Return the groups with nodes in two parts of the split or more."""
    return {
        group
        for number, first in enumerate(PARTS)
        for second in PARTS[number + 1 :]
        for group in straddling(view, groups, first, second)
    }


def _group_row(view: GraphView, found: DuplicateGroups, group: tuple[int, ...]) -> tuple[Any, ...]:
    """The cells of a group below :data:`_COLUMNS`."""
    parts = ["/".join(part for part in PARTS if view.mask(part)[node]) or "none" for node in group]
    names = [_label(view, node) for node in group]
    return (
        " ".join(map(str, group)),
        " ".join(parts),
        ", ".join(names),
        ", ".join(map(_evidence, _kinds(found, group))),
    )


def _kinds(found: DuplicateGroups, group: tuple[int, ...]) -> list[DuplicatePairs]:
    inside = [pairs.within(group) for pairs in (*found.pairs(), found.twins)]
    return [pairs for pairs in inside if len(pairs)]


def _evidence(pairs: DuplicatePairs) -> str:
    if pairs.evidence == "exact features":
        return "equal features"
    if pairs.evidence == "structure":
        return "same neighbours"
    low, high = pairs.score.min(), pairs.score.max()
    return f"{pairs.evidence} {low:.2f}" + (f" to {high:.2f}" if high - low > 0.005 else "")


def _label(view: GraphView, node: int) -> str:
    if not view.known[node]:
        return "unknown"
    if view.y.ndim == 2:
        return " ".join(view.class_names[label] for label in np.flatnonzero(view.y[node]))
    return view.class_names[view.y[node]]
