"""Where records come from: machines, versions and dates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from drgcn.studies.report.text_table import TextTable
from drgcn.studies.run_record import RunRecord

_VERSIONS: Final = ("drgcn", "torch", "torch_geometric", "python")
_HEADS: Final = ("device", "records", "seeds trained", "training time", "first", "last")


def device_table(records: Sequence[RunRecord]) -> TextTable:
    """What was trained on which machine."""
    groups: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        groups[str(record.environment["device"])].append(record)
    rows = [
        (
            device,
            f"{len(group):,}",
            f"{sum(len(record.seeds) for record in group):,}",
            duration(sum(record.seconds for record in group)),
            min(record.started for record in group)[:10],
            max(record.started for record in group)[:10],
        )
        for device, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    notes = (
        "Training time is the sum over records; those of one machine may have run side by side.",
    )
    return TextTable("machines", "Machines", _HEADS, tuple(rows), notes=notes)


def version_words(records: Sequence[RunRecord]) -> str:
    """Versions of what the numbers were made with."""
    parts = []
    for name in _VERSIONS:
        found = sorted({str(r.environment[name]) for r in records if name in r.environment})
        if found:
            parts.append(f"{name.replace('torch_geometric', 'PyG')} {', '.join(found)}")
    sources = {record.environment.get("source") for record in records}
    return f"{'; '.join(parts)}; {len(sources)} states of this package's code."


def duration(seconds: float) -> str:
    """Seconds in words: ``41 s``, ``12 min 5 s``, ``3 h 20 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
