"""A set of clicks with attributes and ids, in memory or as a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from drgcn._io import whole_folder
from drgcn.data.readers import read_json
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, read_columns
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.records import sealed, unsealed
from drgcn.sampling.graph import CSRGraph

FORMAT: Final = "drgcn clicks"
VERSION: Final = 1
MANIFEST: Final = "clicks.json"
_CHUNK = 2**22


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
        known_hash: The content hash if it was computed before.
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

        Everything is read once: ranges are checked, both sides and the content hash compared.

        Args:
            folder: Its folder.
            mmap: Map arrays into memory and read them as needed. (default: yes)

        Raises:
            InputError: If it is no such folder, or not as it was written.
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
        if hash_content(data) != data.known_hash:
            raise InputError(
                f"Expected {folder} with the content hash of its {MANIFEST}; found other clicks, "
                f"days, attributes or ids. A file is damaged or of another set: make it again."
            )
        if data.parts and data.graph.num_clicks:
            first, last = data.graph.day_range
            if first < 0 or last >= len(data.parts):
                raise InputError(
                    f"Expected days 0 to {len(data.parts) - 1} in {folder}, one for each part; "
                    f"found {first} to {last}. Make it again."
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
        """Write a new folder, whole or not at all; :meth:`load` gives the set back."""
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
        """Content of the manifest."""
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


def has_ages(data: ClickData) -> bool:
    """True if clicks have days that are days."""
    return data.graph.days is not None and not data.parts


def expect_ages(data: ClickData, option: str = "--half-life") -> None:
    """Refuse clicks that cannot count by their age; ``option`` is what asks for it."""
    if not has_ages(data):
        found = f"the parts {', '.join(data.parts)}" if data.parts else "none"
        raise InputError(
            f"Expected clicks with days for a half-life; found {found} in {data.name}. Leave "
            f"{option} out."
        )


def click_weights(data: ClickData, part: ClickGraph, half_life: float) -> Tensor:
    """Weights of some of the clicks that halve every so many days before the last of them.

    Args:
        data: All clicks, with their days.
        part: Some of them, whose own days may stand for something else.
        half_life: Days.
    """
    expect_ages(data)
    age = data.graph.days_of(part.to("cpu")).double()
    return torch.as_tensor(0.5 ** ((age.max() - age) / half_life))


def write_manifest(data: ClickData, folder: Path, **more: Any) -> None:
    """Write the manifest of a folder of clicks: the last file to be written."""
    dump_manifest(folder / MANIFEST, data.facts() | more)


def dump_manifest(path: Path, facts: dict[str, Any]) -> None:
    """Write the facts of a manifest."""
    text = json.dumps(sealed(facts), indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def manifest_facts(
    path: Path, form: str, version: int, writers: str, remedy: str
) -> dict[str, Any]:
    """Read the facts of a manifest, and refuse those of another form or version, and changed ones.

    Args:
        path: The manifest, in its folder.
        form: The form that it has to have.
        version: The version of the form.
        writers: The commands that write it, in words.
        remedy: Words that say what to do about one that was changed.
    """
    try:
        facts = read_json(path)
    except (OSError, ValueError):
        facts = {}
    if facts.get("format") != form:
        raise InputError(
            f"Expected a folder that {writers} wrote; {path.parent} has no {path.name} of that "
            f"form."
        )
    if facts.get("version") != version:
        raise InputError(
            f"Expected version {version} of the folder's form; {path.parent} has version "
            f"{facts.get('version')}. Read it with the drgcn that wrote it, or {remedy}."
        )
    try:
        return unsealed(facts)
    except ValueError as error:
        raise InputError(
            f"Expected {path} as it was written; {error}. {remedy.capitalize()}."
        ) from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a folder."""
    if not folder.is_dir():
        raise InputError(f"Expected a folder of clicks; {folder} is not there or is a file.")
    writers = "`drgcn recommend ingest` or `generate`"
    facts = manifest_facts(folder / MANIFEST, FORMAT, VERSION, writers, "make it again")
    kinds = {"name": str, "users": int, "items": int, "clicks": int, "parts": list}
    kinds |= {"content_hash": str}
    wrong = [key for key, kind in kinds.items() if type(facts.get(key)) is not kind]
    if wrong or not all(isinstance(part, str) for part in facts["parts"]):
        raise InputError(
            f"Expected {', '.join(wrong or ['names in parts'])} in {folder / MANIFEST}; found "
            f"none, or of another type. Make it again."
        )
    return facts


def earlier_hashes(folder: Path) -> list[str]:
    """Content hashes that a folder of clicks had before others joined it, the first one first."""
    steps = read_manifest(folder).get("appended", [])
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise InputError(f"Expected a list of what was added in {folder / MANIFEST}; found none.")
    return [str(step.get("before")) for step in steps]


