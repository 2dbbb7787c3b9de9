"""A set of clicks with all that is known about it, in memory or as a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.content_hash import hash_content
from drgcn.recommend.clicks.whole_folder import whole_folder

FORMAT: Final = "drgcn clicks"
VERSION: Final = 1
MANIFEST: Final = "clicks.json"


@dataclass(frozen=True, eq=False)
class ClickData:
    """Clicks, attributes of both sides, and the ids that users and items had before.

    Attributes:
        graph: Who clicked what, and when.
        users: What is known of each user; ``None`` if nothing.
        items: What is known of each item; ``None`` if nothing.
        user_ids: The id behind each user, a pyarrow array; ``None`` if ids are 0, 1, 2, ...
        item_ids: The id behind each item, likewise.
        name: What the set is called.
        parts: If days stand for the parts of an official split, their names in order: day 0 is
            ``parts[0]``, and so on. Empty if days are days.
        known_hash: The content hash where somebody has computed it before.
    """

    graph: ClickGraph
    users: AttributeTable | None = None
    items: AttributeTable | None = None
    user_ids: Any | None = None
    item_ids: Any | None = None
    name: str = "clicks"
    parts: tuple[str, ...] = ()
    known_hash: str = ""

    def __post_init__(self) -> None:
        sides = (
            ("users", self.graph.num_users, self.users, self.user_ids),
            ("items", self.graph.num_items, self.items, self.item_ids),
        )
        for side, count, table, ids in sides:
            for what, rows in (("attributes", table), ("ids", ids)):
                if rows is not None and len(rows) != count:
                    raise InputError(f"Expected {what} of {count} {side}; found {len(rows)} rows.")

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of clicks, days, attributes and ids; the name is left out."""
        return self.known_hash or hash_content(self)

    @classmethod
    def load(cls, folder: str | PathLike[str], mmap: bool = True) -> ClickData:
        """The set that :meth:`save` wrote.

        Args:
            folder: Its folder.
            mmap: Map arrays into memory and read them as needed. (default: yes)
        """
        folder = Path(folder)
        facts = read_manifest(folder)
        data = cls.open_parts(
            folder, str(facts["name"]), tuple(facts["parts"]), str(facts["content_hash"]), mmap
        )
        found = (data.graph.num_users, data.graph.num_items, data.graph.num_clicks)
        expected = tuple(facts[key] for key in ("users", "items", "clicks"))
        if found != expected:
            raise InputError(
                f"Expected {expected} users, items and clicks in {folder}, as its {MANIFEST} "
                f"says; found {found}. Files of different sets are mixed: make it again."
            )
        return data

    @classmethod
    def open_parts(
        cls,
        folder: Path,
        name: str,
        parts: tuple[str, ...] = (),
        known_hash: str = "",
        mmap: bool = True,
    ) -> ClickData:
        """The set whose files lie in a folder, whatever its manifest says."""
        tables = {
            side: AttributeTable.load(folder / side, mmap) if (folder / side).is_dir() else None
            for side in ("users", "items")
        }
        ids = {side: _read_ids(folder / f"{side}_ids.parquet") for side in ("user", "item")}
        return cls(
            ClickGraph.load(folder, mmap),
            tables["users"],
            tables["items"],
            ids["user"],
            ids["item"],
            name,
            parts,
            known_hash,
        )

    def save(self, folder: str | PathLike[str]) -> Path:
        """Writes a new folder, whole or not at all; :meth:`load` gives the set back."""
        with whole_folder(folder) as partial:
            self.graph.save(partial)
            for side, table in (("users", self.users), ("items", self.items)):
                if table is not None:
                    table.save(partial / side)
            for side, ids in (("user", self.user_ids), ("item", self.item_ids)):
                if ids is not None:
                    _write_ids(ids, partial / f"{side}_ids.parquet")
            write_manifest(self, partial)
        return Path(folder)

    def facts(self) -> dict[str, Any]:
        """What the manifest says."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "users": self.graph.num_users,
            "items": self.graph.num_items,
            "clicks": self.graph.num_clicks,
            "parts": list(self.parts),
            "content_hash": self.content_hash,
        }

    def to(self, device: torch.device | str) -> ClickData:
        """The same set with clicks and attributes on another device."""
        return replace(
            self,
            graph=self.graph.to(device),
            users=None if self.users is None else self.users.to(device),
            items=None if self.items is None else self.items.to(device),
        )


def write_manifest(data: ClickData, folder: Path, **more: Any) -> None:
    """Writes what makes a folder of files a set of clicks: the last thing to be written."""
    text = json.dumps(data.facts() | more, indent=2, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder says about itself, checked as far as it goes."""
    if not folder.is_dir():
        raise InputError(f"Expected a folder of clicks; {folder} is not there or is a file.")
    try:
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        facts = None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InputError(
            f"Expected a folder that `drgcn recommend ingest` or `generate` wrote; {folder} has "
            f"no {MANIFEST} of that form."
        )
    if facts.get("version") != VERSION:
        raise InputError(
            f"Expected version {VERSION} of the folder's form; {folder} has version "
            f"{facts.get('version')}. Read it with the drgcn that wrote it, or make it again."
        )
    keys = ("name", "users", "items", "clicks", "parts", "content_hash")
    if missing := [key for key in keys if key not in facts]:
        raise InputError(f"Expected {', '.join(missing)} in {folder / MANIFEST}; make it again.")
    return facts


def _write_ids(ids: Any, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": ids}), path)


def _read_ids(path: Path) -> Any | None:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.exists():
        return None
    try:
        return parquet.read_table(path, columns=["id"])["id"].combine_chunks()
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        raise InputError(f"Expected a whole table of ids in {path}; {error}.") from None
