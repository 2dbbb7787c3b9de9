"""Duplicate nodes: the door to what finds them, groups them, and says what they mean.

Pairs come from :mod:`~drgcn.audit.duplicates.exact`, :mod:`~drgcn.audit.duplicates.near` and
:mod:`~drgcn.audit.duplicates.text`, with :mod:`~drgcn.audit.duplicates.structure` beside them.
"""

from __future__ import annotations

from drgcn.audit.duplicates.findings import duplicate_findings
from drgcn.audit.duplicates.group_conflicts import label_conflicts, straddling
from drgcn.audit.duplicates.groups import DuplicateGroups, find_duplicates

__all__ = [
    "DuplicateGroups",
    "duplicate_findings",
    "find_duplicates",
    "label_conflicts",
    "straddling",
]
