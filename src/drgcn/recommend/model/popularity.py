"""Popularity of items as a term of every score: a column beside the vectors of a trained model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.recommend.clicks.data import ClickData, click_weights
from drgcn.recommend.clicks.graph import ClickGraph


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
        return f"{self.weight:g}" + (f":{self.half_life:g}" if self.half_life else "")

    @classmethod
    def of_run(cls, training: dict[str, Any]) -> Popularity:
        """The term of a run; runs of earlier versions have none."""
        return cls(**(training.get("popularity") or {}))

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
        terms = self.weight * self.counts(data, graph).log1p()
        if self.half_life is not None:
            terms -= Popularity().counts(data, graph).log1p()
        terms = (temperature * terms).to(items)
        return with_ones(users), torch.cat([items, terms[:, None]], dim=1)


def with_ones(users: Tensor) -> Tensor:
    """Vectors of users with the column by which an item's popularity counts."""
    return torch.cat([users, users.new_ones(len(users), 1)], dim=1)
