"""A model's lists measured over all items, beside popular and random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

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


MEASURES = ("recall", "hit_rate", "ndcg", "mrr", "precision", "map", "novelty")
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
        mrr: One over the place of the first target in the list, 0 if there is none ``[m]``.
        precision: Share of the list's ``n`` places that hold a target ``[m]``.
        map: Mean over the best number of targets that a list could hold of the precision down to
            each target in it ``[m]``.
        novelty: Mean of :func:`self_information` over the items of the list ``[m]``.
    """

    users: Tensor
    warm: Tensor
    recall: Tensor
    hit_rate: Tensor
    ndcg: Tensor
    mrr: Tensor
    precision: Tensor
    map: Tensor
    novelty: Tensor

    @classmethod
    def of(
        cls,
        users: Tensor,
        lists: Tensor,
        targets: CSRGraph,
        train: CSRGraph,
        information: Tensor | None = None,
    ) -> UserValues:
        """Values of the lists ``[m, n]`` of some users, best first, -1 where a list ends.

        Args:
            users: The users ``[m]``.
            lists: Their lists.
            targets: What is to be found.
            train: What the model could see.
            information: :func:`self_information` of the items, if it is known.
        """
        if information is None:
            information = self_information(train)
        n, wide = lists.size(1), lists.device
        hits = is_seen(targets, users, lists).double()
        wanted = (targets.rowptr[users + 1] - targets.rowptr[users]).double()
        seen = train.rowptr[users + 1] - train.rowptr[users]
        gains = discounts(n, wide)
        best = wanted.long().clamp(max=n)
        places = torch.arange(1, n + 1, dtype=torch.float64, device=wide)
        found, listed = hits.cumsum(dim=1), lists >= 0
        total = found[:, -1]
        information = information[lists.clamp(min=0)].masked_fill(~listed, 0).sum(dim=1)
        parts = (
            *(users, seen > 0, total / wanted, (total > 0).double()),
            hits @ gains / gains.cumsum(0)[best - 1],
            (hits / places).amax(dim=1),  # the first hit has the largest
            total / n,
            (hits * found) @ (1 / places) / best,
            information / listed.sum(dim=1).clamp(min=1),
        )
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


def self_information(train: CSRGraph) -> Tensor:
    """Bits by which an item would surprise: minus ``log2`` of the share of users who clicked it.

    One click more is counted of every item, so that one without clicks has a value.
    """
    counts = torch.bincount(train.col, minlength=train.num_cols).double()
    return -((counts + 1) / (train.num_rows + 1)).log2()


#: Estimates by group of users (all, warm, cold) and measure (:data:`MEASURES`).
Table = dict[str, dict[str, Estimate]]


@dataclass(frozen=True, eq=False)
class MeasuredLists:
    """Lists of one length for all users, and what they are worth.

    Attributes:
        n: Length of the lists.
        values: Values user by user.
        coverage: Share of all items that are in any list.
    """

    n: int
    values: UserValues
    coverage: float

    def to_dict(self, confidence: float = 0.95) -> dict[str, object]:
        """Plain data, for a record."""
        return {
            "n": self.n,
            "coverage": self.coverage,
            **_plain(self.values.estimates(confidence)),
        }


def measure_lists(
    make: Callable[[Tensor], Tensor],
    train: CSRGraph,
    targets: CSRGraph,
    users: Iterable[Tensor],
    lengths: Sequence[int],
) -> dict[int, MeasuredLists]:
    """Measure lists of several lengths, the shorter ones the beginnings of the longest.

    Args:
        make: Gives the lists ``[m, n]`` of some users, best first, -1 where a list ends; ``n`` is
            the largest of the lengths.
        train: What the lists were made from.
        targets: What is to be found.
        users: Users that have something to find, in pieces.
        lengths: Lengths of lists.
    """
    information = self_information(train)
    parts: dict[int, list[UserValues]] = {n: [] for n in lengths}
    listed = information.new_zeros(len(parts), train.num_cols + 1, dtype=torch.bool)
    for some in users:
        lists = make(some.to(train.col.device))
        for row, (n, values) in enumerate(parts.items()):
            head = lists[:, :n]
            values.append(UserValues.of(some.to(head.device), head, targets, train, information))
            listed[row, head.flatten()] = True  # the end of a list, -1, is the last place
    shares = listed[:, :-1].double().mean(dim=1).tolist()
    return {
        n: MeasuredLists(n, UserValues.joined(values), share)
        for (n, values), share in zip(parts.items(), shares, strict=True)
    }


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
        coverage: Share of all items that are in any list, of the model and of the most clicked.
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
    coverage: dict[str, float]
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
            "coverage": dict(self.coverage),
            "search": {"widened": self.widened, "scanned": self.scanned},
        }


