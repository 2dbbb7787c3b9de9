"""What an epoch took, by model, dataset and machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from drgcn.studies.report.tables import data_name, merge, row_name
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.reproduce.suite_record import SuiteRecord
from drgcn.studies.run_record import RunRecord

_HEADS = (
    *("dataset", "split", "model", "seeds in the record", "epochs", "seconds"),
    *("ms per epoch", "ms per epoch and seed", "device"),
)
_NOTES = (
    "Seconds of the record over the epochs of its longest seed, so that start-up, looks at "
    "validation and seeds that stopped early are in it: for orders of magnitude. Benchmarks "
    "with nothing else in them are in benchmarks/. All seeds of a record were trained together "
    "as far as memory allows. A device that was shared by several jobs at once says so: the jobs "
    "slowed each other down.",
)


def seconds_per_epoch(record: RunRecord) -> float:
    """Seconds of a record over the epochs of its longest seed: all its seeds together."""
    return record.seconds / max(result.epochs for result in record.seeds.values())


def epoch_time_table(
    records: Sequence[RunRecord], suites: Sequence[SuiteRecord] = ()
) -> TextTable:
    """One line per experiment; of several records the one with most seeds.

    Args:
        records: Run records.
        suites: Suites that may have trained them, several jobs at once.
    """
    by_identity: dict[str, RunRecord] = {}
    for record in sorted(records, key=lambda record: len(record.seeds)):
        by_identity[record.identity] = record
    rows = []
    for record, _ in merge(list(by_identity.values())):
        each = 1000 * seconds_per_epoch(record)
        device, threads = str(record.environment["device"]), record.environment.get("threads")
        rows.append(
            (
                *(data_name(record), str(record.data["split"]), row_name(record)),
                *(str(len(record.seeds)), f"{max(r.epochs for r in record.seeds.values()):,}"),
                *(f"{record.seconds:,.1f}", _short(each), _short(each / len(record.seeds))),
                (device if threads is None else f"{device}, threads: {threads}")
                + _sharing(record, suites),
            )
        )
    title = "Time of an epoch"
    return TextTable("epoch-time", title, _HEADS, tuple(rows), notes=_NOTES, left=3)


def _sharing(record: RunRecord, suites: Sequence[SuiteRecord]) -> str:
    started = datetime.fromisoformat(record.started)
    for suite in suites:
        since = (started - datetime.fromisoformat(suite.started)).total_seconds()
        same = suite.environment.get("device") == record.environment["device"]
        # Records begin on a whole second.
        if same and suite.workers > 1 and -1 <= since <= suite.wall_seconds:
            return f", shared by {suite.workers} jobs"
    return ""


def _short(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
