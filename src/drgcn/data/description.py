"""What can be said of a dataset without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Family = Literal[
    "planetoid",
    "refined",
    "gnn-benchmark",
    "heterophilous",
    "twitch",
    "ppi",
    "reddit",
    "table",
    "planted",
    "reddit-like",
]

TWITCH_GRAPHS: Final = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW")


@dataclass(frozen=True)
class PublishedFile:
    """A file of a dataset: its path under a data root, and its digest and link where known."""

    path: str
    sha256: str | None
    url: str | None = None


@dataclass(frozen=True)
class Description:
    """A catalogue entry: what can be said of a dataset without opening it.

    Attributes:
        name: The name :func:`drgcn.data.load` knows it by.
        title: One line for people.
        family: The published layout that its files follow.
        splits: Names of the splits, the default first.
        normalize: What is done to the features unless the caller says otherwise.
        licence: The licence, in the publisher's words where there are any.
        citation: The paper to cite.
        home: Where the publisher keeps the files.
        files: The files it is read from; none for sets that are made on the spot.
        other_files: The files of another published layout; all of them will do instead.
        other_home: Where that layout is kept.
        options: Keywords that ``load`` takes for this set alone.
        per_class: Training and validation nodes per class in the split ``random``.
    """

    name: str
    title: str
    family: Family
    splits: tuple[str, ...]
    normalize: Literal["row", "standard", "none"]
    licence: str
    citation: str
    home: str
    files: tuple[PublishedFile, ...] = ()
    other_files: tuple[PublishedFile, ...] = ()
    other_home: str = ""
    options: tuple[str, ...] = ()
    per_class: tuple[int, int] | None = None

    @property
    def default_split(self) -> str:
        """The split that is used when none is asked for."""
        return self.splits[0]
