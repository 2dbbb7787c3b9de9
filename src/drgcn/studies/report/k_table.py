"""Learnt K and stuck gates, layer by layer, from run records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drgcn.studies.comparison import Results, k_words, summarize
from drgcn.studies.paper.published_k import published_k
from drgcn.studies.report.tables import data_name, merge, rebuilt, row_name
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.run_record import RunRecord

HEADS = (
    *("dataset", "split", "model", "K per layer", "stuck per layer"),
    *("paper: Dr-ASGCN", "seeds"),
)

TITLE = "Learnt K and stuck gates"
NOTES = (
    "Means over seeds, first layer first. K is the variance across feature dimensions after "
    "reweighting, relative to before; a constant gate has K = 1. Stuck is the share of gate "
    "entries within 0.001 of 0 or 1, where they hardly learn; records from before it was measured "
    "have none. The paper prints K for Dr-ASGCN alone, a sampled model (Table 5): beside a row "
    "for comparison, not as what it should reach; in brackets, for other features.",
)


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


def k_table(records: Sequence[RunRecord]) -> TextTable | None:
    """The rows as a table; ``None`` where no record has Dr."""
    rows = tuple(tuple(row.cells) for row in k_rows(records))
    return TextTable("k-and-stuck", TITLE, HEADS, rows, NOTES, left=3) if rows else None


def mean_saturation(results: Results) -> tuple[float, ...]:
    """Mean share of each layer's stuck entries, over the seeds where it was measured."""
    measured = [result.saturation for result in results.values() if result.saturation]
    return tuple(sum(layer) / len(layer) for layer in zip(*measured, strict=True))


def share_words(shares: Sequence[float]) -> str:
    """Shares of every layer in percent; more than none is never shown as none."""

    def word(share: float) -> str:
        return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"

    return " ".join(map(word, shares))
