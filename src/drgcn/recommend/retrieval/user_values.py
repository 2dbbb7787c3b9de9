"""How good the list of every single user is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.retrieval.estimate import Estimate
from drgcn.recommend.retrieval.seen_items import is_seen
from drgcn.sampling import CSRGraph

MEASURES = ("recall", "hit_rate", "ndcg")
GROUPS = ("all", "warm", "cold")


@dataclass(frozen=True, eq=False)
class UserValues:
    """One value of each measure for each user that has something to find, on the CPU.

    Attributes:
        users: Which users ``[m]``.
        warm: Whether a user has clicks that the model may see ``[m]``.
        recall: Share of a user's targets that are in the list ``[m]``.
        hit_rate: Whether any is ``[m]``.
        ndcg: Targets in the list, discounted by ``log2(place + 1)``, over the best that a list of
            this length could reach ``[m]``.
    """

    users: Tensor
    warm: Tensor
    recall: Tensor
    hit_rate: Tensor
    ndcg: Tensor

    @classmethod
    def of(cls, users: Tensor, lists: Tensor, targets: CSRGraph, train: CSRGraph) -> UserValues:
        """Values of the lists ``[m, n]`` of some users, best first, -1 where a list ends."""
        hits = is_seen(targets, users, lists).double()
        wanted = (targets.rowptr[users + 1] - targets.rowptr[users]).double()
        seen = train.rowptr[users + 1] - train.rowptr[users]
        gains = discounts(lists.size(1), lists.device)
        ideal = gains.cumsum(0)[wanted.long().clamp(max=lists.size(1)) - 1]
        found = hits.sum(dim=1)
        parts = (users, seen > 0, found / wanted, (found > 0).double(), hits @ gains / ideal)
        return cls(*(part.cpu() for part in parts))

    @classmethod
    def joined(cls, parts: Sequence[UserValues]) -> UserValues:
        """The values of several batches of users."""
        names = ("users", "warm", *MEASURES)
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def of_group(self, measure: str, group: str = "all") -> Tensor:
        """The values of one measure for all users, the warm or the cold."""
        if measure not in MEASURES or group not in GROUPS:
            raise InputError(
                f"Expected one of {', '.join(MEASURES)} and one of {', '.join(GROUPS)}; found "
                f"{measure!r} and {group!r}."
            )
        values: Tensor = getattr(self, measure)
        return values if group == "all" else values[self.warm == (group == "warm")]

    def estimates(self, confidence: float = 0.95) -> dict[str, dict[str, Estimate]]:
        """Means by group and measure."""
        return {
            group: {
                measure: Estimate.of(self.of_group(measure, group), confidence)
                for measure in MEASURES
            }
            for group in GROUPS
        }

    def less(self, other: UserValues, measure: str = "recall", group: str = "all") -> Estimate:
        """The mean difference to another model's values, paired by user."""
        same = torch.equal(self.users, other.users) and torch.equal(self.warm, other.warm)
        if not same:
            raise InputError(
                f"Expected values of the same users of the same split; found {len(self.users)} "
                f"and {len(other.users)} users that differ. Evaluate both on one split."
            )
        return Estimate.of(self.of_group(measure, group) - other.of_group(measure, group))


def discounts(n: int, device: torch.device | str = "cpu") -> Tensor:
    """What a target is worth at each place of a list: ``1 / log2(place + 1)``, from place 1."""
    return 1 / torch.arange(2, n + 2, dtype=torch.float64, device=device).log2()
