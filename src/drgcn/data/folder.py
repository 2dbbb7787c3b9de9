"""A user's graph as two tables in a folder: nodes and edges."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drgcn.data.checks import Parts, masks_from_words
from drgcn.data.labels import from_texts
from drgcn.data.tabular import Columns
from drgcn.errors import DrgcnWarning, InputError

_NOT_FEATURES = ("id", "label", "split")


def read_folder(folder: Path) -> Parts:
    """Read ``nodes.csv`` and ``edges.csv`` (or ``.parquet``) of a folder.

    ``nodes`` has a column ``id``, any number of numeric feature columns, and if known ``label``
    (numbers or words, empty where unknown) and ``split`` (train, val, test or empty). ``edges``
    has ``source`` and ``target``, which are ids; either direction, or both, may be listed.
    """
    nodes = Columns(_table(folder, "nodes", "id, feature columns, label, split"))
    nodes.require("id")
    _refuse_misspelt(nodes)
    features = [name for name in nodes.names if name not in _NOT_FEATURES]
    if not features:
        raise InputError(
            f"{nodes.path} has no feature columns: add at least one numeric column beside "
            f"{', '.join(nodes.names)}"
        )
    if not nodes.rows:
        raise InputError(f"{nodes.path} has a header but no rows: write one row per node")
    ids = _ids(nodes)
    x = np.empty((nodes.rows, len(features)), dtype=np.float32)
    for column, name in enumerate(features):
        x[:, column] = nodes.numbers(name)
    words = nodes.text("label").to_pylist() if "label" in nodes.names else [""] * nodes.rows
    y, class_names = from_texts(words, str(nodes.path))
    known = ids.to_pylist()
    splits = {}
    if "split" in nodes.names:
        parts = nodes.text("split").to_pylist()
        # A column of empty cells is the same as no column.
        if any(parts):
            splits["given"] = masks_from_words(parts, str(nodes.path), known)
    return Parts(
        source=str(nodes.path),
        x=x,
        pairs=_pairs(Columns(_table(folder, "edges", "source, target")), ids),
        y=y,
        class_names=class_names,
        splits=splits,
        ids=known,
    )


def _refuse_misspelt(nodes: Columns) -> None:
    """A column ``Split`` would else be taken for a feature, and the split be drawn at random."""
    for name in nodes.names:
        meant = name.strip().lower()
        if meant in _NOT_FEATURES and name != meant:
            raise InputError(
                f"{nodes.path} has a column {name!r}: write {meant!r} if that is what it holds, "
                "or rename it if it is a feature"
            )
        if name.startswith("Unnamed:"):
            warnings.warn(
                f"{nodes.path}: the column {name!r}, which looks like row numbers, is taken for "
                "a feature",
                DrgcnWarning,
                stacklevel=5,
            )


def _table(folder: Path, stem: str, columns: str) -> Path:
    found = [
        path for path in (folder / f"{stem}.csv", folder / f"{stem}.parquet") if path.is_file()
    ]
    if not found:
        raise InputError(
            f"{folder} has no {stem}.csv or {stem}.parquet: write one with the columns {columns}"
        )
    if len(found) > 1:
        raise InputError(
            f"{folder} has both {found[0].name} and {found[1].name}: keep one of them"
        )
    return found[0]


def _ids(nodes: Columns) -> Any:
    import pyarrow.compute as pc

    ids = nodes.text("id")
    empty = pc.index(ids, "").as_py()
    if empty >= 0:
        raise InputError(f"{nodes.path}: row {empty + 1} has no id: give every node one")
    if pc.count_distinct(ids).as_py() < nodes.rows:
        seen: dict[str, int] = {}
        for row, name in enumerate(ids.to_pylist(), start=1):
            if name in seen:
                raise InputError(
                    f"{nodes.path}: the id {name!r} is in row {seen[name]} and again in row "
                    f"{row}: ids must be unique"
                )
            seen[name] = row
    return ids


def _pairs(edges: Columns, ids: Any) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc

    edges.require("source", "target")
    unused = [name for name in edges.names if name not in ("source", "target")]
    if unused:
        warnings.warn(
            f"{edges.path}: the columns {', '.join(unused)} are not used",
            DrgcnWarning,
            stacklevel=5,
        )
    if not edges.rows:
        warnings.warn(f"{edges.path} lists no edges", DrgcnWarning, stacklevel=5)
    ends = []
    for column in ("source", "target"):
        names = edges.text(column)
        places = pc.index_in(names, value_set=ids)
        if places.null_count:
            row = int(places.is_null().to_numpy(zero_copy_only=False).argmax())
            raise InputError(
                f"{edges.path}: row {row + 1} has the {column} {names[row].as_py()!r}, but no "
                "node has this id: add the node or remove the edge"
            )
        ends.append(places.to_numpy(zero_copy_only=False).astype(np.int64))
    return np.stack(ends)
