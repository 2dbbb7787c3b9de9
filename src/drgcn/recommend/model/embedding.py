"""Embeddings of all users and items, layer by layer, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.nn.sparse import spmm
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.model.encoder import ClickAttributes, encode_bags, encode_means
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.sampling import Side, draw_systematic, other, rows_of
from drgcn.sampling.graph import CSRGraph
from drgcn.streams import stream_key

_SIDES: tuple[Side, Side] = ("user", "item")
_ROWS = 1 << 17
_ENTRIES = 1 << 22

Tables = dict[Side, Tensor]


@torch.no_grad()
def embed_all(
    model: ClickSAGE | LightGCN,
    data: ClickData | ClickAttributes,
    graph: ClickGraph,
    *,
    fan_outs: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Embeddings ``[users, d]`` and ``[items, d]`` from the clicks of a graph.

    A layer is computed for all nodes before the next, so each vector is computed once. Nodes go
    through in pieces: beside the tables of two layers, memory holds one piece.

    Args:
        model: A trained model; its Dr blocks must be frozen.
        data: The attributes, as they are or prepared.
        graph: Whose clicks make neighbours; on the device of the model.
        fan_outs: Neighbours drawn for a node in each layer, from the roots on as in training, with
            draws that do not depend on anything else. (default: all neighbours, exact)
        dtype: Of the tables between layers and of the result, float16 to save memory. (default:
            that of the weights)
    """
    if isinstance(model, LightGCN):
        if isinstance(model, AttributedLightGCN):
            known = data if isinstance(data, ClickAttributes) else model.prepare_attributes(data)
            users, items = model(model.inputs(graph, known))
        else:
            users, items = model(model.prepare(graph))
        return (users, items) if dtype is None else (users.to(dtype), items.to(dtype))
    model.check_frozen()
    attributes = _prepared(model, data)
    tables: Tables = {}
    for number in range(len(model.layers)):
        tables = _layer(model, number, attributes, tables, graph, fan_outs, dtype)
    return tables["user"], tables["item"]


