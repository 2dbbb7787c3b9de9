"""Time per epoch, learnt K and learnt gates, from run records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from drgcn.reporting.tables import Table
from drgcn.studies.comparison import Results, k_words, summarize
from drgcn.studies.paper.page import published_k
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import data_name, merge, rebuilt, row_name
from drgcn.studies.reproduce.jobs import SuiteRecord

_EPOCH_HEADS = (
    "dataset",
    "split",
    "model",
    "seeds in the record",
    "epochs",
    "seconds",
    "ms per epoch",
    "ms per epoch and seed",
    "device",
)
_EPOCH_NOTES = (
    "Seconds of the record over the epochs of its longest seed, so that start-up, looks at "
    "validation and seeds that stopped early are in it: for orders of magnitude. Benchmarks "
    "with nothing else in them are in benchmarks/. All seeds of a record were trained together "
    "as far as memory allows. A device that was shared by several jobs at once says so: the jobs "
    "slowed each other down.",
)
HEADS = (
    "dataset",
    "split",
    "model",
    "K per layer",
    "stuck per layer",
    "paper: Dr-ASGCN",
    "seeds",
)
TITLE = "Learnt K and stuck gates"
NOTES = (
    "Means over seeds, first layer first. K is the variance across feature dimensions after "
    "reweighting, relative to before; a constant gate has K = 1. Stuck is the share of gate "
    "entries within 0.001 of 0 or 1, where they hardly learn; records from before it was measured "
    "have none. The paper prints K for Dr-ASGCN alone, a sampled model (Table 5): beside a row "
    "for comparison, not as what it should reach; in brackets, for other features.",
)
_SPECTRUM_HEADS: Final = (
    "dataset",
    "split",
    "model",
    "layer",
    "least",
    "10 %",
    "median",
    "90 %",
    "greatest",
    "widest seed",
    "seeds",
)
_SPECTRUM_NOTES: Final = (
    "Entries of s in order: the least, the first decile, the median, the ninth decile and the "
    "greatest, each the mean over seeds. The picture runs from 0 to 1: the thin line from the "
    "least entry to the greatest, the thick one between first and ninth decile, the dot the "
    "median. Widest seed: the greatest distance of first and ninth decile in any seed.",
)
#: What to say where no record has them.
MISSING: Final = (
    "Records from before deciles of s were kept have none. To see the learnt s of every "
    "dimension beside its variance, train a few seeds of Dr-GCN and draw them: drgcn stability "
    "DATASET --train --html page.html."
)
_WIDTH, _EDGE = 150.0, 5.0


def seconds_per_epoch(record: RunRecord) -> float:
    """Seconds of a record over the epochs of its longest seed: all its seeds together."""
    return record.seconds / max(result.epochs for result in record.seeds.values())


def epoch_time_table(records: Sequence[RunRecord], suites: Sequence[SuiteRecord] = ()) -> Table:
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
                data_name(record),
                str(record.data["split"]),
                row_name(record),
                str(len(record.seeds)),
                f"{max(r.epochs for r in record.seeds.values()):,}",
                f"{record.seconds:,.1f}",
                _short(each),
                _short(each / len(record.seeds)),
                (device if threads is None else f"{device}, threads: {threads}")
                + _sharing(record, suites),
            )
        )
    title = "Time of an epoch"
    return Table(_EPOCH_HEADS, tuple(rows), "epoch-time", title, _EPOCH_NOTES, left=3)


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


@dataclass(frozen=True)
class KRow:
    """The gates of one Dr row, each number the mean over its seeds.

    Attributes:
        dataset: Name of the dataset, with what sets its features apart.
        split: Its split.
        model: The row's name.
        k: K of every layer.
        saturation: Share of every layer's gate entries at either end; empty in records from
            before it was measured.
        published: K that the paper prints for Dr-ASGCN on this data; empty if it prints none.
        seeds: Number of seeds.
        rebuilt: Whether the features are not those of the paper.
    """

    dataset: str
    split: str
    model: str
    k: tuple[float, ...]
    saturation: tuple[float, ...]
    published: tuple[float, ...]
    seeds: int
    rebuilt: bool = False

    @property
    def cells(self) -> list[str]:
        """The row in words, in the order of :data:`HEADS`."""
        stuck = share_words(self.saturation) or "not measured"
        printed = k_words(self.published)
        if printed and self.rebuilt:
            printed = f"({printed})"
        numbers = [k_words(self.k), stuck, printed, str(self.seeds)]
        return [self.dataset, self.split, self.model, *numbers]


def k_rows(records: Sequence[RunRecord]) -> list[KRow]:
    """One row for every experiment with Dr."""
    return [
        KRow(
            dataset=data_name(record),
            split=record.data["split"],
            model=row_name(record),
            k=summarize(seeds).k,
            saturation=mean_saturation(seeds),
            published=published_k(record.data["name"], record.data["split"]),
            seeds=len(seeds),
            rebuilt=rebuilt(record),
        )
        for record, seeds in merge(records)
        if record.experiment.reweight == "dr"
    ]


def k_table(records: Sequence[RunRecord]) -> Table | None:
    """The rows as a table; ``None`` where no record has Dr."""
    rows = tuple(tuple(row.cells) for row in k_rows(records))
    return Table(HEADS, rows, "k-and-stuck", TITLE, NOTES, left=3) if rows else None


def mean_saturation(results: Results) -> tuple[float, ...]:
    """Mean share of each layer's stuck entries, over the seeds where it was measured."""
    measured = [result.saturation for result in results.values() if result.saturation]
    return tuple(sum(layer) / len(layer) for layer in zip(*measured, strict=True))


