"""Search for duplicate nodes by features and texts, and the findings about them."""

from __future__ import annotations

from drgcn.audit.duplicates.findings import duplicate_findings, label_conflicts, straddling
from drgcn.audit.duplicates.groups import DuplicateGroups, find_duplicates

__all__ = [
    "DuplicateGroups",
    "duplicate_findings",
    "find_duplicates",
    "label_conflicts",
    "straddling",
]