def _plain(table: Table) -> dict[str, dict[str, dict[str, float | int | None]]]:
    return {
        group: {name: value.to_dict() for name, value in row.items()}
        for group, row in table.items()
    }


_POPULAR_PLACES = 2**23  # looked at together


def popular_items(
    train: CSRGraph,
    users: Tensor,
    n: int,
    *,
    exclude_seen: bool,
    weights: Tensor | None = None,
) -> Tensor:
    """The ``n`` items with most training clicks, for each user: ``[users, n]``, then -1.

    Of items clicked as often the one with the smaller id comes first. Users are taken in order of
    their number of clicks: who has seen ``m`` items needs the ``n + m`` most popular looked at.
    With weights a click counts as many times as its weight.
    """
    counts = torch.bincount(train.col, weights, minlength=train.num_cols)
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
    values: UserValues,
    n: int,
    candidates: Tensor,
    wanted: Tensor,
    findable: Tensor,
    information: Tensor,
) -> UserValues:
    """The expected values of lists of ``n`` different items, each as likely as any other.

    Args:
        values: Who the users are.
        n: Length of the lists.
        candidates: Items that may be in a user's list ``[m]``.
        wanted: A user's targets ``[m]``.
        findable: Those of them that may be in the list ``[m]``.
        information: Mean self-information of the candidates ``[m]``.
    """
    candidates, wanted, findable = candidates.double(), wanted.double(), findable.double()
    length = candidates.clamp(max=n)
    share = findable / candidates.clamp(min=1)
    rest = candidates - findable  # a list without a hit is drawn from these
    log_miss = _log_choose(rest, length) - _log_choose(candidates, length)
    miss = torch.where(rest >= length, log_miss.exp(), 0.0)
    worth, harmonic = (
        torch.cat([torch.zeros(1, dtype=torch.float64), gains.cumsum(0)])
        for gains in (discounts(n), 1 / torch.arange(1, n + 1, dtype=torch.float64))
    )
    ndcg = share * worth[length.long()] / worth[wanted.long().clamp(max=n)]
    # A hit at place k counts itself, and each of the k - 1 places above it that is one too.
    single = harmonic[length.long()]
    pairs = (findable - 1) / (candidates - 1).clamp(min=1) * (length - single)
    return UserValues(
        values.users,
        values.warm,
        share * length / wanted,
        1 - miss,
        ndcg,
        _random_mrr(candidates, findable, n),
        share * length / n,
        share * (single + pairs) / wanted.clamp(max=n),
        torch.where(length > 0, information, 0.0),
    )


def _random_mrr(candidates: Tensor, findable: Tensor, n: int) -> Tensor:
    total, missed = torch.zeros_like(candidates), torch.ones_like(candidates)
    for place in range(n):
        hit = (findable / (candidates - place).clamp(min=1)).clamp(max=1)
        hit = torch.where(candidates > place, hit, 0.0)
        total += missed * hit / (place + 1)
        missed *= 1 - hit
        if float(missed.max()) < 1e-12:
            break
    return total


def _log_choose(total: Tensor, chosen: Tensor) -> Tensor:
    total = torch.maximum(total, chosen)
    parts = (total - chosen + 1).lgamma() + (chosen + 1).lgamma()
    return (total + 1).lgamma() - parts


_LIST_PLACES = 2**26  # of all lists held at a time


def evaluate(
    user_vectors: Tensor, item_vectors: Tensor, split: ClickSplit, n: int = 50, **options: Any
) -> RankingReport:
    """Measure lists of one length; the options are those of :func:`evaluate_lengths`."""
    return evaluate_lengths(user_vectors, item_vectors, split, (n,), **options)[n]


