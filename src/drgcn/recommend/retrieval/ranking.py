"""Ranked lists: keys whose order is the ranking, seen items, overlap of lists, and popularity as a
term of every score: a column beside the vectors of a trained model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData, click_weights
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.records import expect_fields
from drgcn.sampling import CSRGraph

#: The key of no item: below every other.
NOTHING = -(2**63)
_ALL = 2**31 - 1


@dataclass(frozen=True, eq=False)
class TopItems:
    """The best items of each query, best first; of equal scores the smaller id comes first.

    Attributes:
        scores: ``[queries, n]``, 32-bit floats: inner products, or minus the squared distance.
            Minus infinity where a query has fewer than ``n`` items.
        items: ``[queries, n]``, 64-bit integers, and -1 where a query has fewer.
        widened: Queries for which the first choice of blocks could not be proved enough.
        scanned: Queries for which all items had to be scored.
    """

    scores: Tensor
    items: Tensor
    widened: int = 0
    scanned: int = 0


def ranking_key(scores: Tensor, items: Tensor) -> Tensor:
    """Integers that are larger for larger scores, and for smaller items where scores are equal.

    The bits of a float, read as an integer, rise with it; those of negative floats fall, so they
    are turned. Minus zero counts as zero.
    """
    bits = (scores + 0.0).view(torch.int32)
    rising = torch.where(bits < 0, bits ^ _ALL, bits).long()
    return (rising << 32) | (_ALL - items.long())


def from_ranking_key(key: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and items of keys; minus infinity and -1 for :data:`NOTHING`."""
    rising = (key >> 32).int()
    scores = torch.where(rising < 0, rising ^ _ALL, rising).view(torch.float32)
    items = _ALL - (key & 0xFFFFFFFF)
    nothing = key == NOTHING
    return scores.masked_fill(nothing, -torch.inf), items.masked_fill(nothing, -1)


def is_seen(graph: CSRGraph, rows: Tensor, items: Tensor) -> Tensor:
    """Test if row ``rows[q]`` of the graph lists ``items[q, j]``: booleans ``[q, j]``.

    By bisection; each row must be sorted, as a click graph's are. An item of -1 is listed nowhere.
    """
    if not graph.num_entries or not items.numel():
        return torch.zeros_like(items, dtype=torch.bool)
    if graph.num_entries <= items.numel():
        # All rows as one sorted list, which takes one search instead of a step for each bit.
        listed = graph.row * graph.num_cols + graph.col
        wanted = rows[:, None] * graph.num_cols + items
        place = torch.searchsorted(listed, wanted).clamp(max=graph.num_entries - 1)
        return (listed[place] == wanted) & (items >= 0)
    start, end = graph.rowptr[rows].long()[:, None], graph.rowptr[rows + 1].long()[:, None]
    low, high = start.expand_as(items), end.expand_as(items)
    last = graph.num_entries - 1
    for _ in range(int((end - start).max()).bit_length()):
        middle = low + ((high - low) >> 1)
        before = (middle < high) & (graph.col[middle.clamp(max=last)] < items)
        low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
    return (low < end) & (graph.col[low.clamp(max=last)] == items)


def is_listed(wanted: Tensor, found: Tensor) -> Tensor:
    """Test if each item of one list is in the other list of the same query.

    Lists may be as long as there are items, so no table of all pairs of places is made.

    Args:
        wanted: Lists ``[q, n]``, -1 where a list ends.
        found: Lists ``[q, m]`` in any order, likewise.

    Returns:
        Truth values ``[q, n]``; false where ``wanted`` ends.
    """
    if not found.size(1):
        return torch.zeros_like(wanted, dtype=torch.bool)
    ordered = found.sort(dim=1).values
    place = torch.searchsorted(ordered, wanted.contiguous()).clamp(max=found.size(1) - 1)
    return (ordered.gather(1, place) == wanted) & (wanted >= 0)


@dataclass(frozen=True)
class Popularity:
    r"""Term that a score has for the popularity of the item.

    With :math:`d_i` the clicks on an item and :math:`\tau` the temperature of the model's loss,
    by which a weight means the same for all models, the score of a user and an item is

    .. math::
        f(u, i) = \mathbf{z}_u^\top \mathbf{z}_i + w \, \tau \log(1 + d_i).

    With a half-life :math:`h` clicks count by their age, and what the model has learnt of how
    popular items were over all days is taken back:

    .. math::
        f(u, i) = \mathbf{z}_u^\top \mathbf{z}_i + w \, \tau \log(1 + c_i)
        - \tau \log(1 + d_i), \qquad c_i = \sum_{\text{clicks on } i} 2^{-\text{age} / h}.

    Items have the term as a last column of their vectors and users a one, so whatever ranks by
    inner product ranks by both.

    Attributes:
        weight: The weight :math:`w`; 0 for no such term.
        half_life: Days :math:`h` after which a click counts half. (default: all count the same)
    """

    weight: float = 0.0
    half_life: float | None = None

    def __str__(self) -> str:
        parts = (self.weight,) if self.half_life is None else (self.weight, self.half_life)
        return ":".join(str(float(part)).removesuffix(".0") for part in parts)

    @classmethod
    def of_run(cls, training: dict[str, Any]) -> Popularity:
        """The term of a run; runs of earlier versions have none."""
        facts = training.get("popularity")
        if facts is None:
            return cls()
        try:
            expect_fields(cls, facts, "its popularity")
            found = cls(**facts)
            half_life = 1.0 if found.half_life is None else found.half_life
            if not (0 <= found.weight < math.inf and 0 < half_life < math.inf):
                raise ValueError(f"it has {found} as popularity")
        except ValueError as error:
            raise InputError(f"Expected the settings of a run; {error}. Train it again.") from None
        return found

    def facts(self) -> dict[str, Any] | None:
        """As plain values, for a run or an export; ``None`` for no such term."""
        return asdict(self) if self.weight else None

    def counts(self, data: ClickData, graph: ClickGraph) -> Tensor:
        """Clicks on each item of a graph, counted by their age ``[items]``.

        Args:
            data: All clicks, with their days.
            graph: Those to count.
        """
        weights = None if self.half_life is None else click_weights(data, graph, self.half_life)
        col = graph.by_user.col.long().cpu()
        return torch.bincount(col, weights, minlength=graph.num_items).double()

    def joined(
        self,
        users: Tensor,
        items: Tensor,
        data: ClickData,
        graph: ClickGraph,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        """Vectors with the column; as they are if there is no such term."""
        if not self.weight:
            return users, items
        counts = {one.half_life: one.counts(data, graph) for one in (self, Popularity())}
        return self.joined_by_counts(users, items, counts, temperature)

    def joined_by_counts(
        self,
        users: Tensor,
        items: Tensor,
        counts: Mapping[float | None, Tensor],
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        """Vectors with the column, by :meth:`counts` for each half-life and ``None``."""
        if not self.weight:
            return users, items
        terms = self.weight * counts[self.half_life].log1p()
        if self.half_life is not None:
            terms -= counts[None].log1p()
        terms = (temperature * terms).to(items)
        return with_ones(users), torch.cat([items, terms[:, None]], dim=1)


def with_ones(users: Tensor) -> Tensor:
    """Vectors of users with the column by which an item's popularity counts."""
    return torch.cat([users, users.new_ones(len(users), 1)], dim=1)
