"""What an epoch took, by model, dataset and machine."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.report.tables import data_name, merge, row_name
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.run_record import RunRecord

_HEADS = (
    *("dataset", "split", "model", "seeds in the record", "epochs", "seconds"),
    *("ms per epoch", "ms per epoch and seed", "device"),
)
_NOTES = (
    "Seconds of the record over the epochs of its longest seed, so that start-up, looks at "
    "validation and seeds that stopped early are in it: for orders of magnitude. Benchmarks "
    "with nothing else in them are in benchmarks/. All seeds of a record were trained together "
    "as far as memory allows.",
)


def seconds_per_epoch(record: RunRecord) -> float:
    """Seconds of a record over the epochs of its longest seed: all its seeds together."""
    return record.seconds / max(result.epochs for result in record.seeds.values())


def epoch_time_table(records: Sequence[RunRecord]) -> TextTable:
    """One line per experiment; of several records the one with most seeds."""
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
                device if threads is None else f"{device}, threads: {threads}",
            )
        )
    title = "Time of an epoch"
    return TextTable("epoch-time", title, _HEADS, tuple(rows), notes=_NOTES, left=3)


def _short(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
