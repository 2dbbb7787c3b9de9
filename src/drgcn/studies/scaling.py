"""How features were scaled where a model's published numbers come from."""

from __future__ import annotations

from drgcn.data.catalog import describe, names


def usual_scaling(dataset: str, model: str) -> str | None:
    """What to give :func:`drgcn.load` as ``normalize`` to train as published.

    The code bases scale as the dataset's own entry says, but for GraphSAGE's two: graphsage-simple
    takes features as they are, and the authors' code for Reddit standardises them.

    Args:
        dataset: Name of a dataset, or a path to one.
        model: One of :data:`drgcn.studies.recipes.MODELS`.

    Returns:
        ``row``, ``standard`` or ``none``; ``None`` for data that is not in the catalogue.
    """
    if dataset not in names():
        return None
    usual = describe(dataset)
    if model == "graphsage" and usual.normalize == "row":
        return "standard" if usual.family in ("reddit", "reddit-like") else "none"
    return usual.normalize
