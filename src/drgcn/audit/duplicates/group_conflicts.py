"""Groups of duplicates that lie across parts of the split, or disagree about their label."""

from __future__ import annotations

import numpy as np

from drgcn.audit.duplicates.groups import Groups
from drgcn.audit.graph_view import PARTS, GraphView


def straddling(view: GraphView, groups: Groups, *parts: str) -> Groups:
    """The groups with a node in each of some parts of the split."""
    masks = [view.mask(part) for part in parts]
    return tuple(group for group in groups if all(mask[list(group)].any() for mask in masks))


def label_conflicts(view: GraphView, groups: Groups) -> Groups:
    """The groups whose known labels differ."""
    conflicting = []
    for group in groups:
        members = [node for node in group if view.known[node]]
        if len(np.unique(view.y[members], axis=0)) > 1:
            conflicting.append(group)
    return tuple(conflicting)


def in_two_parts(view: GraphView, groups: Groups) -> set[tuple[int, ...]]:
    """The groups with nodes in two parts of the split or more."""
    return {
        group
        for number, first in enumerate(PARTS)
        for second in PARTS[number + 1 :]
        for group in straddling(view, groups, first, second)
    }
