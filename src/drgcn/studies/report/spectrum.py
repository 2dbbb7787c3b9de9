"""How the entries of learnt vectors lie between 0 and 1, layer by layer, from run records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from drgcn.studies.report.tables import data_name, merge, row_name
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.run_record import RunRecord

_HEADS: Final = (
    *("dataset", "split", "model", "layer", "least", "10 %", "median", "90 %", "greatest"),
    *("widest seed", "seeds"),
)
_NOTES: Final = (
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


def spectrum_table(records: Sequence[RunRecord]) -> TextTable | None:
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
    return TextTable(
        name="spectrum",
        title="Learnt s",
        heads=_HEADS,
        rows=tuple(rows),
        notes=_NOTES if not without else (*_NOTES, f"Left out: {without} rows. {MISSING}"),
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
