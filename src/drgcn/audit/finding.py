"""Finding of an audit: a check with its numbers, severity and definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from drgcn.errors import InputError

Severity = Literal["fine", "note", "warning", "serious"]


@dataclass(frozen=True)
class Finding:
    """Result of one check: its numbers, its severity and its definition.

    Attributes:
        name: A short name that does not change between datasets, such as ``"exact duplicates"``.
        severity: ``"fine"`` if there is nothing to say, ``"note"`` for what one should know,
            ``"warning"`` for what may change results, ``"serious"`` for what makes them doubtful.
        summary: One sentence with the main number.
        definition: The exact definition of what was counted.
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
        """Return plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Read what :meth:`to_dict` wrote, once JSON has made lists of tuples."""
        table = {"columns": tuple(values["columns"]), "rows": tuple(map(tuple, values["rows"]))}
        return cls(**(dict(values) | table))


def not_done(name: str, error: InputError) -> Finding:
    """Return the finding of a check that the data does not allow, with the reason."""
    return Finding(
        name=name,
        severity="note",
        summary=f"Not looked at. {error}",
        definition="Needs one class a node, finite features, and for predictors a split.",
    )
