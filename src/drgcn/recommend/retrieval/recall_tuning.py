"""How hard an index must look to reach a recall, and what it then reaches."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.retrieval.ann_index import AnnIndex
from drgcn.recommend.retrieval.list_overlap import is_listed
from drgcn.recommend.retrieval.top_items import TopItems

_ERRORS = 2.0  # standard errors by which the first half must clear the target


@dataclass(frozen=True)
class RecallTuning:
    """What an index was asked for and what it reaches; written into a manifest.

    Attributes:
        kind: Of the index.
        n: Length of the lists.
        target: Share of the exact lists that was asked for.
        effort: What the index was set to; ``None`` if it has no such setting.
        recall: Share found, on queries that had no part in choosing the effort.
        standard_error: Of ``recall``, over queries.
        queries: Number of those queries.
        reached: Whether ``recall`` is at least the target.
    """

    kind: str
    n: int
    target: float
    effort: int | None
    recall: float
    standard_error: float
    queries: int
    reached: bool

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "NOT reached; take another kind, or flat"
        effort = "" if self.effort is None else f", effort {self.effort}"
        return (
            f"{self.kind}{effort}: recall@{self.n} {self.recall:.4f} +- "
            f"{self.standard_error:.4f} on {self.queries} queries; target {self.target} {verdict}"
        )


def tune(index: AnnIndex, queries: Tensor, exact: TopItems, target: float = 0.99) -> RecallTuning:
    """Sets the least effort of the index that reaches a recall against exact lists.

    Every second query chooses the effort, and the others measure what it reaches: a number
    measured on the queries it was chosen by would be too good. If no effort suffices, the largest
    is left set and the result says that the target was not reached.

    Args:
        index: The index; its effort is changed.
        queries: Some hundred queries like those to come ``[q, d]``.
        exact: Their exact lists, from ``exact_top``.
        target: Share of each exact list to find, on average.
    """
    if not 0 < target <= 1 or len(queries) < 4 or len(exact.items) != len(queries):
        raise InputError(
            f"Expected a target above 0 and up to 1, and exact lists for at least four queries; "
            f"found {target}, {len(queries)} queries and {len(exact.items)} lists."
        )
    lists = exact.items.cpu()
    for effort in index.efforts(lists.size(1)):
        index.effort = effort
        mean, error = _recall(index, queries[::2], lists[::2])
        if mean - _ERRORS * error >= target:
            break
    mean, error = _recall(index, queries[1::2], lists[1::2])
    return RecallTuning(
        index.kind, lists.size(1), target, index.effort, mean, error,
        len(queries[1::2]), mean >= target,
    )  # fmt: skip


def _recall(index: AnnIndex, queries: Tensor, lists: Tensor) -> tuple[float, float]:
    found = index.search(queries, lists.size(1)).items
    real = lists >= 0
    share = is_listed(lists, found).sum(dim=1).double() / real.sum(dim=1).clamp(min=1)
    error = float(share.std()) / len(share) ** 0.5
    return float(share.mean()), error if torch.isfinite(share).all() else float("nan")
