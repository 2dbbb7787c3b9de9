"""Counts with their nouns, and durations, as people read them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 job``, ``1,200 jobs``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """Format a time: ``2.1 s``, ``41 s``, ``12 min 5 s``, ``3 h 20 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