def _write_ids(ids: Any, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": ids}), path)


def _read_ids(path: Path) -> Any | None:
    import pyarrow as pa

    if not path.exists():
        return None
    (ids,) = read_columns(path, ["id"])
    is_kind = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(is_one(ids.type) for is_one in is_kind):
        raise InputError(
            f"Expected ids that are whole numbers or text in {path}; found {ids.type}."
        )
    return ids


def hash_content(data: ClickData) -> str:
    """SHA-256 of clicks, days, attributes and ids.

    The name is left out, and so is what follows from the rest (``by_item``). Integers are hashed
    as 64 bits and every NaN as the same one, so the hash does not depend on how data is held.
    """
    digest = hashlib.sha256()
    for name, pieces in _parts(data):
        digest.update(f"[{name}]".encode())
        for piece in pieces:
            digest.update(piece)
    return digest.hexdigest()


def _parts(data: ClickData) -> Iterator[tuple[str, Iterator[bytes | memoryview]]]:
    graph = data.graph
    yield f"sizes {graph.num_users} {graph.num_items} {data.parts}", iter(())
    yield "rowptr", _integers(graph.by_user.rowptr)
    yield "col", _integers(graph.by_user.col)
    if graph.days is not None:
        yield "days", _integers(graph.days)
    for side, table, ids in (
        ("users", data.users, data.user_ids),
        ("items", data.items, data.item_ids),
    ):
        if table is not None:
            names = (table.numeric_names, table.category_names, table.category_sizes)
            yield f"{side} {names}", iter(())
            yield "numeric", _floats(table.numeric)
            yield "categories", _integers(table.categories)
            for values in table.category_values:
                yield "values", _texts(values)
        if ids is not None:
            yield f"{side} ids", _texts(ids)


def _integers(values: Tensor) -> Iterator[bytes | memoryview]:
    for piece in values.flatten().split(_CHUNK):
        yield piece.to("cpu", torch.int64).numpy().data


def _floats(values: Tensor) -> Iterator[bytes | memoryview]:
    for piece in values.split(max(1, _CHUNK // max(1, values.size(1)))):
        array = piece.cpu().numpy()
        yield np.where(np.isnan(array), np.float32("nan"), array).ravel().data


def _texts(ids: Any) -> Iterator[bytes | memoryview]:
    import pyarrow as pa

    for begin in range(0, len(ids), _CHUNK):
        piece = ids.slice(begin, _CHUNK).cast(pa.large_string()).fill_null("")
        _, ends, text = piece.buffers()
        ends = np.frombuffer(ends, np.int64)[piece.offset : piece.offset + len(piece) + 1]
        yield np.diff(ends).tobytes()
        yield b"" if text is None else memoryview(text)[ends[0] : ends[-1]]


def summary(data: ClickData) -> dict[str, Any]:
    """Sizes, degrees, days and attributes as plain values."""
    graph = data.graph
    facts = data.facts()
    for key in ("format", "version"):
        del facts[key]
    return facts | {
        "clicks_per_user": _degrees(graph.by_user),
        "clicks_per_item": _degrees(graph.by_item),
        "days": None if graph.days is None else _days(data),
        "user_attributes": _attributes(data.users),
        "item_attributes": _attributes(data.items),
        "user_ids": _ids(data.user_ids),
        "item_ids": _ids(data.item_ids),
    }


def _degrees(side: CSRGraph) -> dict[str, Any]:
    """Nearest ranks from above, and how many have none."""
    degree = side.degree.sort().values
    last = degree.numel() - 1
    places = {"median": 0.5, "90 %": 0.9, "99 %": 0.99, "most": 1.0}
    ranks = {name: int(degree[round(share * last)]) for name, share in places.items()}
    return ranks | {"none": int((degree == 0).sum())}


def _days(data: ClickData) -> dict[str, Any]:
    first, last = data.graph.day_range
    assert data.graph.days is not None
    counts = torch.bincount(data.graph.days.long() - first)
    if data.parts:
        named = zip(data.parts[first:], counts.tolist(), strict=False)
        return {f"clicks in {part}": count for part, count in named}
    return {"first": first, "last": last, "clicks_on_the_last": int(counts[-1])}


def _attributes(table: AttributeTable | None) -> dict[str, Any] | None:
    if table is None:
        return None
    sizes = zip(table.category_names, table.category_sizes, strict=True)
    return {
        "numbers": list(table.numeric_names),
        "categories": [f"{name} ({size})" for name, size in sizes],
        "missing_numbers": _share(table.numeric, torch.isnan),
        "missing_categories": _share(table.categories, lambda codes: codes < 0),
    }


def _share(values: Tensor, missing: Callable[[Tensor], Tensor]) -> float:
    """Piece by piece: a large table is mapped, not held."""
    count = sum(int(missing(piece).sum()) for piece in values.split(2**20))
    return count / max(1, values.numel())


def _ids(ids: Any | None) -> str:
    if ids is None or not len(ids):
        return "0, 1, 2, ..."
    return f"{ids[0].as_py()} ... {ids[len(ids) - 1].as_py()}"
