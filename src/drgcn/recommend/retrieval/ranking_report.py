"""How good the lists of a model are, with what to hold that against."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.recommend.retrieval.estimate import Estimate
from drgcn.recommend.retrieval.user_values import UserValues

#: Estimates by group of users (all, warm, cold) and measure (recall, hit_rate, ndcg).
Table = dict[str, dict[str, Estimate]]


@dataclass(frozen=True, eq=False)
class RankingReport:
    """Means over the users that have something to find, ranked over all items.

    Warm users have clicks that the model may see, cold users have none.

    Attributes:
        n: Length of the lists.
        metric: What the model's lists are ranked by: ``"ip"`` or ``"l2"``.
        exclude_seen: Whether items that a user has clicked in training are left out.
        num_items: Items ranked.
        seen_targets: Targets that are training clicks of the same user; no list can contain them
            if ``exclude_seen``.
        model: The model's measures.
        popularity: Those of the most clicked items; empty if not asked for.
        chance: Those that random lists have on average; likewise.
        widened: Queries for which the search had to look into more blocks.
        scanned: Queries for which it had to score all items.
        values: The model's values, user by user; not part of :meth:`to_dict`.
        popularity_values: Those of the most clicked items, likewise.
    """

    n: int
    metric: str
    exclude_seen: bool
    num_items: int
    seen_targets: int
    model: Table
    popularity: Table
    chance: Table
    widened: int
    scanned: int
    values: UserValues
    popularity_values: UserValues | None

    def difference(
        self, other: RankingReport, measure: str = "recall", group: str = "all"
    ) -> Estimate:
        """By how much this model's measure is above another's, paired by user."""
        return self.values.less(other.values, measure, group)

    def to_dict(self) -> dict[str, object]:
        """Plain data, for a record. Of random lists it holds means only, which are exact."""
        return {
            "n": self.n,
            "metric": self.metric,
            "exclude_seen": self.exclude_seen,
            "num_items": self.num_items,
            "seen_targets": self.seen_targets,
            "model": _plain(self.model),
            "popularity": _plain(self.popularity),
            "chance": {
                group: {name: value.to_dict()["mean"] for name, value in row.items()}
                for group, row in self.chance.items()
            },
            "search": {"widened": self.widened, "scanned": self.scanned},
        }


def _plain(table: Table) -> dict[str, dict[str, dict[str, float | int | None]]]:
    return {
        group: {name: value.to_dict() for name, value in row.items()}
        for group, row in table.items()
    }
