"""One thing an audit found out, and by what definition."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from drgcn.errors import InputError

Severity = Literal["fine", "note", "warning", "serious"]


@dataclass(frozen=True)
class Finding:
    """A finding: what was looked for, what came out, and how bad it is.

    Attributes:
        name: A short name that does not change between datasets, such as ``"exact duplicates"``.
        severity: ``"fine"`` if there is nothing to say, ``"note"`` for what one should know,
            ``"warning"`` for what may change results, ``"serious"`` for what makes them doubtful.
        summary: One sentence with the main number.
        definition: What exactly was counted.
        numbers: The numbers by name, ready for JSON.
        columns: Names of the columns of ``rows``.
        rows: A table of details or examples, ready for JSON.
    """

    name: str
    severity: Severity
    summary: str
    definition: str
    numbers: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def not_done(name: str, error: InputError) -> Finding:
    """Says why: an audit goes on where one of its questions makes no sense for the data."""
    return Finding(
        name=name,
        severity="note",
        summary=f"Not looked at. {error}",
        definition="Needs one class a node, finite features, and for predictors a split.",
    )
