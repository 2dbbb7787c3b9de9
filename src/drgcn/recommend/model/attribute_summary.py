"""What a model has to know of the attributes of one side before it sees a row of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.recommend.clicks.attribute_table import AttributeTable

_CHUNK = 1 << 20


@dataclass(frozen=True)
class AttributeSummary:
    """Columns of an attribute table, with the statistics of its numbers in the training data.

    Attributes:
        num_nodes: Users, or items, in all.
        numeric_names: Names of the columns of numbers.
        mean: Mean of each, after the signed logarithm, over values that are not missing.
        deviation: Standard deviation likewise; one where a column does not vary.
        flagged: Places of the columns in which values are missing: each has a flag of its own.
        category_names: Names of the columns of categories.
        category_sizes: How many codes each may hold.
    """

    num_nodes: int
    numeric_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    flagged: tuple[int, ...] = ()
    category_names: tuple[str, ...] = ()
    category_sizes: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, table: AttributeTable | None, num_nodes: int, seen: Tensor | None = None
    ) -> AttributeSummary:
        """The summary of a table, read in pieces.

        Args:
            table: The attributes; ``None`` if nothing is known.
            num_nodes: Number of nodes.
            seen: Which rows count ``[num_nodes]``, true for nodes that occur in the training
                clicks. (default: all)
        """
        if table is None:
            return cls(num_nodes)
        columns = len(table.numeric_names)
        count, total, squares = torch.zeros(3, columns, dtype=torch.float64)
        rows = 0
        for begin in range(0, len(table), _CHUNK):
            x = signed_log(table.numeric[begin : begin + _CHUNK].double())
            if seen is not None:
                x = x[seen[begin : begin + _CHUNK].to(x.device)]
            known = ~x.isnan()
            x = torch.where(known, x, 0.0)
            rows += x.size(0)
            count += known.sum(0).cpu()
            total += x.sum(0).cpu()
            squares += x.square().sum(0).cpu()
        mean = total / count.clamp(min=1)
        variance = (squares / count.clamp(min=1) - mean.square()).clamp(min=0)
        # Rounding leaves a constant column a variance in the order of its square.
        varies = variance > 1e-12 * mean.square().clamp(min=1e-12)
        deviation = torch.where(varies, variance.sqrt(), 1.0)
        return cls(
            num_nodes,
            table.numeric_names,
            tuple(mean.tolist()),
            tuple(deviation.tolist()),
            tuple((count < rows).nonzero().flatten().tolist()),
            table.category_names,
            table.category_sizes,
        )

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> AttributeSummary:
        """The summary that :meth:`to_json` wrote."""
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
        }
        return cls(**options)


def signed_log(x: Tensor) -> Tensor:
    """``sign(x) log(1 + |x|)``: brings columns of very different scales near each other."""
    return x.sign() * x.abs().log1p()
