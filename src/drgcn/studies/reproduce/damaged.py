"""Records that cannot be read are set aside, so that their seeds are run again."""

from __future__ import annotations

from pathlib import Path

from drgcn.errors import InputError
from drgcn.studies.reproduce.whole_file import write_whole
from drgcn.studies.run_record import RunRecord


def damaged_in(out: Path) -> dict[Path, str]:
    """The files of a folder that should be records and are none, with the reason."""
    found = {}
    for path in sorted(out.glob("*-seeds-*.json")) if out.is_dir() else []:
        try:
            RunRecord.read(path)
        except InputError as error:
            if path.exists():  # another runner may have set it aside in this very moment
                found[path] = str(error)
    return found


def set_aside_damaged(out: Path) -> list[str]:
    """Moves damaged records to ``out/damaged``, each with a text that says why.

    Nothing is deleted: half a record may still tell somebody something. Returns one line for
    each file moved.
    """
    lines = []
    for path, reason in damaged_in(out).items():
        target = _free(out / "damaged" / path.name)
        target.parent.mkdir(exist_ok=True)
        try:
            path.rename(target)
        except FileNotFoundError:
            continue  # another runner was faster
        write_whole(target.with_suffix(".reason.txt"), reason + "\n")
        lines.append(f"damaged record set aside in {target}, its seeds are run again: {reason}")
    return lines


def _free(path: Path) -> Path:
    """A path that is not taken: the same file may be damaged twice."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
