"""A finding for what could not be looked at."""

from __future__ import annotations

from drgcn.audit.finding import Finding
from drgcn.errors import InputError


def not_done(name: str, error: InputError) -> Finding:
    """Says why: an audit goes on where one of its questions makes no sense for the data."""
    return Finding(
        name=name,
        severity="note",
        summary=f"Not looked at. {error}",
        definition="Needs one class a node, finite features, and for predictors a split.",
    )
