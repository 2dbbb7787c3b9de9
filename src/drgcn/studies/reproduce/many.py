"""Counts with their word, one or many."""

from __future__ import annotations


def many(count: int, word: str) -> str:
    """``1 job``, ``1,200 jobs``."""
    return f"{count:,} {word}{'s' * (count != 1)}"
