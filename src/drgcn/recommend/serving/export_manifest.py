"""What an export says about itself, and whether its files are those it speaks of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from drgcn.errors import InputError

FORMAT: Final = "drgcn recommendations"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class ExportManifest:
    """The facts of an export.

    Attributes:
        model: Kind, gate and hash of the model.
        data: Name and content hash of the clicks, how many made neighbours, and before which day
            they lie (``None``: all).
        metric: What items are ranked by: ``"ip"``, the inner product.
        normalised: Whether vectors have length one, so that Euclidean distance ranks alike.
        dim: Columns of a vector.
        dtype: ``"float32"`` or ``"float16"``.
        users: How many, the kind of their ids, and the table that maps rows to ids.
        items: Likewise.
        seen: Whether the clicks are there, so that seen items can be left out.
        cold_users: Whether users can be embedded from attributes alone.
        index: Facts of the faiss index: its effort (cells looked at, nprobe, for ivf), the recall
            it was tuned to and the recall measured, also of lists without seen items; ``None``
            without an index.
        environment: Versions and hardware.
        files: Size and SHA-256 of every file.
    """

    model: dict[str, Any]
    data: dict[str, Any]
    metric: str
    normalised: bool
    dim: int
    dtype: str
    users: dict[str, Any]
    items: dict[str, Any]
    seen: bool
    cold_users: bool
    index: dict[str, Any] | None
    environment: dict[str, Any]
    files: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> ExportManifest:
        """The manifest of a folder."""
        try:
            facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            facts = None
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise InputError(
                f"Expected a folder that `drgcn recommend export` wrote; {folder} has no "
                f"{MANIFEST} of that form."
            )
        if facts.get("version") != VERSION:
            raise InputError(
                f"Expected version {VERSION} of an export; {folder} has {facts.get('version')}. "
                f"Use the drgcn that wrote it, or export again."
            )
        names = [field.name for field in fields(cls)]
        if missing := [name for name in names if name not in facts]:
            raise InputError(
                f"Expected {', '.join(missing)} in {folder / MANIFEST}; export again."
            )
        return cls(**{name: facts[name] for name in names})

    def write(self, folder: Path) -> None:
        """Writes the manifest: the last file of an export."""
        facts = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = json.dumps(facts, indent=2, ensure_ascii=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    def check(self, folder: Path, name: str) -> Path:
        """The path of a file, or of a folder of files, if they have the bytes they should have."""
        listed = [file for file in self.files if file == name or file.startswith(f"{name}/")]
        if not listed:
            raise InputError(f"Expected {name} in {folder / MANIFEST}; it is not listed there.")
        for file in listed:
            if not (folder / file).is_file() or file_facts(folder / file) != self.files[file]:
                raise InputError(
                    f"Expected {folder / file} with the size and SHA-256 of its {MANIFEST}; it is "
                    f"missing, cut short, or of another export. Export again."
                )
        return folder / name

    def check_shape(self, folder: Path, name: str, found: tuple[int, int], count: int) -> None:
        """Refuses vectors that are not as many or as wide as the manifest says."""
        if found != (count, self.dim):
            raise InputError(
                f"Expected {count} vectors of {self.dim} columns in {folder / name}, as its "
                f"{MANIFEST} says; found {found[0]} of {found[1]}. Export again."
            )


def file_facts(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