def evaluate_lengths(
    user_vectors: Tensor,
    item_vectors: Tensor,
    split: ClickSplit,
    lengths: Sequence[int],
    *,
    exclude_seen: bool = False,
    metric: str = "ip",
    users: Tensor | None = None,
    chunk: int = 2**18,
    confidence: float = 0.95,
    baselines: bool = True,
    tiling: Tiling | None = None,
) -> dict[int, RankingReport]:
    """Rank all items for every user with a target, and measure lists of several lengths.

    The work is done where the item vectors are. Users are brought there a chunk at a time, so
    their vectors may stay on the CPU.

    Args:
        user_vectors: ``[users, d]``.
        item_vectors: ``[items, d]``.
        split: What the model could see, and what it is to find.
        lengths: Lengths of lists, the keys of what is returned; where there are fewer items, a
            list has all of them.
        exclude_seen: Leaves out what a user has clicked in training.
        metric: ``"ip"`` or ``"l2"``.
        users: Evaluates these users alone; those without a target are passed over.
        chunk: Users at a time; fewer if lists are very long.
        confidence: Of the intervals.
        baselines: Also measures popular and random lists; they are the same for every model.
        tiling: Layout of the search's first stage.
    """
    _check(user_vectors, item_vectors, split, lengths)
    device = item_vectors.device
    train, targets = split.train.by_user.to(device), split.targets.by_user.to(device)
    users = users_to_evaluate(split, users)
    blocks = ItemBlocks.of(item_vectors, metric, tiling)
    known = {n: min(n, blocks.num_items) for n in lengths}
    longest = max(known.values())
    pieces = users.split(min(chunk, max(1, _LIST_PLACES // longest)))
    widened = scanned = 0

    def search(some: Tensor) -> Tensor:
        nonlocal widened, scanned
        vectors = user_vectors[some.to(user_vectors.device)].to(device)
        seen = train if exclude_seen else None
        top = exact_top(vectors, blocks, longest, exclude=seen, exclude_rows=some)
        widened, scanned = widened + top.widened, scanned + top.scanned
        return top.items

    def popular(some: Tensor) -> Tensor:
        return popular_items(train, some, longest, exclude_seen=exclude_seen)

    model = measure_lists(search, train, targets, pieces, [*known.values()])
    common: dict[int, MeasuredLists] = {}
    if baselines:
        common = measure_lists(popular, train, targets, pieces, [*known.values()])
    counted = [_targets(some.to(device), targets, train) for some in pieces]
    wanted, repeated = (torch.cat(parts).cpu() for parts in zip(*counted, strict=True))
    findable = wanted - repeated if exclude_seen else wanted
    drawn = _candidates(users, train, exclude_seen) if baselines else None
    reports = {}
    for asked, n in known.items():
        values, most = model[n].values, common.get(n)
        popularity = {"popularity": most.coverage} if most else {}
        chance = None
        if drawn is not None:
            chance = random_values(values, n, drawn[0], wanted, findable, drawn[1])
        reports[asked] = RankingReport(
            n=n,
            metric=metric,
            exclude_seen=exclude_seen,
            num_items=blocks.num_items,
            seen_targets=int(repeated.sum()),
            model=values.estimates(confidence),
            popularity=most.values.estimates(confidence) if most else {},
            chance=chance.estimates(confidence) if chance else {},
            coverage={"model": model[n].coverage, **popularity},
            widened=widened,
            scanned=scanned,
            values=values,
            popularity_values=most.values if most else None,
        )
    return reports


def users_to_evaluate(split: ClickSplit, users: Tensor | None = None) -> Tensor:
    """The users, all or of these, that have something to find; on the CPU."""
    users = torch.arange(split.targets.num_users) if users is None else users.cpu()
    users = users[(split.targets.by_user.degree > 0).cpu()[users]]
    if not users.numel():
        raise InputError("Expected users with something to find; found none in this split.")
    return users


def _candidates(users: Tensor, train: CSRGraph, exclude_seen: bool) -> tuple[Tensor, Tensor]:
    """Items that may be in each user's list, and their mean self-information; on the CPU."""
    information = self_information(train)
    count = torch.full((users.numel(),), train.num_cols)
    total = information.sum().cpu().expand(users.numel())
    if exclude_seen:
        rows = users.to(train.col.device)
        before = torch.cat([information.new_zeros(1), information[train.col.long()].cumsum(0)])
        start, end = train.rowptr[rows].long(), train.rowptr[rows + 1].long()
        count = count - (end - start).cpu()
        total = total - (before[end] - before[start]).cpu()
    return count, total / count.clamp(min=1)


def _targets(users: Tensor, targets: CSRGraph, train: CSRGraph) -> tuple[Tensor, Tensor]:
    """Number of targets of each user, and of those that are training clicks too."""
    own = targets.rows(users)
    owner = own.row
    again = is_seen(train, users[owner], own.col.long()[:, None])[:, 0]
    return own.degree, torch.bincount(owner[again], minlength=users.numel())


def _check(
    user_vectors: Tensor, item_vectors: Tensor, split: ClickSplit, lengths: Sequence[int]
) -> None:
    if not lengths or min(lengths) < 1:
        raise InputError(f"Expected lists of at least one item; found lengths {[*lengths]}.")
    found = (user_vectors.size(0), item_vectors.size(0))
    expected = (split.train.num_users, split.train.num_items)
    if found != expected or user_vectors.size(-1) != item_vectors.size(-1):
        raise InputError(
            f"Expected vectors of {expected[0]} users and {expected[1]} items with as many "
            f"columns; found shapes {list(user_vectors.shape)} and {list(item_vectors.shape)}."
        )
