"""Whether neighbours share labels, and more than the sizes of the classes explain."""

from __future__ import annotations

import numpy as np

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import GraphView
from drgcn.data.assemble import undirected

# Below this, neighbours tell next to nothing about a label by its being the same.
_LOW = 0.1


def homophily_finding(view: GraphView) -> Finding:
    """Share of edges between equal labels, as it is and adjusted for class sizes.

    The adjusted form (Platonov et al., Characterizing Graph Datasets for Node Classification,
    NeurIPS 2023) subtracts the share expected from the degrees of the classes, and is 1 if all
    edges join equal labels.
    """
    edges = undirected(view.pairs, view.nodes).edge_index
    source, target = edges[:, view.known[edges].all(axis=0)]
    numbers: dict[str, float | int | None] = {"edges": len(source) // 2}
    if not len(source) or view.y.ndim == 2:
        why = "nodes have several labels" if view.y.ndim == 2 else "no edge joins labelled nodes"
        return Finding(
            name="homophily",
            severity="fine",
            summary=f"Not defined here: {why}.",
            definition=_DEFINITION,
            numbers=numbers,
        )
    same = float((view.y[source] == view.y[target]).mean())
    weight = np.bincount(view.y[source], minlength=len(view.class_names)) / len(source)
    chance = float((weight**2).sum())
    adjusted = (same - chance) / (1 - chance) if chance < 1 else None
    numbers |= {"same label": same, "expected by chance": chance, "adjusted": adjusted}
    low = adjusted is not None and adjusted < _LOW
    words = "" if adjusted is None else f", {adjusted:.2f} after adjusting for class sizes"
    return Finding(
        name="homophily",
        severity="note" if low else "fine",
        summary=f"{same:.1%} of edges join nodes of one class{words}"
        + (": smoothing over neighbours is no help by itself." if low else "."),
        definition=_DEFINITION,
        numbers=numbers,
    )


_DEFINITION = (
    "Share h of edges between labelled nodes whose labels are equal, and (h - c) / (1 - c), where "
    "c is the sum over classes of the squared share of all degrees. A note where the latter is "
    f"below {_LOW}."
)
