"""Lists of items for users of an export, by its index or exactly, and tables of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn._io import replacing
from drgcn.errors import InputError
from drgcn.recommend.retrieval.blocks import ItemBlocks
from drgcn.recommend.retrieval.exact import exact_top
from drgcn.recommend.retrieval.index import FaissIndex
from drgcn.recommend.retrieval.ranking import TopItems
from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.exporting import MANY_SEEN
from drgcn.recommend.serving.ids import IdLookup, known_rows
from drgcn.sampling import CSRGraph

#: Users whose lists depend on nobody who is searched with them. From 20 queries on, faiss computes
#: scores by a matrix product, which rounds otherwise.
TOGETHER = 16


@dataclass(frozen=True)
class UserLists:
    """Lists with the ids of the data, best items first.

    Attributes:
        users: The id of each user; ``None`` for one by attributes.
        items: The ids of each user's items.
        scores: Their scores.
        unknown: Ids of users that were left out.
    """

    users: list[int | str | None]
    items: list[list[int | str]]
    scores: list[list[float]]
    unknown: int = 0


class Recommender:
    """Searches an export.

    Args:
        export: The export.
        device: Where exact searches are done.
    """

    def __init__(self, export: ExportFolder, device: torch.device | str = "cpu") -> None:
        self.export = export
        self.device = torch.device(device)
        self._blocks: ItemBlocks | None = None

    def by_ids(
        self,
        ids: Sequence[int | str],
        n: int,
        *,
        exclude_seen: bool = False,
        exact: bool = False,
        skip_unknown: bool = False,
    ) -> UserLists:
        """The lists of users by id."""
        rows, unknown = known_rows(self.export.user_lookup, ids, skip_unknown)
        top = self.for_users(rows, n, exclude_seen=exclude_seen, exact=exact)
        return self._named(self.export.user_lookup.ids(rows.numpy()).to_pylist(), top, unknown)

    def by_attributes(
        self, users: Sequence[Mapping[str, Any]], n: int, *, exact: bool = False
    ) -> UserLists:
        """The lists of users by attributes alone."""
        top = self.for_vectors(self.export.cold_users.vectors(users), n, exact=exact)
        return self._named([None] * len(users), top)

    def by_ids_together(
        self,
        requests: Sequence[Sequence[int | str]],
        n: int,
        *,
        exclude_seen: bool = False,
        exact: bool = False,
    ) -> list[UserLists]:
        """Lists of several requests, as :meth:`by_ids` gives them, by one search.

        Raises:
            InputError: If an id is unknown.
        """
        index = None if exact else self.export.index
        if index is not None and index.kind == "hnsw":  # finds other items in longer searches
            options = {"exclude_seen": exclude_seen, "exact": exact}
            return [self.by_ids(ids, n, **options) for ids in requests]
        ends = list(accumulate((len(ids) for ids in requests), initial=0))
        if ends[-1] > TOGETHER:
            raise InputError(f"Expected at most {TOGETHER} users; found {ends[-1]}.")
        every = [one for ids in requests for one in ids]
        found = self.by_ids(every, n, exclude_seen=exclude_seen, exact=exact)
        return [
            UserLists(found.users[a:b], found.items[a:b], found.scores[a:b])
            for a, b in pairwise(ends)
        ]

    def _named(self, users: list[Any], top: TopItems, unknown: int = 0) -> UserLists:
        real = top.items >= 0
        ends = [0, *real.sum(dim=1).cumsum(0).tolist()]
        ids = self.export.item_lookup.ids(top.items[real].numpy()).to_pylist()
        scores = top.scores[real].tolist()
        places = list(pairwise(ends))
        return UserLists(
            users, [ids[a:b] for a, b in places], [scores[a:b] for a, b in places], unknown
        )

    def for_users(
        self, rows: Tensor, n: int, *, exclude_seen: bool = False, exact: bool = False
    ) -> TopItems:
        """The lists of users by row."""
        seen = _some_rows(self.export.seen, rows) if exclude_seen else None
        return self.for_vectors(self.export.users.rows(rows), n, seen=seen, exact=exact)

    def for_vectors(
        self, vectors: Tensor, n: int, *, seen: CSRGraph | None = None, exact: bool = False
    ) -> TopItems:
        """The lists of vectors ``[q, d]``, on the CPU; -1 where there are fewer items.

        With an index, a user who has seen very many items, or whose list the index cannot fill,
        is searched exactly.

        Args:
            vectors: One for each list.
            n: Length of a list.
            seen: What must not come out, a row for each vector.
            exact: Do without the index.
        """
        if n < 1:
            raise InputError(f"Expected n to be at least one; found {n}.")
        index = None if exact else self.export.index
        if index is None:
            return self._exact(vectors, n, seen)
        left_out = torch.zeros(len(vectors), dtype=torch.int64) if seen is None else seen.degree
        few = left_out <= MANY_SEEN
        top = _by_index(index, vectors, n, seen, few)
        full = (self.export.num_items - left_out).clamp(max=n)
        short = ((top.items >= 0).sum(dim=1) < full).nonzero()[:, 0]
        if short.numel():
            part = None if seen is None else _some_rows(seen, short)
            again = self._exact(vectors[short], n, part)
            top.items[short], top.scores[short] = again.items, again.scores
        return top

    def _exact(self, vectors: Tensor, n: int, seen: CSRGraph | None) -> TopItems:
        if self._blocks is None:
            items = self.export.items.to(self.device)
            self._blocks = ItemBlocks.of(items, self.export.manifest.metric)
        exclude = None if seen is None else seen.to(self.device)
        top = exact_top(vectors.to(self.device), self._blocks, n, exclude=exclude)
        return TopItems(top.scores.cpu(), top.items.cpu(), top.widened, top.scanned)


def _by_index(
    index: FaissIndex, vectors: Tensor, n: int, seen: CSRGraph | None, few: Tensor
) -> TopItems:
    """Lists of the index for users who have seen few items; empty for the others."""
    if seen is None:
        return index.search(vectors, n)
    top = TopItems(
        torch.full((len(vectors), n), -torch.inf),
        torch.full((len(vectors), n), -1, dtype=torch.int64),
    )
    some = few.nonzero()[:, 0]
    if some.numel():
        exclude = _some_rows(seen, some)
        found = index.search(
            vectors[some], n, exclude=exclude, exclude_rows=torch.arange(some.numel())
        )
        width = found.items.size(1)
        top.items[some, :width], top.scores[some, :width] = found.items, found.scores
    return top


def _some_rows(graph: CSRGraph, rows: Tensor) -> CSRGraph:
    """Some rows as a matrix of their own."""
    start, end = graph.rowptr[rows].long(), graph.rowptr[rows + 1].long()
    size = end - start
    rowptr = torch.cat([size.new_zeros(1), size.cumsum(0)])
    owner = torch.arange(rows.numel()).repeat_interleave(size)
    entry = torch.arange(owner.numel()) - rowptr[owner] + start[owner]
    return CSRGraph(rowptr, graph.col[entry], graph.num_cols)


def list_table(users: IdLookup, items: IdLookup, rows: Tensor, top: TopItems) -> Any:
    """Columns ``user``, ``rank`` (from 1), ``item`` and ``score``, with the ids of the data."""
    import pyarrow as pa

    found = top.items.numpy()
    real = found >= 0
    owner = np.broadcast_to(rows.numpy()[:, None], found.shape)[real]
    rank = np.broadcast_to(np.arange(1, found.shape[1] + 1, dtype=np.int32), found.shape)[real]
    columns = [users.ids(owner), pa.array(rank), items.ids(found[real])]
    return pa.table(
        [*columns, pa.array(top.scores.numpy()[real])], names=["user", "rank", "item", "score"]
    )


class ListWriter:
    """Takes tables of lists one after another."""

    def __init__(self, path: Path, final: Path) -> None:
        self.path, self.is_csv = path, final.suffix.lower() == ".csv"
        self.writer: Any = None
        self.rows = 0

    def add(self, table: Any) -> None:
        """Writes a table."""
        if self.writer is None:
            from pyarrow import csv, parquet

            kind = csv.CSVWriter if self.is_csv else parquet.ParquetWriter
            self.writer = kind(self.path, table.schema)
        self.writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Ends the file."""
        if self.writer is not None:
            self.writer.close()


@contextmanager
def list_writer(path: Path) -> Iterator[ListWriter]:
    """A writer to a .parquet or .csv file that is there as a whole or not at all."""
    if path.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InputError(f"Expected --out to end in .parquet or .csv; found {path.name}.")
    with replacing(path) as partial, closing(ListWriter(partial, path)) as writer:
        yield writer
