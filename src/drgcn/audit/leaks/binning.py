"""Columns cut into few groups of values, as indicators of zero and one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.features import Features

# A column with so few values keeps them; one with more is cut.
_FEW_VALUES: Final = 16


@dataclass(frozen=True)
class Groups:
    """Which group of values each node is in, for some columns.

    Attributes:
        indicators: ``[nodes, groups]``, one where a node is in a group. Every column has one
            group more that is not written down: the nodes in none of its groups.
        starts: Where the groups of each column begin; every column has at least one.
    """

    indicators: sparse.csc_array
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, x: Features, bins: int = 8) -> Groups:
        """The groups of all columns.

        A column that is zero for half of the nodes or more, as word counts are, has two groups:
        zero and not zero. One with at most 16 values has a group for each. Any other is cut at
        its quantiles.

        Args:
            x: Features, an array or a sparse array, all finite.
            bins: How many groups a column is cut into.
        """
        columns = sparse.csc_array(x, copy=True)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        nodes, width = columns.shape
        parts, starts, groups = [], [], 0
        for number in range(width):
            entries = slice(columns.indptr[number], columns.indptr[number + 1])
            rows, values = columns.indices[entries], columns.data[entries]
            starts.append(groups)
            if 2 * len(rows) <= nodes:
                parts.append((rows, np.full(len(rows), groups)))
                groups += 1
                continue
            whole = np.zeros(nodes, dtype=columns.dtype)
            whole[rows] = values
            code = _cut(whole, bins)
            inside = np.flatnonzero(code)
            parts.append((inside, groups + code[inside] - 1))
            groups += max(int(code.max(initial=0)), 1)
        ones = np.ones(sum(len(rows) for rows, _ in parts), dtype=np.float32)
        rows, places = (np.concatenate(part) for part in zip(*parts, strict=True))
        indicators = sparse.csc_array((ones, (rows, places)), shape=(nodes, groups))
        return cls(indicators, np.array(starts, dtype=np.int64))


def _cut(values: npt.NDArray[np.floating], bins: int) -> npt.NDArray[np.int64]:
    """The group of each value, from 0."""
    distinct, code = np.unique(values, return_inverse=True)
    if len(distinct) <= _FEW_VALUES:
        return code.astype(np.int64)
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    return np.searchsorted(edges, values, side="right").astype(np.int64)