@torch.no_grad()
def freeze(
    model: ClickSAGE,
    data: ClickData | ClickAttributes,
    graph: ClickGraph,
    *,
    fan_outs: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Show the whole graph to the Dr blocks, layer by layer, and keep the pooled means.

    Every click counts once on both of its sides, which is what training batches estimate. Without
    Dr blocks there is nothing to do.

    Args:
        model: The model, changed in place.
        data: The attributes, as they are or prepared.
        graph: The clicks it was trained on.
        fan_outs: As in :func:`embed_all`.
        dtype: As in :func:`embed_all`.
    """
    if any(layer.needs_means for layer in model.sage_layers):
        attributes = _prepared(model, data)
        tables: Tables = {}
        for number, layer in enumerate(model.sage_layers):
            layer.freeze({s: _click_mean(model, s, attributes, tables, graph) for s in _SIDES})
            if number + 1 < len(model.layers):
                tables = _layer(model, number, attributes, tables, graph, fan_outs, dtype)
    model.frozen.fill_(True)


def _prepared(model: ClickSAGE, data: ClickData | ClickAttributes) -> ClickAttributes:
    return data if isinstance(data, ClickAttributes) else model.prepare(data)


def _layer(
    model: ClickSAGE,
    number: int,
    attributes: ClickAttributes,
    tables: Tables,
    graph: ClickGraph,
    fan_outs: Sequence[int] | None,
    dtype: torch.dtype | None,
) -> Tables:
    """The output of one layer for all nodes, from that of the layer before."""
    layer = model.sage_layers[number]
    last = number + 1 == len(model.layers)
    weights = layer.folded(layer.gate_vectors(layer.frozen_means()))
    if fan_outs is not None and len(fan_outs) != len(model.layers):
        raise InputError(
            f"Expected a fan-out for each of {len(model.layers)} layers; found {list(fan_outs)}."
        )
    # The first layer reads the deepest level of a tree.
    count = None if fan_outs is None else fan_outs[len(model.layers) - 1 - number]
    out: Tables = {}
    for side in _SIDES:
        rows = rows_of(graph, side)
        width = layer.bias[side].numel()
        kind = dtype or layer.bias[side].dtype
        out[side] = torch.empty(rows.num_rows, width, dtype=kind, device=rows.col.device)
        for piece in _pieces(rows):
            own = _own(model, side, attributes, tables, piece)
            mean = _mean(model, other(side), attributes, tables, rows, piece, count, number)
            found = layer.apply_weights(weights[side], own, mean)
            out[side][piece] = (model.finished(found) if last else F.relu(found)).to(kind)
    return out


def _own(
    model: ClickSAGE, side: Side, attributes: ClickAttributes, tables: Tables, piece: slice
) -> Tensor:
    if tables:
        return tables[side][piece].to(model.encoder(side).table.dtype)
    nodes = torch.arange(piece.start, piece.stop, device=attributes[side].numeric.device)
    return encode_means(model.encoder(side), attributes[side], nodes[:, None])


def _mean(
    model: ClickSAGE,
    side: Side,
    attributes: ClickAttributes,
    tables: Tables,
    rows: CSRGraph,
    piece: slice,
    count: int | None,
    number: int,
) -> Tensor:
    """Means over the neighbours, on ``side``, of a piece of the rows."""
    encoder = model.encoder(side)
    kind = encoder.table.dtype
    if count is not None:
        key = torch.tensor(stream_key(number, "batches"), device=rows.col.device)
        nodes = torch.arange(piece.start, piece.stop, device=rows.col.device)
        drawn = draw_systematic(rows, nodes, count, key, piece.start)
        if not tables:
            return encode_means(encoder, attributes[side], drawn)
        # A draw is either complete or empty: a node without neighbours has a mean of zero.
        known = drawn[:, :1] < rows.num_cols
        bags = F.embedding_bag(torch.where(known, drawn, 0), tables[side], mode="mean")
        return torch.where(known, bags.to(kind), 0)
    ends = rows.rowptr[piece.start : piece.stop + 1]
    begin, end = int(ends[0]), int(ends[-1])
    nodes, offsets = rows.col[begin:end].long(), (ends[:-1] - begin).long()
    if not tables:
        return encode_bags(encoder, attributes[side], nodes, offsets)
    return F.embedding_bag(nodes, tables[side], offsets, mode="mean").to(kind)


def _click_mean(
    model: ClickSAGE, side: Side, attributes: ClickAttributes, tables: Tables, graph: ClickGraph
) -> Tensor:
    """The mean of a layer's input over clicks: every node as often as it was clicked or clicks."""
    rows = rows_of(graph, side)
    width = tables[side].size(1) if tables else model.encoder(side).out_channels
    total = torch.zeros(width, dtype=torch.float64, device=rows.col.device)
    for begin in range(0, rows.num_rows, _ROWS):
        piece = slice(begin, min(begin + _ROWS, rows.num_rows))
        own = _own(model, side, attributes, tables, piece)
        degree = rows.rowptr[piece.start : piece.stop + 1].diff()
        total += torch.mv(own.t(), degree.to(own.dtype)).double()
    return (total / max(rows.num_entries, 1)).to(model.encoder(side).table.dtype)


def _pieces(rows: CSRGraph) -> Iterator[slice]:
    """Ranges of rows with a bounded number of entries, but for single rows that have more."""
    ends = rows.rowptr[1:].cpu()
    begin = before = 0
    while begin < rows.num_rows:
        last = int(torch.searchsorted(ends, torch.tensor(before + _ENTRIES), right=True))
        end = min(max(last, begin + 1), begin + _ROWS, rows.num_rows)
        yield slice(begin, end)
        begin, before = end, int(ends[end - 1])


def embed_cold(
    model: ClickSAGE | AttributedLightGCN,
    side: Side,
    table: AttributeTable | None,
    num_nodes: int | None = None,
) -> Tensor:
    """Embeddings by attributes alone, of nodes that have no clicks or were never seen.

    Args:
        model: A model that has seen the whole graph, see
            :func:`~drgcn.recommend.model.embedding.freeze`.
        side: Users or items.
        table: Their attributes.
        num_nodes: How many, where there are no attributes.
    """
    own = _own_part(model, side, table, num_nodes)
    if isinstance(model, AttributedLightGCN):
        return model.finished(own)
    nothing = [
        own.new_zeros(own.size(0), layer.in_channels[other(side)]) for layer in model.sage_layers
    ]
    return model.finished(_through_layers(model, side, own, nothing))


def _own_part(
    model: ClickSAGE | AttributedLightGCN,
    side: Side,
    table: AttributeTable | None,
    num_nodes: int | None,
    known: bool | Tensor = False,
) -> Tensor:
    """Own part of nodes by their attributes: inputs of the first layer, or parts of vectors.

    SAGE may know the numbers that the nodes had in training.
    """
    encoder = model.encoder(side)
    if isinstance(model, AttributedLightGCN):
        attributes = encoder.prepare(table, num_nodes=num_nodes, known=False)
        return model.from_attributes(side, attributes)
    model.check_frozen()
    attributes = encoder.prepare(table, num_nodes=num_nodes, known=known)
    nodes = torch.arange(attributes.num_nodes, device=attributes.numeric.device)
    return encode_means(encoder, attributes, nodes[:, None])


def _through_layers(model: ClickSAGE, side: Side, own: Tensor, means: Sequence[Tensor]) -> Tensor:
    """The last layer's output for nodes whose neighbours have these means in each layer."""
    h = own
    for number, (layer, mean) in enumerate(zip(model.sage_layers, means, strict=True)):
        weights = layer.folded(layer.gate_vectors(layer.frozen_means()))[side]
        h = layer.apply_weights(weights, h, mean)
        h = F.relu(h) if number + 1 < len(model.layers) else h
    return h


@dataclass(frozen=True, eq=False)
class FoldIn:
    r"""Vectors of users by clicks that the model has not seen, on items as they are.

    In LightGCN a user of :math:`d` clicks has the vector :math:`\mathbf{e} / (L + 1) +
    d^{-1/2} \sum_i \mathbf{f}_i` with :math:`\mathbf{f}_i = \frac{1}{(L + 1) \sqrt{d_i}}
    \sum_{l=0}^{L-1} (\mathbf{A}^l \mathbf{E})_i` for the items it clicked. A visitor has no
    embedding :math:`\mathbf{e}` of its own, and an item's degree :math:`d_i` stays as it was. SAGE
    goes through its layers with the means of what the clicked items bring into each: for a user
    without an embedding of its own that is how its vector is made anyway.

    Attributes:
        inputs: What every item brings into each layer ``[items, d]``; the vectors
            :math:`\mathbf{f}` for LightGCN.
        normalize: Whether vectors have length one.
        model: The model, if it knows attributes of users or has layers to go through.
        lengths: Lengths of the vectors of known users before they were normalised ``[users]``;
            ``None`` for SAGE, which can make them again, and where vectors are not normalised.
    """

    inputs: tuple[Tensor, ...]
    normalize: bool
    model: ClickSAGE | AttributedLightGCN | None = None
    lengths: Tensor | None = None

    def own(
        self, table: AttributeTable | None, num_users: int, known: bool | Tensor = False
    ) -> Tensor | None:
        """The part of users of their own: inputs of the first layer, or vectors by attributes.

        ``None`` for LightGCN on ids alone.

        Args:
            table: Their attributes; ``None`` if the model knows none.
            num_users: How many.
            known: The numbers of users that the model was trained with.
        """
        if self.model is None:
            return None
        return _own_part(self.model, "user", table, num_users, known)

    @torch.no_grad()
    def vectors(self, clicks: CSRGraph, own: Tensor | None) -> Tensor:
        """Vectors ``[users, d]``.

        Args:
            clicks: Items by user.
            own: What :meth:`own` returned.
        """
        found = self._unscaled(clicks, torch.ones(clicks.num_entries), own)
        return F.normalize(found, dim=-1) if self.normalize else found

    def contributions(
        self, clicks: CSRGraph, own: Tensor | None, item: Tensor, length: Tensor | None = None
    ) -> Tensor:
        """The part of one user's score for an item that comes from each click.

        A vector is linear in the clicks before its length is made one: for LightGCN everywhere,
        for SAGE as long as the same hidden units are on. What the parts do not add up to comes
        from the user, its attributes and the biases.

        Args:
            clicks: The clicks of one user.
            own: What :meth:`own` returned.
            item: The vector of the item.
            length: Length of the user's vector before it was normalised. (default: that of the
                vector that the clicks give)
        """
        weight = torch.ones(clicks.num_entries, requires_grad=True)
        if not clicks.num_entries:
            return weight.detach()
        with torch.enable_grad():
            found = self._unscaled(clicks, weight, own)[0]
            (part,) = torch.autograd.grad(found @ item, weight)
        if self.normalize:
            part = part / (found.detach().norm() if length is None else length)
        return part

    def _unscaled(self, clicks: CSRGraph, weight: Tensor, own: Tensor | None) -> Tensor:
        degree = clicks.degree
        share = degree.clamp(min=1) ** (-1.0 if isinstance(self.model, ClickSAGE) else -0.5)
        weight = weight * share.repeat_interleave(degree)
        bags = [
            F.embedding_bag(
                clicks.col.long(),
                table,
                clicks.rowptr[:-1].long(),
                mode="sum",
                per_sample_weights=weight,
            )
            for table in self.inputs
        ]
        if isinstance(self.model, ClickSAGE):
            assert own is not None
            return _through_layers(self.model, "user", own, bags)
        return bags[0] if own is None else bags[0] + own


@torch.no_grad()
def embed_with_fold_in(
    model: ClickSAGE | LightGCN, data: ClickData, graph: ClickGraph
) -> tuple[Tensor, Tensor, FoldIn | None]:
    """Embeddings as :func:`embed_all` gives them, and the rule for users to come.

    A LightGCN without layers has no such rule: its users are embeddings and nothing else.
    """
    if isinstance(model, LightGCN):
        users, items = embed_all(model, data, graph)
        return users, items, _lightgcn_fold_in(model, data, graph) if model.num_layers else None
    model.check_frozen()
    attributes = model.prepare(data)
    rows = graph.by_item
    pieces = [slice(at, min(at + _ROWS, rows.num_rows)) for at in range(0, rows.num_rows, _ROWS)]
    inputs = [torch.cat([_own(model, "item", attributes, {}, piece) for piece in pieces])]
    tables: Tables = {}
    for number in range(len(model.layers)):
        tables = _layer(model, number, attributes, tables, graph, None, None)
        inputs.append(tables["item"])
    items = inputs.pop()
    return tables["user"], items, FoldIn(tuple(inputs), model.normalize, model)


def _lightgcn_fold_in(model: LightGCN, data: ClickData, graph: ClickGraph) -> FoldIn:
    adjacency = model.prepare(graph)
    h: Tensor = model.embeddings
    hybrid = model if isinstance(model, AttributedLightGCN) else None
    if hybrid is not None:
        attributes = hybrid.prepare_attributes(data)
        towers = [hybrid.from_attributes(side, attributes[side]) for side in _SIDES]
        known = torch.cat([rows_of(graph, side).degree > 0 for side in _SIDES])[:, None]
        h = h * known + torch.cat(towers) * (model.num_layers + 1)
    total = before = h
    for _ in range(model.num_layers):
        h = spmm(adjacency, h)
        before, total = total, total + h
    parts, sides = model.num_layers + 1, [model.num_users, model.num_items]
    degree = graph.by_item.degree.clamp(min=1)[:, None]
    inputs = before.split(sides)[1] / (parts * degree**0.5)
    lengths = total.split(sides)[0].norm(dim=1) / parts
    return FoldIn((inputs,), model.normalize, hybrid, lengths if model.normalize else None)
