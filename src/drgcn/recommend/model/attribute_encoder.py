"""From the attributes of a node to the vector that enters the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.model.attribute_summary import AttributeSummary, signed_log
from drgcn.recommend.model.encoded_attributes import EncodedAttributes
from drgcn.streams import mix

LARGEST_COLUMN = 1_000_000
_ALIGNED = 8
_CHUNK = 1 << 20
_SCALE = 1 << 24  # numbers in a table from which half precision is worth its rounding


class AttributeEncoder(torch.nn.Module):
    """Standardised numbers, missing flags, embeddings of categories, and perhaps of the node.

    Raw scales would saturate the gates that follow, so numbers go through a signed logarithm and
    are standardised by the statistics of the training data, which the model keeps. Missing numbers
    become zero (the mean) and raise their column's flag. All categories share one table of
    embeddings with an offset for each column. A column has a row of its own for what is missing or
    was not there in training, and is hashed if it has more than a million values.

    Args:
        summary: Columns and statistics.
        embedding_channels: Width of a category's embedding.
        id_channels: Width of an embedding of the node itself; 0 for none, so that the model works
            for nodes it has never seen.
        id_rows: Rows of that table, if nodes are to share them by hash. (default: one each)
    """

    def __init__(
        self,
        summary: AttributeSummary,
        *,
        embedding_channels: int = 8,
        id_channels: int = 0,
        id_rows: int | None = None,
    ) -> None:
        super().__init__()
        self.summary = summary
        self.embedding_channels = embedding_channels
        self.id_channels = id_channels
        self.hashed = id_rows is not None
        self.id_rows = id_rows if id_rows is not None else summary.num_nodes
        sizes = [min(size, LARGEST_COLUMN) for size in summary.category_sizes]
        self.rows = sum(size + 1 for size in sizes)  # and one more that stands for nobody
        self.register_buffer("mean", torch.tensor(summary.mean, dtype=torch.float64))
        self.register_buffer("deviation", torch.tensor(summary.deviation, dtype=torch.float64))
        self.mean: Tensor
        self.deviation: Tensor
        self.table = torch.nn.Parameter(torch.empty(self.rows + 1, embedding_channels))
        self.id_table: torch.nn.Parameter | None
        ids = torch.empty(self.id_rows + 1, id_channels) if id_channels else None
        self.register_parameter("id_table", None if ids is None else torch.nn.Parameter(ids))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws embeddings of length about one; nobody's is zero and stays zero."""
        for table in (self.table, self.id_table):
            if table is not None:
                torch.nn.init.normal_(table, std=table.size(1) ** -0.5)
                with torch.no_grad():
                    table[-1] = 0

    @property
    def numeric_channels(self) -> int:
        """Columns of numbers and flags, filled up to a multiple of eight.

        Products on tensor cores want that, and a row of half-precision numbers then lies in whole
        sectors of memory.
        """
        used = len(self.summary.numeric_names) + len(self.summary.flagged)
        return -(-used // _ALIGNED) * _ALIGNED

    @property
    def out_channels(self) -> int:
        """Width of an encoded node."""
        categories = len(self.summary.category_names) * self.embedding_channels
        return self.numeric_channels + categories + self.id_channels

    @torch.no_grad()
    def prepare(
        self,
        table: AttributeTable | None,
        *,
        num_nodes: int | None = None,
        known: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> EncodedAttributes:
        """Standardises all numbers and numbers all categories, once and in pieces.

        Args:
            table: Attributes with the columns of the summary.
            num_nodes: Number of rows where there is no table. (default: the summary's)
            known: Rows are the nodes of the training data in their order, and may use their ids.
            dtype: Of the numbers. (default: half precision for large tables on CUDA, else single)
            device: Where to. (default: that of the parameters)
        """
        device = torch.device(device) if device is not None else self.table.device
        nodes = len(table) if table is not None else num_nodes or self.summary.num_nodes
        self._check(table, nodes if known else None)
        if dtype is None:
            large = device.type == "cuda" and nodes * self.numeric_channels >= _SCALE
            dtype = torch.float16 if large else torch.get_default_dtype()
        columns = len(self.summary.category_names)
        numeric = torch.zeros(nodes + 1, self.numeric_channels, dtype=dtype, device=device)
        codes = torch.full((nodes + 1, columns), self.rows, dtype=torch.int32, device=device)
        for begin in range(0, nodes if table is not None else 0, _CHUNK):
            assert table is not None
            piece = slice(begin, min(begin + _CHUNK, nodes))
            numbers = self._numbers(table.numeric[piece].to(device))
            numeric[piece, : numbers.size(1)] = numbers.to(dtype)
            codes[piece] = self._codes(table.categories[piece].to(device))
        return EncodedAttributes(numeric, codes, self._ids(nodes, known, device))

    def _numbers(self, x: Tensor) -> Tensor:
        x = (signed_log(x.double()) - self.mean.to(x.device)) / self.deviation.to(x.device)
        flags = x[:, list(self.summary.flagged)].isnan()
        # The finite range of half precision is wide enough for anything a z-score should be.
        x = x.nan_to_num(0.0, posinf=1e4, neginf=-1e4).clamp(-1e4, 1e4)
        return torch.cat([x, flags.to(x.dtype)], dim=1)

    def _codes(self, categories: Tensor) -> Tensor:
        found, offset = [], 0
        for column, size in enumerate(self.summary.category_sizes):
            code, kept = categories[:, column].long(), min(size, LARGEST_COLUMN)
            known = (code >= 0) & (code < size)
            if size > kept:
                code = (mix(code) & ((1 << 62) - 1)) % kept
            found.append(torch.where(known, code, kept) + offset)
            offset += kept + 1
        return torch.stack(found, dim=1).int() if found else categories.int()

    def _ids(self, nodes: int, known: bool, device: torch.device) -> Tensor | None:
        if self.id_table is None:
            return None
        ids = torch.full((nodes + 1,), self.id_rows, dtype=torch.int32, device=device)
        if known:
            number = torch.arange(nodes, device=device)
            hashed = (mix(number) & ((1 << 62) - 1)) % self.id_rows
            ids[:-1] = (hashed if self.hashed else number).int()
        return ids

    def _check(self, table: AttributeTable | None, nodes: int | None) -> None:
        names = (self.summary.numeric_names, self.summary.category_names)
        found = ((), ()) if table is None else (table.numeric_names, table.category_names)
        if found != names:
            raise InputError(
                f"Expected the attributes the model was made for, {names[0]} and {names[1]}; "
                f"found {found[0]} and {found[1]}. Use the data it was trained on."
            )
        if nodes is not None and nodes != self.summary.num_nodes:
            raise InputError(
                f"Expected {self.summary.num_nodes} rows of attributes, as in training; found "
                f"{nodes}."
            )
