"""What the operating system refuses, as a sentence."""

from __future__ import annotations


def system_words(error: BaseException) -> str | None:
    """What to say of an error of the system; ``None`` if it is none, and a bug most likely.

    The libraries that write tensors and indexes have errors of their own for a full disk.
    """
    from drgcn.studies.reproduce.suite import disk_is_full

    if disk_is_full(error):
        return (
            "Expected room on the disk for what is written; found none left. Free some, or write "
            "to another place, and run the same command again."
        )
    if not isinstance(error, OSError):
        return None
    place = "one" if error.filename is None else str(error.filename)
    reason = (error.strerror or str(error)).lower()
    return (
        f"Expected files and folders that can be read and written; found {place} of which the "
        f"system says: {reason}. Check the path and your rights to it."
    )