def share_words(shares: Sequence[float]) -> str:
    """Shares of every layer in percent; more than none is never shown as none."""

    def word(share: float) -> str:
        return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"

    return " ".join(map(word, shares))


def spectrum_table(records: Sequence[RunRecord]) -> Table | None:
    """One line for every layer of every row with Dr; ``None`` if no record has deciles."""
    rows, pictures, without = [], [], 0
    for record, seeds in merge(records):
        if record.experiment.reweight != "dr":
            continue
        kept = [result.s_deciles for result in seeds.values() if result.s_deciles]
        if not kept:
            without += 1
            continue
        deciles = np.array(kept)  # [seeds, layers, 11]
        for layer, mean in enumerate(deciles.mean(0)):
            widest = float((deciles[:, layer, 9] - deciles[:, layer, 1]).max())
            numbers = [f"{mean[place]:.3f}" for place in (0, 1, 5, 9, 10)]
            name = (data_name(record), str(record.data["split"]), row_name(record))
            rows.append((*name, str(layer + 1), *numbers, f"{widest:.3f}", str(len(kept))))
            pictures.append(_picture(mean.tolist()))
    if not rows:
        return None
    return Table(
        name="spectrum",
        title="Learnt s",
        heads=_SPECTRUM_HEADS,
        rows=tuple(rows),
        notes=_SPECTRUM_NOTES
        if not without
        else (*_SPECTRUM_NOTES, f"Left out: {without} rows. {MISSING}"),
        left=3,
        pictures=tuple(pictures),
    )


def _picture(deciles: Sequence[float]) -> str:
    at = [_EDGE + (_WIDTH - 2 * _EDGE) * value for value in deciles]
    return (
        f'<svg class="interval" viewBox="0 0 {_WIDTH:g} 20" width="{_WIDTH:g}" height="20" '
        f'role="img" aria-label="from {deciles[0]:.2f} to {deciles[10]:.2f}">'
        f'<path class="zero" d="M{_EDGE:g} 0V20M{_WIDTH / 2:g} 0V20M{_WIDTH - _EDGE:g} 0V20"/>'
        f'<path class="whisker dr" d="M{at[0]:.1f} 10H{at[10]:.1f}"/>'
        f'<path class="box dr" d="M{at[1]:.1f} 10H{at[9]:.1f}"/>'
        f'<circle class="mean" cx="{at[5]:.1f}" cy="10" r="4"/></svg>'
    )
