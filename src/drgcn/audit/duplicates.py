"""Duplicate nodes: the door to what finds them, groups them, and says what they mean.

Pairs come from :mod:`~drgcn.audit.exact_duplicates`, :mod:`~drgcn.audit.near_duplicates` and
:mod:`~drgcn.audit.text_duplicates`, with :mod:`~drgcn.audit.structure_duplicates` beside them.
"""

from __future__ import annotations

from drgcn.audit.duplicate_findings import duplicate_findings, label_conflicts, straddling
from drgcn.audit.duplicate_groups import DuplicateGroups, find_duplicates

__all__ = [
    "DuplicateGroups",
    "duplicate_findings",
    "find_duplicates",
    "label_conflicts",
    "straddling",
]
