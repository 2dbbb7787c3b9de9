"""Layer samplers of FastGCN, LADIES and AS-GCN, which draw all senders of a layer together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import LaneFunction, triton_available, with_lanes
from drgcn.sampling.graph import CSRGraph

if triton_available():
    from drgcn.kernels.sparse import csr_lookup as _csr_lookup
else:
    _csr_lookup = None  # type: ignore[assignment]

# Up to so many nodes per entry, candidates get one place per node instead of being sorted.
_NODES_PER_ENTRY = 8


@dataclass(frozen=True, eq=False)
class ImportanceSampler:
    r"""Draws the senders of a layer with probability :math:`q(u) \propto \|\mathbf{A}_{:u}\|^p`,
    as in `"FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling"
    <https://arxiv.org/abs/1801.10247>`_.

    Attributes:
        graph: The propagation matrix of the training graph.
        weight: :math:`q`, one per node.
        count: Nodes drawn.
        candidates: ``"rows"``: only nodes that send to the given rows; ``"all"``: any node.
        replace: Draw independently, or every node at most once.
        renormalize: Divide by the probability that was drawn with. If not, by that over all
            nodes, whatever the candidates, as the original does: a scale that changes from
            batch to batch.
    """

    graph: CSRGraph
    weight: Tensor
    count: int
    candidates: Literal["rows", "all"] = "rows"
    replace: bool = False
    renormalize: bool = True

    @classmethod
    def of(
        cls,
        graph: CSRGraph,
        count: int,
        *,
        power: Literal[1, 2] = 1,
        candidates: Literal["rows", "all"] = "rows",
        replace: bool = False,
        renormalize: bool = True,
    ) -> ImportanceSampler:
        """Return the sampler of a propagation matrix.

        Args:
            graph: The matrix.
            count: Nodes to draw.
            power: Draw by the norm of a column, or by its square.
            candidates: See :class:`ImportanceSampler`.
            replace: See :class:`ImportanceSampler`.
            renormalize: See :class:`ImportanceSampler`.
        """
        if count < 1:
            raise InputError(f"Expected to sample at least one node; found {count}.")
        if power not in (1, 2):
            raise InputError(f"Expected power 1 (norm) or 2 (squared norm); found {power}.")
        if candidates not in ("rows", "all"):
            raise InputError(f"Expected candidates 'rows' or 'all'; found {candidates!r}.")
        # NOTE[PAPER] FastGCN's text has the squared norm, its code the norm, and the paper
        # does not say; the code made the published numbers.
        squares = torch.zeros(graph.num_cols, dtype=torch.float64, device=graph.col.device)
        values = squares.new_ones(graph.num_entries) if graph.value is None else graph.value
        squares = squares.index_add(0, graph.col.long(), values.to(torch.float64).square())
        weight = squares if power == 2 else squares.sqrt()
        return cls(graph, weight / weight.sum(), count, candidates, replace, renormalize)

    def sample(self, rows: Tensor, *, distinct: bool = True) -> LayerSample:
        """Draw one layer for some rows of the matrix; ``distinct`` if no row is listed twice."""
        if self.candidates == "all":
            nodes = torch.arange(self.graph.num_cols, device=rows.device)
            weight = self.weight
        else:
            found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
            nodes, weight = found.node, self.weight[found.node] * (found.squares > 0)
        draw = draw_with_replacement if self.replace else draw_without_replacement
        drawn = draw(weight, self.count)
        if not self.renormalize:
            # NOTE[DIFF] Off by default: FastGCN divides by q over all nodes although it draws
            # among the candidates, which shrinks or stretches every batch by another factor.
            chance = self.count * weight[drawn.index]
            drawn = Draw(drawn.index, torch.where(chance > 0, 1 / chance, 0.0), drawn.real)
        return LayerSample.drawn(self.graph, rows, nodes, drawn)

    def to(self, device: torch.device | str) -> ImportanceSampler:
        """The same sampler on another device."""
        return ImportanceSampler(
            self.graph.to(device),
            self.weight.to(device),
            self.count,
            self.candidates,
            self.replace,
            self.renormalize,
        )


@dataclass(frozen=True, eq=False)
class LayerDependentSampler:
    r"""Draws the senders of a layer with probability
    :math:`q(u) \propto \sum_{v \in \mathrm{rows}} a_{vu}^2`, as in `"Layer-Dependent Importance
    Sampling for Training Deep and Large Graph Convolutional Networks"
    <https://arxiv.org/abs/1911.07323>`_.

    Attributes:
        graph: The propagation matrix of the training graph.
        count: Nodes drawn.
        replace: Draw independently, or every node at most once.
        normalize_rows: Make every row of the sampled matrix sum to what the whole row does, as
            the original does: less variance, and no longer exactly unbiased.
    """

    graph: CSRGraph
    count: int
    replace: bool = False
    normalize_rows: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"Expected to sample at least one node; found {self.count}.")

    def sample(self, rows: Tensor, *, distinct: bool = True) -> LayerSample:
        """Draw one layer for some rows of the matrix; ``distinct`` if no row is listed twice."""
        found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
        draw = draw_with_replacement if self.replace else draw_without_replacement
        drawn = draw(found.squares, self.count)
        layer = LayerSample.drawn(self.graph, rows, found.node, drawn)
        if not self.normalize_rows:
            return layer
        got = layer.matrix.sum(1, keepdim=True)
        scale = torch.where(got == 0, 0, self._row_sums(rows)[:, None] / got)
        return LayerSample(layer.nodes, layer.matrix * scale, layer.real)

    def to(self, device: torch.device | str) -> LayerDependentSampler:
        """The same sampler on another device."""
        graph = self.graph.to(device)
        return LayerDependentSampler(graph, self.count, self.replace, self.normalize_rows)

    def _row_sums(self, rows: Tensor) -> Tensor:
        return self.graph.row_sum[rows]


@dataclass(frozen=True, eq=False)
class AdaptiveSampler:
    r"""Draws the senders of a layer with probability

    .. math::
        q(u) \propto \Bigl(\sum_{v} a_{vu}^2\Bigr)^{1/2} (\mathrm{ReLU}(t + k_u) + 1)
        (\mathrm{ReLU}(k_u) + 1), \quad t = \sum_v t_v,

    from scores :math:`t_v` of the rows and :math:`k_u` of the candidates that the model learns,
    as the code of `"Adaptive Sampling Towards Fast Graph Representation Learning"
    <https://arxiv.org/abs/1809.05343>`_ does. Draws are independent, and no gradient flows
    through them: the scores learn through the weights of the layer and the variance term.

    Attributes:
        graph: The propagation matrix of the training graph.
        count: Draws.
        drop_duplicates: Let a node count once however often it was drawn, as the original does,
            which makes every sum too small.
    """

    graph: CSRGraph
    count: int
    drop_duplicates: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"Expected to sample at least one node; found {self.count}.")

    def sample(
        self,
        rows: Tensor,
        row_score: Tensor,
        candidate_score: Callable[[Tensor], Tensor],
        *,
        distinct: bool = True,
    ) -> LayerSample:
        """Draw one layer for some rows of the matrix.

        Args:
            rows: The receivers.
            row_score: Sum :math:`t` of their scores.
            candidate_score: Scores :math:`k_u` of given nodes.
            distinct: Whether no row is listed twice.
        """
        found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
        k = candidate_score(found.node).detach().to(torch.float64)
        t = row_score.detach().to(torch.float64)
        weight = found.squares.sqrt() * (torch.relu(t + k) + 1) * (torch.relu(k) + 1)
        draw = draw_with_replacement(weight, self.count)
        layer = LayerSample.drawn(self.graph, rows, found.node, draw)
        if self.drop_duplicates:
            # NOTE[DIFF] Off by default: AS-GCN gives all entries of a node that was drawn twice
            # to its first draw, and still divides by the number of draws.
            layer = LayerSample(layer.nodes, layer.matrix * _first(layer.nodes))
        return layer

    def to(self, device: torch.device | str) -> AdaptiveSampler:
        """The same sampler on another device."""
        return AdaptiveSampler(self.graph.to(device), self.count, self.drop_duplicates)


def _first(nodes: Tensor) -> Tensor:
    """Return one where no earlier place holds the same node, else zero."""
    ordered, order = nodes.sort(stable=True)
    first = torch.cat([ordered.new_ones(1), (ordered.diff() != 0).long()])
    return torch.zeros_like(first).scatter(0, order, first)


@dataclass(frozen=True, eq=False)
class LayerSample:
    r"""The nodes drawn for one layer, and the weights of what they send.

    ``matrix @ h[nodes]`` has the expectation ``A[rows] @ h``.

    Attributes:
        nodes: The nodes drawn ``[n]``; one drawn twice is listed twice.
        matrix: Weights ``[rows, n]``: entries of the propagation matrix, each times the factor
            of its draw.
        real: True where ``nodes`` holds a draw ``[n]``; the other places were left over because
            there were fewer nodes than draws, and send nothing. (default: all true)
    """

    nodes: Tensor
    matrix: Tensor
    real: Tensor | None = None

    @classmethod
    def of(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, factor: Tensor) -> LayerSample:
        """Return the columns of some nodes, each times a factor."""
        entries = lookup(graph, rows, nodes)
        return cls(nodes, entries * factor.to(entries.dtype))

    @classmethod
    def drawn(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, draw: Draw) -> LayerSample:
        """Return the columns of those ``nodes`` that were drawn."""
        layer = cls.of(graph, rows, nodes[draw.index], draw.factor)
        return cls(layer.nodes, layer.matrix, draw.real)


@dataclass(frozen=True, eq=False)
class Candidates:
    r"""Candidates of one layer, in arrays whose length does not depend on the rows.

    Nothing here waits for the device, so a step that samples can be recorded as a CUDA graph,
    and :func:`torch.vmap` runs one lane per seed.

    Attributes:
        node: The candidates ``[c]``; places that are not used hold some node.
        squares: Squared norm of each candidate's column, over the given rows,
            :math:`\sum_{v} a_{vu}^2` ``[c]``; zero where a place is not used.
    """

    node: Tensor
    squares: Tensor

    @classmethod
    def of(cls, graph: CSRGraph, rows: Tensor, capacity: int | None = None) -> Candidates:
        """Return all nodes that send to some rows.

        Args:
            graph: The matrix; entries of one row must be distinct.
            rows: The receivers; one listed twice counts twice.
            capacity: Room for so many entries of those rows. (default: what they have)
        """
        start = graph.rowptr[rows].long()
        degree = graph.rowptr[rows + 1].long() - start
        ends = degree.cumsum(0)
        if capacity is None:
            capacity = int(ends[-1]) if ends.numel() else 0
        place = torch.arange(capacity, device=rows.device)
        # The row of a place is the number of rows that end at or before it.
        passed = torch.zeros(capacity + 1, dtype=torch.int64, device=rows.device)
        passed = passed.scatter_add(0, ends.clamp(max=capacity), torch.ones_like(ends))
        row = passed[:-1].cumsum(0).clamp(max=max(len(rows) - 1, 0))
        listed = place < ends[-1:]
        entry = torch.where(listed, start[row] + place - (ends[row] - degree[row]), 0)
        col = graph.col[entry].long()
        if graph.value is None:
            square = listed.to(torch.float64)
        else:
            square = torch.where(listed, graph.value[entry].to(torch.float64).square(), 0)
        if graph.num_cols <= _NODES_PER_ENTRY * capacity:
            node = torch.arange(graph.num_cols, device=rows.device)
            return cls(node, square.new_zeros(graph.num_cols).scatter_add(0, col, square))
        # Beyond that, the work depends on the entries alone, however many nodes there are.
        col, order = torch.where(listed, col, graph.num_cols).sort()
        first = torch.cat([col.new_ones(1), (col.diff() != 0).long()])
        number = first.cumsum(0) - 1
        node = torch.zeros_like(col).scatter(0, number, col).clamp(max=graph.num_cols - 1)
        return cls(node, torch.zeros_like(square).scatter_add(0, number, square[order]))


@dataclass(frozen=True, eq=False)
class Draw:
    r"""A draw among places with weights.

    For any numbers :math:`f`, :math:`\sum_j` ``factor[j]`` :math:`f_{\mathrm{index}[j]}` has the
    expectation :math:`\sum_u f_u` over all places of positive weight.

    Attributes:
        index: The places drawn ``[count]``.
        factor: Weight that makes up for those not drawn ``[count]``; zero for a draw that was
            not needed because there were fewer places than draws.
        real: True for draws that were needed ``[count]``. (default: all true)
    """

    index: Tensor
    factor: Tensor
    real: Tensor | None = None


def draw_with_replacement(weight: Tensor, count: int) -> Draw:
    r"""Draw independently; the factor is :math:`1 / (n q_u)` (Hansen and Hurwitz).

    Args:
        weight: Weights ``[c]``, none negative, not all zero.
        count: Number of draws :math:`n`.
    """
    ends = weight.to(torch.float64).cumsum(0)
    point = torch.rand(count, dtype=torch.float64, device=weight.device) * ends[-1]
    index = torch.searchsorted(ends, point, right=True).clamp(max=weight.numel() - 1)
    return Draw(index, ends[-1] / (count * weight[index].to(torch.float64)))


def draw_without_replacement(weight: Tensor, count: int) -> Draw:
    r"""Draw distinct places, one after the other, each in proportion to the weights left.

    That is the same as taking the ``count`` largest of :math:`\log w_u + G_u` with Gumbel noise
    :math:`G`. Given the largest one left behind, :math:`\kappa`, the draws are independent, and
    :math:`u` is among them with probability :math:`1 - \exp(-\exp(\log w_u - \kappa))`, whose
    reciprocal is the factor (Kool, van Hoof and Welling, 2019). Exact, unlike
    :math:`1 / (n q_u)`.

    Args:
        weight: Weights ``[c]``, none negative.
        count: At most so many draws.
    """
    places = weight.numel()
    uniform = torch.rand(places, dtype=torch.float64, device=weight.device)
    score = weight.to(torch.float64).log()
    noisy = score - torch.log(-torch.log(uniform.clamp(min=torch.finfo(torch.float64).tiny)))
    top = noisy.topk(min(count + 1, places))
    index = top.indices[:count]
    left = top.values[count] if places > count else noisy.new_full((), -torch.inf)
    chance = -torch.expm1(-torch.exp(score[index] - left))
    # Nothing left behind: all were taken, with certainty.
    chance = torch.where(left == -torch.inf, 1.0, chance)
    real = weight[index] > 0
    return Draw(index, torch.where(real, 1 / chance, 0.0), real)


def lookup(graph: CSRGraph, rows: Tensor, cols: Tensor) -> Tensor:
    """Return the entries ``[rows, cols]``, zero where there is none; no gradient.

    By bisection in every row at once, which takes as many looks as the longest row has binary
    digits, and no more memory than the result. Each row's entries must be sorted by column, as
    :meth:`CSRGraph.from_edge_index` leaves them. Under :func:`torch.vmap` every lane has its own
    rows and columns.
    """
    return _Lookup.apply(rows, cols, graph)


class _Lookup(LaneFunction):
    @staticmethod
    def forward(rows: Tensor, cols: Tensor, graph: CSRGraph) -> Tensor:
        if not graph.num_entries:
            kind = torch.get_default_dtype() if graph.value is None else graph.value.dtype
            return torch.zeros(*rows.shape, cols.size(-1), dtype=kind, device=rows.device)
        if rows.is_cuda and _csr_lookup is not None:
            return _csr_lookup(graph, rows, cols)
        last = graph.num_entries - 1
        low = graph.rowptr[rows][..., None].expand(*rows.shape, cols.size(-1))
        end = graph.rowptr[rows + 1][..., None]
        high = end.expand_as(low)
        wanted = cols.to(graph.col.dtype)[..., None, :]
        for _ in range(graph.longest_row.bit_length()):
            middle = low + ((high - low) >> 1)  # whose sum might not fit 32 bits
            before = (graph.col[middle.clamp(max=last)] < wanted) & (middle < high)
            low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
        place = low.clamp(max=last)
        found = (low < end) & (graph.col[place] == wanted)
        if graph.value is None:
            return found.to(torch.get_default_dtype())
        return torch.where(found, graph.value[place], 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], rows: Tensor, cols: Tensor, graph: CSRGraph
    ) -> tuple[Tensor, int]:
        rows = with_lanes(rows, in_dims[0], info.batch_size)
        cols = with_lanes(cols, in_dims[1], info.batch_size)
        return _Lookup.apply(rows, cols, graph), 0
