"""A model's lists measured over all items, beside popular and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.splits import ClickSplit
from drgcn.recommend.retrieval.blocks import ItemBlocks, Tiling
from drgcn.recommend.retrieval.exact import exact_top
from drgcn.recommend.retrieval.ranking import is_seen
from drgcn.sampling import CSRGraph


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its normal interval; not a number where there are no users.

    The interval speaks of users drawn like these and of nothing else: not of other seeds, which
    usually move a result farther.

    Attributes:
        mean: The mean.
        standard_error: Its standard error; not a number for fewer than two users.
        low: Lower end of the interval.
        high: Upper end.
        users: Number of users.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    users: int

    @classmethod
    def of(cls, values: Tensor, confidence: float = 0.95) -> Estimate:
        """The mean of one value per user."""
        values, number = values.double(), values.numel()
        mean = float(values.mean()) if number else float("nan")
        error = float(values.std() / number**0.5) if number > 1 else float("nan")
        reach = NormalDist().inv_cdf(0.5 + confidence / 2) * error
        return cls(mean, error, mean - reach, mean + reach, number)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain numbers, ``None`` for what is not a number."""
        parts = (self.mean, self.standard_error, self.low, self.high)
        names = ("mean", "standard_error", "low", "high")
        known = (part if part == part else None for part in parts)
        return {**dict(zip(names, known, strict=True)), "users": self.users}


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
    """Gain of a target at each place of a list: ``1 / log2(place + 1)``, from place 1."""
    return 1 / torch.arange(2, n + 2, dtype=torch.float64, device=device).log2()


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


_POPULAR_PLACES = 2**23  # looked at together


