"""Whether a split can be trusted: parts that overlap or are empty, classes that are missing."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from drgcn.audit.duplicates.exposure import exposure_finding
from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import PARTS, GraphView
from drgcn.audit.hygiene.homophily import homophily_finding

if TYPE_CHECKING:
    from torch_geometric.data import Data

# A class whose share of the training nodes is this far from its share of the test nodes.
_SHIFT = 0.1
# A class this large in the test makes accuracy say little.
_DOMINANT = 0.75


def split_findings(data: Data) -> list[Finding]:
    """Overlaps, empty parts, classes by part, missing labels, exposure of the test, homophily.

    Args:
        data: One graph, or several as one (``data.graph``). It is not changed.
    """
    view = GraphView.of(data)
    findings = [_parts(view), _overlap(view), _unlabelled(view)]
    if view.known.any():
        counts = class_counts(view)
        findings += [_balance(view, counts), _missing(view, counts)]
    findings += [exposure_finding(view)]
    if view.known.any():
        findings += [homophily_finding(view)]
    return findings


def class_counts(view: GraphView) -> dict[str, npt.NDArray[np.int64]]:
    """How many nodes of each class are in each part; of several labels a node, all count."""
    counts = {}
    for part in PARTS:
        y = view.y[view.mask(part) & view.known]
        counts[part] = (
            y.sum(axis=0).astype(np.int64)
            if y.ndim == 2
            else np.bincount(y, minlength=len(view.class_names))
        )
    return counts


def _parts(view: GraphView) -> Finding:
    sizes = {part: int(view.mask(part).sum()) for part in PARTS}
    empty = [part for part, size in sizes.items() if not size]
    rest = view.nodes - int(np.logical_or.reduce([view.mask(part) for part in PARTS]).sum())
    if len(empty) == len(PARTS):
        summary = "There is no split: no node is marked to train, validate or test."
    else:
        listed = ", ".join(f"{size:,} {part}" for part, size in sizes.items())
        summary = f"{listed}, {rest:,} in no part" + f"; {' and '.join(empty)} is empty" * bool(
            empty
        )
        summary += "."
    return Finding(
        name="parts of the split",
        severity="fine" if not empty else "note" if len(empty) == len(PARTS) else "serious",
        summary=summary,
        definition="Nodes in train_mask, val_mask and test_mask. Choosing anything by the test "
        "part because there is no other one makes the test worthless.",
        numbers={**sizes, "in no part": rest},
    )


def _overlap(view: GraphView) -> Finding:
    rows = [
        (first, second, int((view.mask(first) & view.mask(second)).sum()))
        for first, second in combinations(PARTS, 2)
    ]
    shared = sum(count for _, _, count in rows)
    return Finding(
        name="overlapping parts",
        severity="serious" if shared else "fine",
        summary=f"{shared:,} times a node is in two parts at once: "
        + ", ".join(f"{count:,} {a} and {b}" for a, b, count in rows if count)
        + "."
        if shared
        else "No node is in two parts.",
        definition="Nodes that two masks mark, counted for each pair of masks.",
        numbers={f"{first} and {second}": count for first, second, count in rows},
        columns=("part", "other part", "nodes in both"),
        rows=tuple(rows),
    )


def _unlabelled(view: GraphView) -> Finding:
    bare = {part: int((view.mask(part) & ~view.known).sum()) for part in PARTS}
    count, total = sum(bare.values()), int((~view.known).sum())
    return Finding(
        name="unlabelled nodes",
        severity="serious" if count else "note" if total else "fine",
        summary=f"{total:,} nodes have no label, "
        + (f"{count:,} of them inside a part of the split." if count else "none in a part.")
        if total
        else "Every node has a label.",
        definition="Nodes with y = -1. Inside a part they are trained on or scored as if -1 were "
        "a class.",
        numbers={"nodes": total, **{f"in {part}": number for part, number in bare.items()}},
    )


def _balance(view: GraphView, counts: dict[str, npt.NDArray[np.int64]]) -> Finding:
    shares = {part: _share(view, part, count) for part, count in counts.items()}
    # A part without nodes has no shares to compare.
    there = counts["train"].any() and counts["test"].any()
    shift = float(np.abs(shares["train"] - shares["test"]).max()) if there else 0.0
    largest = float(shares["test"].max(initial=0.0))
    name = view.class_names[int(shares["test"].argmax())]
    rows = [
        (name, *(int(counts[part][label]) for part in PARTS), *_percent(shares, label))
        for label, name in enumerate(view.class_names)
    ]
    return Finding(
        name="class balance",
        severity="warning" if largest > _DOMINANT else "note" if shift > _SHIFT else "fine",
        summary=f"The largest class of the test part, {name}, holds {largest:.1%} of it; between "
        f"training and test a class's share differs by up to {100 * shift:.1f} points.",
        definition="Nodes of each class in each part. A note where a share differs by more than "
        f"{100 * _SHIFT:.0f} points, a warning where one class holds more than {_DOMINANT:.0%} "
        "of the test part, which is then the accuracy of always naming it.",
        numbers={"largest test share": largest, "largest shift": shift},
        columns=("class", *PARTS, *(f"{part} %" for part in PARTS)),
        rows=tuple(rows),
    )


def _share(view: GraphView, part: str, count: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    members = int((view.mask(part) & view.known).sum())
    return count / max(members, 1)


def _percent(shares: dict[str, npt.NDArray[np.float64]], label: int) -> tuple[float, ...]:
    return tuple(round(100 * float(shares[part][label]), 1) for part in PARTS)


def _missing(view: GraphView, counts: dict[str, npt.NDArray[np.int64]]) -> Finding:
    asked = (counts["val"] + counts["test"]) > 0
    # Without training nodes there is nothing to miss; the parts are reported as empty.
    missing = asked & (counts["train"] == 0) & view.mask("train").any()
    untrained = np.flatnonzero(missing).tolist()
    unasked = np.flatnonzero((counts["train"] > 0) & (counts["test"] == 0))
    lost = sum(int(counts["test"][label]) for label in untrained)
    tested = max(int((view.mask("test") & view.known).sum()), 1)
    names = [view.class_names[label] for label in untrained]
    return Finding(
        name="classes missing from training",
        severity="serious" if names else "fine",
        summary=f"{len(names):,} classes are asked for but never trained on ({_few(names)}): "
        f"{lost:,} test nodes ({lost / tested:.1%}) cannot be right."
        if names
        else "Every class that is asked for is trained on.",
        definition="Classes with nodes to validate or test on and none to train on.",
        numbers={
            "classes": len(names),
            "test nodes": lost,
            "trained on but not tested": len(unasked),
        },
        columns=("class", "val", "test"),
        rows=tuple(
            (view.class_names[label], int(counts["val"][label]), int(counts["test"][label]))
            for label in untrained
        ),
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
