"""Duplicate nodes: the door to what finds them, groups them, and says what they mean.

Pairs come from :mod:`~drgcn.audit.duplicates.features` and
:mod:`~drgcn.audit.duplicates.texts`.
"""

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
