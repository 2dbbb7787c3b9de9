"""Quirks of AS-GCN's code: what they do to its accuracy, and to the accuracy it prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError
from drgcn.reporting.tables import Table
from drgcn.studies.comparison import summarize
from drgcn.studies.experiment import recipe
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import (
    TWO_BUILDS,
    Row,
    data_name,
    gain_words,
    merge,
    one_build,
)

HEADS: Final = (
    *("dataset", "model", "options", "validation accuracy %", "test accuracy %"),
    "over no quirk [95 %]",
)
_VARIANCE: Final = "divide_variance"


def quirk_table(records: Sequence[RunRecord]) -> str:
    """One line for every choice of options, against the model without any of them.

    Args:
        records: What was tried; those of other models than ASGCN are left out.
    """
    rows = _rows(records)
    plain = {_family(row): row for row in rows if not row[0].experiment.options}
    lines = []
    for row in sorted(rows, key=lambda row: (*_family(row), len(row[0].experiment.options))):
        record, seeds = row
        summary, base = summarize(seeds), plain.get(_family(row), row)
        cells = [data_name(record), record.experiment.label, _words(record)]
        cells += [f"{summary.val_mean:.2f}", summary.words(2)]
        cells += ["" if base is row else gain_words(row, base)]
        lines.append(cells)
    return Table(HEADS, lines).markdown("cells")


def variance_words(records: Sequence[RunRecord]) -> str:
    """What the term of the code adds that is called a variance and is none."""
    sentences = []
    rows = {(*_family(row), _words(row[0])): row for row in _rows(records)}
    for (dataset, label, options), row in rows.items():
        if options != _VARIANCE.replace("_", " "):
            continue
        true = rows[dataset, label, "none"]
        if not one_build(row, true):
            sentences.append(f"{label} on {dataset}: {TWO_BUILDS}")
            continue
        val = summarize(row[1]).val_mean - summarize(true[1]).val_mean
        sentences.append(
            f"{label} on {dataset}: {gain_words(row, true)} points on test, {val:+.2f} on "
            f"validation"
        )
    return "The code's term against the true variance, nothing else changed: " + (
        "; ".join(sentences) + "."
    )


def _rows(records: Sequence[RunRecord]) -> list[Row]:
    return [row for row in merge(records) if row[0].experiment.model == "asgcn"]


def _family(row: Row) -> tuple[str, str]:
    return row[0].data["name"], row[0].experiment.label


def _words(record: RunRecord) -> str:
    ran = record.experiment
    if not ran.options:
        return "none"
    names = ", ".join(
        name.replace("_", " ") + ("" if value is True else f" {value}")
        for name, value in ran.options.items()
    )
    usual = recipe(ran.dataset, ran.split, ran.model).options
    return f"{names} (as the code)" if ran.options == usual else names


CHUNK: Final = 2048


def inflated_accuracy(correct: Sequence[bool] | npt.NDArray[Any], *, chunk: int = CHUNK) -> float:
    """What the script would print for these predictions; it can exceed 1.

    The script goes through the nodes in chunks, multiplies each chunk's mean accuracy by the
    size of a full chunk, adds up, and divides by the number of nodes. The last chunk is rarely
    full, and then counts as if it were: 38 of Reddit's 55,334 test nodes weigh as much as 2,048.

    The script works out a chunk's mean in single precision; this function does not, so the two
    agree to about seven digits. It prints five decimals.

    Args:
        correct: Whether each node was classified correctly, in the order of evaluation.
        chunk: Nodes per chunk.

    Example:
        >>> inflated_accuracy([True, True, False, True, True], chunk=4)
        1.4
    """
    hits = np.asarray(correct)
    if hits.ndim != 1 or not len(hits) or not np.isin(hits, (0, 1)).all():
        raise InputError(
            "Expected true or false for each of at least one node; found values of shape "
            f"{hits.shape}: compare predictions with labels first"
        )
    starts = np.arange(0, len(hits), _checked(chunk))
    counts = np.add.reduceat(hits.astype(np.int64), starts)
    sizes = np.minimum(starts + chunk, len(hits)) - starts
    return float((counts / sizes).sum() * chunk / len(hits))


def inflation(nodes: int, *, chunk: int = CHUNK) -> float:
    """The factor between printed and true accuracy where all chunks are equally accurate.

    Example:
        >>> round(inflation(55_334), 4)
        1.0363
    """
    if nodes < 1:
        raise InputError(f"Expected at least one node; found {nodes}: count the test nodes")
    return -(-nodes // _checked(chunk)) * chunk / nodes


def _checked(chunk: int) -> int:
    if chunk < 1:
        raise InputError(f"Expected at least one node per chunk; found {chunk}: use 2048")
    return chunk
