"""The text of every node, from a file of JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from drgcn.errors import InputError, MissingDataError


@dataclass(frozen=True)
class NodeTexts:
    """One text per node, in node order.

    Attributes:
        texts: The texts; the position is the node's index.
        kinds: How many texts there are of each kind (title, abstract, ...), where the file says.
    """

    texts: tuple[str, ...]
    kinds: dict[str, int]

    @classmethod
    def of_dataset(cls, root: Path, name: str) -> NodeTexts:
        """The texts of a dataset, from ``<root>/refined/<name>_text.jsonl``."""
        path = root / "refined" / f"{name.lower()}_text.jsonl"
        if not path.is_file():
            raise MissingDataError(
                f"there is no text of {name} at {path}: put it there, or name a file with --text; "
                'each line is a JSON object {"index": 0, "text": "..."}'
            )
        return cls.read(path)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> NodeTexts:
        """Read lines like ``{"index": 0, "text": "..."}``, in any order, one for every node.

        Raises:
            InputError: If a line is damaged, or nodes are named twice or not at all.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"the text file {path} does not exist")
        texts: dict[int, str] = {}
        kinds: Counter[str] = Counter()
        # In bytes, so that a line is what ends in a newline and not what ends in U+2028.
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                index, text, kind = _entry(line, f"{path}, line {number}")
                if index in texts:
                    raise InputError(
                        f"{path}, line {number}: node {index} has a text already; every node is "
                        "named once"
                    )
                texts[index] = text
                kinds.update([kind] if kind else [])
        if not texts:
            raise InputError(f"{path} is empty: expected one JSON line per node")
        missing = next((index for index in range(len(texts)) if index not in texts), None)
        if missing is not None:
            raise InputError(
                f"{path} has {len(texts)} lines, which must be the nodes 0 to {len(texts) - 1}, "
                f"but node {missing} is not there: add it (its text may be empty)"
            )
        return cls(tuple(texts[index] for index in range(len(texts))), dict(kinds))


def _entry(line: bytes, where: str) -> tuple[int, str, str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested without end
        raise InputError(f"{where}: expected a JSON object in UTF-8") from None
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a JSON object, found a {type(entry).__name__}")
    index, text = entry.get("index"), entry.get("text")
    # True is an int to Python, and no index.
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise InputError(f'{where}: expected "index" to be 0 or more, found {index!r}')
    if not isinstance(text, str):
        raise InputError(f'{where}: expected "text" to be a string, found {text!r}')
    kind = entry.get("kind", "")
    return index, text, kind if isinstance(kind, str) else ""