def popular_items(train: CSRGraph, users: Tensor, n: int, *, exclude_seen: bool) -> Tensor:
    """The ``n`` items with most training clicks, for each user: ``[users, n]``, then -1.

    Of items clicked as often the one with the smaller id comes first. Users are taken in order of
    their number of clicks: who has seen ``m`` items needs the ``n + m`` most popular looked at.
    """
    counts = torch.bincount(train.col, minlength=train.num_cols)
    ranking = counts.sort(descending=True, stable=True).indices
    if not exclude_seen:
        lists = ranking.new_full((n,), -1)
        lists[: train.num_cols] = ranking[:n]
        return lists.expand(users.numel(), -1)
    degree = (train.rowptr[users + 1] - train.rowptr[users]).long()
    degree, order = degree.sort()
    lists = ranking.new_full((users.numel(), n), -1)
    first = 0
    while first < users.numel():
        step = max(1, _POPULAR_PLACES // (n + int(degree[first])))
        width = n + int(degree[min(first + step, users.numel()) - 1])
        step = max(1, min(step, _POPULAR_PLACES // width))  # the last of them decides
        some = order[first : first + step]
        candidates = ranking[:width].expand(some.numel(), -1)
        seen = is_seen(train, users[some], candidates)
        place = seen.long().sort(dim=1, stable=True).indices[:, :n]  # unseen first, in order
        found = candidates.gather(1, place).masked_fill(seen.gather(1, place), -1)
        lists[some, : found.size(1)] = found
        first += step
    return lists


def random_values(
    values: UserValues, n: int, candidates: Tensor, wanted: Tensor, findable: Tensor
) -> UserValues:
    """The expected values of lists of ``n`` different items, each as likely as any other.

    Args:
        values: Who the users are.
        n: Length of the lists.
        candidates: Items that may be in a user's list ``[m]``.
        wanted: A user's targets ``[m]``.
        findable: Those of them that may be in the list ``[m]``.
    """
    candidates, wanted, findable = candidates.double(), wanted.double(), findable.double()
    length = candidates.clamp(max=n)
    share = findable / candidates.clamp(min=1)
    rest = candidates - findable  # a list without a hit is drawn from these
    log_miss = _log_choose(rest, length) - _log_choose(candidates, length)
    miss = torch.where(rest >= length, log_miss.exp(), 0.0)
    worth = torch.cat([torch.zeros(1, dtype=torch.float64), discounts(n).cumsum(0)])
    ndcg = share * worth[length.long()] / worth[wanted.long().clamp(max=n)]
    return UserValues(values.users, values.warm, share * length / wanted, 1 - miss, ndcg)


def _log_choose(total: Tensor, chosen: Tensor) -> Tensor:
    total = torch.maximum(total, chosen)
    parts = (total - chosen + 1).lgamma() + (chosen + 1).lgamma()
    return (total + 1).lgamma() - parts


_LIST_PLACES = 2**26  # of all lists held at a time


def evaluate(
    user_vectors: Tensor,
    item_vectors: Tensor,
    split: ClickSplit,
    n: int = 50,
    *,
    exclude_seen: bool = False,
    metric: str = "ip",
    users: Tensor | None = None,
    chunk: int = 2**18,
    confidence: float = 0.95,
    baselines: bool = True,
    tiling: Tiling | None = None,
) -> RankingReport:
    """Ranks all items for every user with a target, and measures the lists of length ``n``.

    The work is done where the item vectors are. Users are brought there a chunk at a time, so
    their vectors may stay on the CPU.

    Args:
        user_vectors: ``[users, d]``.
        item_vectors: ``[items, d]``.
        split: What the model could see, and what it is to find.
        n: Length of a list; all items if there are fewer.
        exclude_seen: Leaves out what a user has clicked in training.
        metric: ``"ip"`` or ``"l2"``.
        users: Evaluates these users alone; those without a target are passed over.
        chunk: Users at a time; fewer if lists are very long.
        confidence: Of the intervals.
        baselines: Also measures popular and random lists; they are the same for every model.
        tiling: Layout of the search's first stage.
    """
    train, targets = split.train.by_user, split.targets.by_user
    _check(user_vectors, item_vectors, split)
    device = item_vectors.device
    train, targets = train.to(device), targets.to(device)
    users = torch.arange(targets.num_rows) if users is None else users.cpu()
    users = users[(targets.degree > 0).cpu()[users]]
    if not users.numel():
        raise InputError("Expected users with something to find; found none in this split.")
    blocks = ItemBlocks.of(item_vectors, metric, tiling)
    n = min(n, blocks.num_items)
    chunk = min(chunk, max(1, _LIST_PLACES // max(n, 1)))
    model: list[UserValues] = []
    popular: list[UserValues] = []
    chance: list[UserValues] = []
    widened = scanned = seen_targets = 0
    for some in users.split(chunk):
        vectors, some = user_vectors[some.to(user_vectors.device)].to(device), some.to(device)
        seen = train if exclude_seen else None
        top = exact_top(vectors, blocks, n, exclude=seen, exclude_rows=some)
        widened, scanned = widened + top.widened, scanned + top.scanned
        model.append(UserValues.of(some, top.items, targets, train))
        wanted, repeated = _targets(some, targets, train)
        seen_targets += int(repeated.sum())
        if not baselines:
            continue
        lists = popular_items(train, some, n, exclude_seen=exclude_seen)
        popular.append(UserValues.of(some, lists, targets, train))
        left_out = train.degree.long()[some] if exclude_seen else torch.zeros_like(wanted)
        findable = wanted - repeated if exclude_seen else wanted
        facts = (part.cpu() for part in (blocks.num_items - left_out, wanted, findable))
        chance.append(random_values(model[-1], n, *facts))
    values = UserValues.joined(model)
    popularity = UserValues.joined(popular) if popular else None
    return RankingReport(
        n=n,
        metric=metric,
        exclude_seen=exclude_seen,
        num_items=blocks.num_items,
        seen_targets=seen_targets,
        model=values.estimates(confidence),
        popularity=popularity.estimates(confidence) if popularity else {},
        chance=UserValues.joined(chance).estimates(confidence) if chance else {},
        widened=widened,
        scanned=scanned,
        values=values,
        popularity_values=popularity,
    )


def _targets(users: Tensor, targets: CSRGraph, train: CSRGraph) -> tuple[Tensor, Tensor]:
    """Number of targets of each user, and of those that are training clicks too."""
    start = targets.rowptr[users].long()
    wanted = targets.rowptr[users + 1].long() - start
    place = torch.arange(users.numel(), device=users.device)
    owner = place.repeat_interleave(wanted)
    before = wanted.cumsum(0) - wanted
    entry = torch.arange(owner.numel(), device=users.device) - before[owner] + start[owner]
    again = is_seen(train, users[owner], targets.col[entry].long()[:, None])[:, 0]
    return wanted, torch.bincount(owner[again], minlength=users.numel())


def _check(user_vectors: Tensor, item_vectors: Tensor, split: ClickSplit) -> None:
    found = (user_vectors.size(0), item_vectors.size(0))
    expected = (split.train.num_users, split.train.num_items)
    if found != expected or user_vectors.size(-1) != item_vectors.size(-1):
        raise InputError(
            f"Expected vectors of {expected[0]} users and {expected[1]} items with as many "
            f"columns; found shapes {list(user_vectors.shape)} and {list(item_vectors.shape)}."
        )
