"""An export read back, file by file as needed, each checked against the manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, attribute_rows
from drgcn.recommend.model.embedding import embed_cold
from drgcn.recommend.model.run_folder import load_run
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.retrieval.index import FaissIndex, read_index
from drgcn.recommend.serving.export_files import MANIFEST, ExportManifest, VectorTable
from drgcn.recommend.serving.exporting import (
    ATTRIBUTES,
    INDEX,
    ITEM_ARRAY,
    ITEMS,
    MODEL,
    SEEN,
    USERS,
)
from drgcn.recommend.serving.ids import IdLookup
from drgcn.sampling import CSRGraph


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
        """Load the model and the attributes of users of an export."""
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
    """Return a table whose codes have values; where none were kept, the codes themselves."""
    import pyarrow as pa

    if table.category_values or not table.category_names:
        return table
    texts = [[str(code) for code in range(size)] for size in table.category_sizes]
    values = tuple(pa.array(column, pa.large_string()) for column in texts)
    return replace(table, category_values=values)


class ExportFolder:
    """The files of an export.

    Args:
        folder: What ``drgcn recommend export`` wrote.

    Raises:
        InputError: If it is no export; and, when a file is first used, if the file is not the one
            that the manifest speaks of.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.manifest = ExportManifest.read(self.folder)

    @property
    def num_users(self) -> int:
        """Number of users."""
        return int(self.manifest.users["count"])

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self.manifest.items["count"])

    @cached_property
    def users(self) -> VectorTable:
        """Vectors and ids of users."""
        return self._table(USERS, self.num_users)

    @cached_property
    def items(self) -> Tensor:
        """Vectors of items, 32-bit floats."""
        path = self.manifest.check(self.folder, ITEM_ARRAY)
        array = np.load(path)
        self.manifest.check_shape(self.folder, ITEM_ARRAY, tuple(array.shape), self.num_items)
        return torch.from_numpy(array).float()

    @cached_property
    def user_lookup(self) -> IdLookup:
        """Rows of users by id."""
        return IdLookup(self.users.ids)

    @cached_property
    def item_lookup(self) -> IdLookup:
        """Ids of items by row."""
        return IdLookup(self._table(ITEMS, self.num_items).ids)

    @cached_property
    def index(self) -> FaissIndex | None:
        """The index; ``None`` if the export has none."""
        facts = self.manifest.index
        if facts is None:
            return None
        index = read_index(self.folder / INDEX, facts)
        manifest = self.manifest
        manifest.check_shape(self.folder, INDEX, (index.num_items, index.dim), self.num_items)
        if index.metric != manifest.metric:
            raise InputError(
                f"Expected an index by {manifest.metric}, as {self.folder / MANIFEST} says of the "
                f"vectors; found {index.metric}. Export again."
            )
        return index

    @cached_property
    def seen(self) -> CSRGraph:
        """Items that each user has clicked."""
        if not self.manifest.seen:
            raise InputError(
                f"Expected an export with clicks, to leave out what was seen; {self.folder} was "
                f"written with --no-seen. Export again without it."
            )
        graph = CSRGraph.open(self.manifest.check(self.folder, SEEN))
        if (graph.num_rows, graph.num_cols) != (self.num_users, self.num_items):
            raise InputError(
                f"Expected clicks of {self.num_users} users on {self.num_items} items in "
                f"{self.folder / SEEN}; found {graph.num_rows} and {graph.num_cols}. Export again."
            )
        return graph

    @cached_property
    def cold_users(self) -> ColdUsers:
        """Encoder of users from attributes alone."""
        if not self.manifest.cold_users:
            raise InputError(
                "Expected a model that knows users by attributes; this one knows them by their "
                "clicks alone. Ask for users by id."
            )
        for name in (MODEL, ATTRIBUTES):
            self.manifest.check(self.folder, name)
        return ColdUsers.open(self.folder / MODEL, self.folder / ATTRIBUTES)

    def _table(self, name: str, count: int) -> VectorTable:
        table = VectorTable(self.manifest.check(self.folder, name))
        self.manifest.check_shape(self.folder, name, (len(table), table.dim), count)
        return table
