"""Audit of a dataset, and the report of its findings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from drgcn.audit.duplicates import duplicate_findings, find_duplicates
from drgcn.audit.duplicates.findings import similarity_finding
from drgcn.audit.finding import Finding, Severity
from drgcn.audit.graph_view import GraphView, is_finite
from drgcn.audit.hygiene import feature_findings, graph_findings, split_findings
from drgcn.audit.leaks.findings import leak_findings
from drgcn.audit.leaks.predictors import lookup_finding
from drgcn.data.assemble import undirected
from drgcn.data.catalog import remark_of
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Progress = Callable[[str, int, int], None]
SEVERITIES: Final[tuple[Severity, ...]] = ("serious", "warning", "note", "fine")

_FORMAT = "drgcn audit 1"


def audit(
    data: Data,
    texts: Sequence[str] | None = None,
    *,
    name: str | None = None,
    feature_names: Sequence[str | None] | None = None,
    class_names: Sequence[str] | None = None,
    printed: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Check graph, features, split, duplicates and label leaks of a dataset.

    Where ``data.identity`` says which nodes are the same thing, the parts of the split are held
    against each other by it.

    Args:
        data: One graph, or several as one (``data.graph``), with features dense or sparse. It is
            not changed.
        texts: The texts of the nodes, in their order.
        name: Name for the report; else the dataset's own.
        feature_names: What each feature column means, such as a word; ``None`` where unknown.
        class_names: Names of the classes; else the dataset's own.
        printed: Test scores that others print for this task, from 0 to 1 by the name of their
            model, to stand beside a look-up table of training labels.
        progress: Called before each step with its name, its number from 0 on, and their number.

    Example:
        >>> from drgcn.data import load
        >>> report = audit(load("wine"))
        >>> report.facts["nodes"], report.finding("overlapping parts").summary
        (178, 'No node is in two parts.')

    Raises:
        InputError: If the graph is empty, or texts and names do not fit it.
    """
    view = GraphView.of(data)
    if texts is not None and len(texts) != view.nodes:
        raise InputError(
            f"Expected a text for each of {view.nodes:,} nodes; found {len(texts):,}. Give an "
            "empty text to a node that has none."
        )
    steps: dict[str, Callable[[], list[Finding]]] = {
        "graph": lambda: graph_findings(data),
        "features": lambda: feature_findings(data),
        "split": lambda: split_findings(data),
    }
    if view.identity is not None:
        steps["identity"] = lambda: [lookup_finding(view, printed)]
    if is_finite(view.x):
        steps["duplicates"] = lambda: _duplicates(data, texts)
        steps["label leaks"] = lambda: leak_findings(data, texts, feature_names, class_names)
    else:
        steps["content"] = lambda: [_not_finite()]
    findings: list[Finding] = []
    for number, (step, check) in enumerate(steps.items()):
        if progress is not None:
            progress(step, number, len(steps))
        findings += check()
    own = view.info.name if view.info is not None else "graph"
    return AuditReport(name or own, _facts(view, texts), tuple(findings))


def _duplicates(data: Data, texts: Sequence[str] | None) -> list[Finding]:
    found = find_duplicates(data, texts)
    return [*duplicate_findings(data, texts, found=found), similarity_finding(found)]


def _not_finite() -> Finding:
    return Finding(
        name="duplicates and label leaks",
        severity="warning",
        summary="Not looked for, since some features are not finite.",
        definition="Similarities and counts of features need finite numbers: replace them first.",
    )


def _facts(view: GraphView, texts: Sequence[str] | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "nodes": view.nodes,
        "undirected edges": undirected(view.pairs, view.nodes).edge_index.shape[1] // 2,
        "features": int(view.x.shape[1]),
        "classes": len(view.class_names),
        "graphs": len(np.unique(view.graph)),
        "texts": 0 if texts is None else sum(bool(text.strip()) for text in texts),
    }
    if view.info is not None:
        facts |= {
            "split": view.info.split,
            "features are": f"{view.info.feature_source}, normalize={view.info.normalize}",
            "content hash": view.info.content_hash,
        }
        if remark := remark_of(view.info.name):
            facts["remark"] = remark
    return facts


@dataclass(frozen=True)
class AuditReport:
    """Findings of the audit of a dataset.

    Attributes:
        dataset: Name of the dataset.
        facts: Its size and origin, by name.
        findings: The findings, in the order of the audit.
    """

    dataset: str
    facts: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """The worst severity of all findings."""
        return next((severity for severity in SEVERITIES if self.of(severity)), "fine")

    def of(self, severity: Severity) -> list[Finding]:
        """Return the findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def finding(self, name: str) -> Finding | None:
        """Return the finding of a name, if there is one."""
        return next((finding for finding in self.findings if finding.name == name), None)

    @property
    def counts(self) -> dict[Severity, int]:
        """Number of findings of each severity, the worst first."""
        return {severity: len(self.of(severity)) for severity in SEVERITIES}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: no arrays, and ``None`` for numbers that are not finite."""
        return {
            "format": _FORMAT,
            "dataset": self.dataset,
            "worst": self.worst,
            "facts": _plain(self.facts),
            "findings": [_plain(finding.to_dict()) for finding in self.findings],
        }

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AuditReport:
        """Read what :meth:`to_dict` wrote.

        Raises:
            InputError: If these are no values of a report.
        """
        if values.get("format") != _FORMAT:
            raise InputError(
                f"Expected an audit in the format {_FORMAT!r}; found {values.get('format')!r}."
            )
        findings = tuple(Finding.from_dict(entry) for entry in values["findings"])
        return cls(values["dataset"], dict(values["facts"]), findings)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
