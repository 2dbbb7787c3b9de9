"""Encode attributes of nodes as input vectors of the first layer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.streams import mix

_CHUNK = 1 << 20
LARGEST_COLUMN = 1_000_000
_ALIGNED = 8
_SCALE = 1 << 24  # numbers in a table from which half precision is worth its rounding


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


@dataclass(frozen=True, eq=False)
class EncodedAttributes:
    """Attributes as :meth:`AttributeEncoder.prepare` encodes them once. The last row is padding.

    Attributes:
        numeric: Standardised numbers and missing flags ``[nodes + 1, columns]``; zeros at the end.
        codes: Rows of the fused table of categories ``[nodes + 1, categories]``, int32.
        ids: Rows of the table of ids ``[nodes + 1]``, int32; ``None`` without one.
    """

    numeric: Tensor
    codes: Tensor
    ids: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, which is also the number of the padding row."""
        return self.numeric.size(0) - 1


@dataclass(frozen=True, eq=False)
class ClickAttributes:
    """The encoded attributes of both sides.

    Attributes:
        user: Those of users.
        item: Those of items.
    """

    user: EncodedAttributes
    item: EncodedAttributes

    def __getitem__(self, side: str) -> EncodedAttributes:
        return self.user if side == "user" else self.item


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
        self.rows = sum(size + 1 for size in sizes)  # and one more for padding
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
        """Draw embeddings of length about one; the padding row is zero and stays zero."""
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
        known: bool | Tensor = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> EncodedAttributes:
        """Standardise all numbers and number all categories, once and in pieces.

        Args:
            table: Attributes with the columns of the summary.
            num_nodes: Number of rows where there is no table. (default: the summary's)
            known: Rows are the nodes of the training data in their order, and may use their ids;
                or the number of the node in each row ``[rows]``.
            dtype: Of the numbers. (default: half precision for large tables on CUDA, else single)
            device: Where to. (default: that of the parameters)
        """
        device = torch.device(device) if device is not None else self.table.device
        nodes = len(table) if table is not None else num_nodes or self.summary.num_nodes
        self._check(table, nodes if known is True else None)
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

    def _ids(self, nodes: int, known: bool | Tensor, device: torch.device) -> Tensor | None:
        if self.id_table is None:
            return None
        ids = torch.full((nodes + 1,), self.id_rows, dtype=torch.int32, device=device)
        if known is not False:
            number = torch.arange(nodes, device=device) if known is True else known.to(device)
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


if triton_available():
    from drgcn.recommend.model.kernels import encoded_mean, encoded_mean_backward
else:
    encoded_mean = encoded_mean_backward = None  # type: ignore[assignment]


def encode_means(
    encoder: AttributeEncoder,
    attributes: EncodedAttributes,
    nodes: Tensor,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """For each row of ``nodes``, the mean of the encoded vectors of nodes that are no padding.

    The tensor ``[rows, count, channels]`` never exists: numbers and categories are gathered and
    added in one go, by ``embedding_bag`` or by one kernel of our own on CUDA.

    Args:
        encoder: The encoder of their side.
        attributes: What it prepared.
        nodes: ``[rows, count]``; one in a row gives the vector of that node.
        dtype: Of the result. (default: that of the embeddings)

    Returns:
        ``[rows, channels]``, zero for a row of padding.
    """
    dtype = dtype or encoder.table.dtype
    ids = encoder.id_table, attributes.ids
    if _fits(encoder.table, nodes):
        numbers, codes = attributes.numeric, attributes.codes
        parts = [_EncodedMean.apply(encoder.table, nodes, numbers, codes, dtype)]
    else:
        parts = [_numbers(attributes, nodes), _categories(encoder, attributes, nodes)]
    if ids[0] is not None and ids[1] is not None:
        if _fits(ids[0], nodes):  # as the only category, without numbers
            nothing = attributes.numeric[:, :0]
            parts.append(_EncodedMean.apply(ids[0], nodes, nothing, ids[1][:, None], dtype))
        else:
            bags, padding = ids[1][nodes], encoder.id_rows
            parts.append(F.embedding_bag(bags, ids[0], mode="mean", padding_idx=padding))
    parts = [part.to(dtype) for part in parts if part.size(1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def encode_bags(
    encoder: AttributeEncoder, attributes: EncodedAttributes, nodes: Tensor, offsets: Tensor
) -> Tensor:
    """The same for bags of different sizes: ``nodes`` one after the other, and where each bag
    begins. For inference."""
    dtype = encoder.table.dtype
    parts = []
    if attributes.numeric.size(1):
        parts.append(F.embedding_bag(nodes, attributes.numeric, offsets, mode="mean").to(dtype))
    for column in range(attributes.codes.size(1)):
        codes = attributes.codes[nodes, column].to(offsets.dtype)
        parts.append(F.embedding_bag(codes, encoder.table, offsets, mode="mean"))
    if encoder.id_table is not None:
        assert attributes.ids is not None
        ids = attributes.ids[nodes].to(offsets.dtype)
        parts.append(F.embedding_bag(ids, encoder.id_table, offsets, mode="mean"))
    return torch.cat(parts, dim=1)


def _numbers(attributes: EncodedAttributes, nodes: Tensor) -> Tensor:
    if not attributes.numeric.size(1):
        return attributes.numeric.new_empty(nodes.size(0), 0)
    if nodes.size(1) == 1:
        return attributes.numeric.index_select(0, nodes[:, 0])
    return F.embedding_bag(
        nodes, attributes.numeric, mode="mean", padding_idx=attributes.num_nodes
    )


def _categories(encoder: AttributeEncoder, attributes: EncodedAttributes, nodes: Tensor) -> Tensor:
    columns = attributes.codes.size(1)
    if not columns:
        return encoder.table.new_empty(nodes.size(0), 0)
    if nodes.size(1) == 1:  # on CPU a gradient without a sort
        codes = attributes.codes.index_select(0, nodes[:, 0])
        return F.embedding(codes, encoder.table, padding_idx=encoder.rows).flatten(1)
    bags = attributes.codes[nodes].transpose(1, 2).flatten(0, 1)  # one per row and column
    found = F.embedding_bag(bags, encoder.table, mode="mean", padding_idx=encoder.rows)
    return found.unflatten(0, (-1, columns)).flatten(1)


def _fits(table: Tensor, nodes: Tensor) -> bool:
    """True if the Triton kernel applies, which needs a width that is a power of two."""
    width = table.size(1)
    fits = table.dtype == torch.float32 and width & (width - 1) == 0
    return encoded_mean is not None and nodes.is_cuda and fits


class _EncodedMean(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, nodes: Tensor, numeric: Tensor, codes: Tensor, dtype: torch.dtype
    ) -> Tensor:
        nodes = nodes.contiguous()
        ctx.save_for_backward(nodes, codes)
        ctx.rows, ctx.numbers = table.shape, numeric.size(1)
        return encoded_mean(table, nodes, numeric, codes, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        nodes, codes = ctx.saved_tensors
        grad_table = None
        if ctx.needs_input_grad[0]:
            grad = grads[0].contiguous()
            grad_table = encoded_mean_backward(grad, nodes, codes, ctx.rows, ctx.numbers)
        return grad_table, None, None, None, None
