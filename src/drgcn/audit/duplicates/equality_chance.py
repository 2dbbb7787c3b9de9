"""How likely a row is to be equal to another by chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.feature_rows import filled
from drgcn.audit.duplicates.overlap_chance import log_chance
from drgcn.data.features import Features

_SAMPLE = 1 << 16


def log_chance_of_equality(
    rows: Features, nodes: npt.NDArray[np.int64], seed: int = 0
) -> npt.NDArray[np.float64]:
    """Upper bound of the log probability that another row equals each of some rows.

    Of sparse rows: that a row with as many non-zero entries has them in the same columns (see
    ``overlap_chance.log_chance``). Of dense ones: that independent columns all take the row's
    values. A row of two frequent words, or of three yes or no columns, is often
    equal to another without being the same.

    Args:
        rows: Checked rows, dense or CSR as their content has it.
        nodes: The rows asked about.
        seed: Seed of the sample of rows that frequencies are taken from.
    """
    if sparse.issparse(rows):
        return log_chance(filled(rows), np.stack([nodes, nodes], axis=1))
    sample = rows
    if len(rows) > _SAMPLE:
        chosen = np.random.default_rng(seed).choice(len(rows), _SAMPLE, replace=False)
        sample = rows[np.sort(chosen)]
    total = np.zeros(len(nodes))
    for column in range(rows.shape[1]):
        values = np.sort(sample[:, column])
        asked = rows[nodes, column]
        count = np.searchsorted(values, asked, "right") - np.searchsorted(values, asked)
        # One more than was seen, since a value that no row of the sample has is possible still.
        total += np.log((count + 1) / (len(values) + 1))
    return total
