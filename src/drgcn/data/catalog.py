"""What datasets there are, by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from drgcn.data.description import Description
from drgcn.data.made_sets import planted_set, reddit_like_set, table_set
from drgcn.data.published_sets import (
    benchmark_set,
    heterophilous_set,
    planetoid_set,
    ppi_set,
    reddit_set,
    refined_set,
    twitch_set,
)
from drgcn.errors import InputError

_SHCHUR = "Shchur et al., Pitfalls of Graph Neural Network Evaluation, arXiv:1811.05868, 2018"

_CATALOG: Final[Mapping[str, Description]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            planetoid_set("cora", "Cora, citations among machine-learning papers (Planetoid)"),
            planetoid_set(
                "citeseer", "Citeseer, citations among computer-science papers (Planetoid)"
            ),
            planetoid_set("pubmed", "Pubmed, citations among papers on diabetes (Planetoid)"),
            refined_set("corar", "corax", "CoraR, the refined Cora with continuous features"),
            refined_set("citeseerr", "citeseerx", "CiteseerR, the refined Citeseer"),
            benchmark_set("amazon-photo", "Amazon Photo, goods bought together", _SHCHUR),
            benchmark_set("coauthor-cs", "Coauthor CS, authors who wrote together", _SHCHUR),
            benchmark_set(
                "blogcatalog",
                "BlogCatalog, bloggers and their contacts",
                "Huang, Li and Hu, Label Informed Attributed Network Embedding, WSDM 2017",
            ),
            heterophilous_set("tolokers", "Tolokers, crowd workers who shared a task"),
            heterophilous_set(
                "chameleon-filtered", "Chameleon, Wikipedia pages without duplicates"
            ),
            heterophilous_set("squirrel-filtered", "Squirrel, Wikipedia pages without duplicates"),
            twitch_set(),
            ppi_set(),
            reddit_set(),
            table_set("digits", "Digits, 8x8 images joined to their nearest neighbours", (20, 30)),
            table_set(
                "breast-cancer", "Breast cancer, cell measurements joined likewise", (20, 30)
            ),
            # The smallest of wine's classes holds 48 bottles: 20 + 30 would leave no test.
            table_set("wine", "Wine, chemical analyses joined likewise", (10, 10)),
            planted_set(),
            reddit_like_set(),
        )
    }
)


def names() -> list[str]:
    """Names of all datasets in the catalogue."""
    return list(_CATALOG)


def describe(name: str) -> Description:
    """The catalogue entry of a dataset; case, ``-`` and ``_`` do not matter.

    Raises:
        InputError: If there is no such dataset.
    """
    entry = _CATALOG.get(name.lower().replace("_", "-"))
    if entry is not None:
        return entry
    close = get_close_matches(name.lower(), _CATALOG, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise InputError(
        f"there is no dataset {name!r}: {hint}known are {', '.join(_CATALOG)}; your own data is "
        "given as the path of a folder, an .npz or a .pt file"
    )
