"""Every table of the paper, and those of our own that stand in for data nobody can have."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from drgcn.errors import InputError
from drgcn.studies.paper.page import read_page
from drgcn.studies.paper.paper_table import PaperTable

#: Names in the order of the paper, and then our own.
NAMES: Final = (
    *("datasets", "main", "ppi", "recommendation", "k", "reddit-norms"),
    *("leaks-cora", "leaks-cora-others", "leaks-citeseer", "leaks-citeseer-others"),
    *("datasets-citation", "full", "semi", "norms", "pre-activation"),
    *("inductive", "reddit-like"),
)


def paper_tables() -> dict[str, PaperTable]:
    """All tables by name, in the order of :data:`NAMES`."""
    return {name: paper_table_of(name) for name in NAMES}


@cache
def paper_table_of(name: str) -> PaperTable:
    """The table of a name.

    Raises:
        InputError: If there is none.
    """
    if name not in NAMES:
        raise InputError(f"Expected a table out of {', '.join(NAMES)}; found {name!r}.")
    with as_file(files("drgcn.studies.paper") / "tables" / f"{name}.toml") as path:
        return read_page(path)


def table_or_page(name: str) -> PaperTable:
    """The table of a name, or of a user's own page given by its path.

    Raises:
        InputError: If there is neither, or the page says something that cannot be.
    """
    if name in NAMES:
        return paper_table_of(name)
    if name.endswith(".toml") or Path(name).exists():
        return read_page(Path(name))
    close = get_close_matches(name, NAMES, n=2)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise InputError(
        f"Expected a table out of {', '.join(NAMES)}, or the path of a page (.toml); found "
        f"{name!r}.{hint}"
    )
