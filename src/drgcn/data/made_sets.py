"""Descriptions of the datasets that are made on the spot."""

from __future__ import annotations

from drgcn.data.description import Description


def table_set(name: str, title: str, per_class: tuple[int, int]) -> Description:
    """A table of scikit-learn as a graph."""
    return Description(
        name=name,
        title=title,
        family="table",
        splits=("random", "random-60"),
        normalize="none",
        licence="CC BY 4.0 (UCI Machine Learning Repository), shipped with scikit-learn",
        citation="Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 2011",
        home="https://scikit-learn.org/stable/datasets/toy_dataset.html",
        options=("k",),
        per_class=per_class,
    )


def planted_set() -> Description:
    """A graph in which Dr can help."""
    return Description(
        name="planted",
        title="Synthetic: a few informative features among loud ones that mean nothing",
        family="planted",
        splits=("random",),
        normalize="none",
        licence="none needed; made by this package",
        citation="",
        home="",
        options=(
            "nodes",
            "classes",
            "features",
            "informative",
            "signal",
            "nuisance_scale",
            "homophily",
            "mean_degree",
            "labels_per_class",
            "val_per_class",
            "seed",
        ),
    )


def reddit_like_set() -> Description:
    """A graph of Reddit's size."""
    return Description(
        name="reddit-like",
        title="Synthetic: a stand-in of Reddit's size; no number on it compares with Reddit's",
        family="reddit-like",
        splits=("full", "graphsage"),
        normalize="row",
        licence="none needed; made by this package",
        citation="",
        home="",
        options=("counts", "scale", "seed"),
    )
