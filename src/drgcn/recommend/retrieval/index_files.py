"""A faiss index as a file, with the facts by which it is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from drgcn.errors import InputError
from drgcn.recommend.retrieval.faiss_index import FaissIndex, _faiss

_FACTS = ("kind", "metric", "dim", "num_items", "effort", "sha256")


def write_index(index: FaissIndex, path: Path | str) -> dict[str, object]:
    """Writes an index, whole or not at all, and returns its facts for a manifest."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    _faiss().write_index(index.index, str(partial))
    facts = {**_facts(index), "effort": index.effort, "sha256": _digest(partial)}
    os.replace(partial, path)
    return facts


def read_index(path: Path | str, facts: Mapping[str, object]) -> FaissIndex:
    """The index of a file, if it is the one that the facts speak of.

    The bytes are compared first: faiss trusts what it reads, and a broken file can end the
    process.
    """
    path = Path(path)
    missing = [name for name in _FACTS if name not in facts]
    if missing or not path.is_file():
        what = f"no {', '.join(missing)} in the manifest" if missing else "no such file"
        raise InputError(
            f"Expected index {path} and its facts; found {what}. Export the index again."
        )
    if _digest(path) != facts["sha256"]:
        raise InputError(
            f"Expected index {path} with the SHA-256 of its manifest; found other bytes. It is "
            f"cut short or belongs to another export: export it again."
        )
    faiss = _faiss()
    index = FaissIndex(faiss.read_index(str(path)), str(facts["kind"]), str(facts["metric"]))
    measure = faiss.METRIC_INNER_PRODUCT if index.metric == "ip" else faiss.METRIC_L2
    kind = {"flat": "IndexFlat", "ivf": "IndexIVFFlat", "hnsw": "IndexHNSWFlat"}.get(index.kind)
    found = _facts(index)
    expected = {name: facts[name] for name in found}
    right_kind = kind is not None and isinstance(index.index, getattr(faiss, kind))
    if found != expected or not right_kind or index.index.metric_type != measure:
        raise InputError(
            f"Expected an index of {expected}; found {type(index.index).__name__} of {found}. The "
            f"manifest belongs to another index: export it again."
        )
    if index.kind != "flat":
        index.effort = int(str(facts["effort"]))
    return index


def _facts(index: FaissIndex) -> dict[str, object]:
    return {
        "kind": index.kind,
        "metric": index.metric,
        "dim": index.dim,
        "num_items": index.num_items,
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
