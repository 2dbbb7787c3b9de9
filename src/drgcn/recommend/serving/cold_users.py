"""Users whom nobody has seen before, embedded from their attributes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_rows import attribute_rows
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.cold_embedding import embed_cold
from drgcn.recommend.model.run_folder import load_run


@dataclass(frozen=True, eq=False)
class ColdUsers:
    """The model without neighbours: its Dr gates are frozen and folded into the weights.

    Attributes:
        model: The model.
        table: Names and codes of the attributes; it has no rows.
    """

    model: ClickSAGE
    table: AttributeTable

    @classmethod
    def open(cls, model: Path, attributes: Path) -> ColdUsers:
        """What an export holds of the model and of the attributes of users."""
        loaded, _ = load_run(model)
        if not isinstance(loaded, ClickSAGE):
            raise InputError(f"Expected a SAGE model in {model}; found {type(loaded).__name__}.")
        return cls(loaded, _with_values(AttributeTable.load(attributes, mmap=False)))

    @torch.no_grad()
    def vectors(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """Embeddings ``[rows, d]``.

        Args:
            rows: The attributes of each user by name. One that is not named or ``None`` is
                missing, as is a category that training has not seen.

        Raises:
            InputError: If a name is unknown, or a number is none.
        """
        for number, row in enumerate(rows):
            for name, value in row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InputError(
                        f"Expected finite numbers; found {value} for {name!r} of user {number}. "
                        f"Leave out what is not known, or give null."
                    )
        try:
            table = attribute_rows(self.table, rows)
        except UnicodeEncodeError as error:
            raise InputError(
                f"Expected categories that are text; found {error.object!r}, with half a "
                f"character."
            ) from None
        return embed_cold(self.model, "user", table)


def _with_values(table: AttributeTable) -> AttributeTable:
    """Where nobody kept the values behind codes, the codes are the values."""
    import pyarrow as pa

    if table.category_values or not table.category_names:
        return table
    texts = [[str(code) for code in range(size)] for size in table.category_sizes]
    values = tuple(pa.array(column, pa.large_string()) for column in texts)
    return replace(table, category_values=values)
