"""Splits of clicks by time, by user, at random or as published: train, validation and test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor

from drgcn._format import plural
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.streams import high_bits, mix

SplitKind = Literal["official", "days", "time", "last", "random"]
#: Fewer clicks to find than this leave a measure to chance.
FEW_TARGETS: Final = 1000
TRAIN, VALID, TEST = range(3)
_NAMES = ("train", "valid", "test")
_HELD_OUT = 0x5EED  # what decides which clicks are held out; the same for every seed and gate


@dataclass(frozen=True, eq=False)
class ClickSplit:
    """Two sets of clicks between the same users and items.

    Attributes:
        train: What a model may see.
        targets: What is to be found.
        name: Description of the split.
    """

    train: ClickGraph
    targets: ClickGraph
    name: str = ""

    def __post_init__(self) -> None:
        sizes = [(graph.num_users, graph.num_items) for graph in (self.train, self.targets)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"Expected train and targets between the same users and items; found {sizes[0]} "
                f"and {sizes[1]}."
            )

    @classmethod
    def by_time(cls, data: ClickData | ClickGraph, day: int | None = None) -> ClickSplit:
        """The clicks of one day are to be found from those of the days before.

        Args:
            data: Clicks with days.
            day: The day to find. (default: the last)
        """
        graph = data.graph if isinstance(data, ClickData) else data
        first, last = graph.day_range
        day = last if day is None else day
        split = cls(graph.until(day), graph.on(day), f"day {day} from the days before")
        for side, what in ((split.targets, f"on day {day}"), (split.train, f"before day {day}")):
            if not side.num_clicks:
                raise InputError(
                    f"Expected clicks {what}; found none. The days with clicks lie from {first} "
                    f"to {last}."
                )
        return split

    @classmethod
    def official(cls, data: ClickData, part: str = "test") -> ClickSplit:
        """The split that came with a dataset: one part is to be found from those before it.

        Args:
            data: Clicks whose days stand for parts, see :attr:`ClickData.parts`.
            part: The part to find. (default: test; train and valid are then seen)
        """
        if part not in data.parts[1:]:
            raise InputError(
                f"Expected one of the parts {', '.join(data.parts[1:]) or '(none)'} of "
                f"{data.name}; found {part!r}. Split by time if the clicks have days."
            )
        split = cls.by_time(data, data.parts.index(part))
        return cls(split.train, split.targets, f"official {part}")

    @property
    def warning(self) -> str:
        """A sentence if there are so few clicks to find that measures are left to chance."""
        count = self.targets.num_clicks
        if count >= FEW_TARGETS:
            return ""
        return (
            f"only {plural(count, 'click')} to find ({self.name}): fewer than {FEW_TARGETS:,}, so "
            f"measures are uncertain. Hold back more."
        )

    def to(self, device: torch.device | str) -> ClickSplit:
        """The same split on another device."""
        return ClickSplit(self.train.to(device), self.targets.to(device), self.name)


@dataclass(frozen=True)
class SplitRule:
    """The way to divide clicks into train, validation and test.

    Written as a text, as :meth:`parse` reads it: ``official``, ``days:7``, ``time:0.1``, ``last``,
    ``random:0.1`` or, with a seed, ``random:0.1:3``.

    Attributes:
        kind: ``"official"``: the parts that came with the data. ``"days"``: the last days are the
            test, as many before them the validation. ``"time"``: as many whole days at the end as
            hold at least a share of all clicks, and likewise before them. ``"last"``: each user's
            last click is the test and the one before it the validation; users with fewer than
            three clicks are trained on only. ``"random"``: each click with the same chance.
        days: Days in test and in validation, for ``"days"``.
        share: Share of all clicks in test and in validation, for ``"time"`` and ``"random"``; of
            the training clicks in validation, for ``"official"`` where no such part came.
        seed: Decides what is drawn: the clicks of ``"random"``, and for ``"last"`` the one among
            several clicks of a user on one day, whose order is not known.
    """

    kind: SplitKind = "days"
    days: int = 1
    share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(SplitKind):
            raise InputError(
                f"Expected a split of {', '.join(get_args(SplitKind))}; found {self.kind!r}."
            )
        if self.days < 1:
            raise InputError(f"Expected at least one day to hold back; found {self.days}.")
        most = 1.0 if self.kind == "official" else 0.5  # test and validation have a share each
        if not 0 < self.share < most:
            raise InputError(
                f"Expected a share between 0 and {most:g} to hold back; found {self.share}."
            )
        if self.seed < 0:
            raise InputError(f"Expected a seed from 0 on; found {self.seed}.")

    @classmethod
    def parse(cls, text: str) -> SplitRule:
        """Read what ``str`` writes."""
        kind, *numbers = text.split(":")
        names: dict[str, tuple[str, ...]] = {
            "official": ("share",),
            "days": ("days",),
            "time": ("share",),
            "last": ("seed",),
            "random": ("share", "seed"),
        }
        if kind not in names or len(numbers) > len(names[kind]):
            raise InputError(
                f"Expected a split such as official, days:7, time:0.1, last or random:0.1; found "
                f"{text!r}."
            )
        options: dict[str, Any] = {}
        for name, number in zip(names[kind], numbers, strict=False):
            try:
                options[name] = float(number) if name == "share" else int(number)
            except ValueError:
                raise InputError(
                    f"Expected a number for {name} in the split {text!r}; found {number!r}."
                ) from None
        return cls(kind, **options)  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.kind == "days":
            return f"days:{self.days}"
        seed = f":{self.seed}" if self.seed else ""
        if self.kind == "last":
            return f"last{seed}"
        return f"{self.kind}:{self.share:g}{seed if self.kind == 'random' else ''}"


def split_clicks(data: ClickData, rule: SplitRule) -> EvaluationSplit:
    """Divide clicks into train, validation and test.

    Raises:
        InputError: If the clicks cannot be divided so, or a part would be empty.
    """
    if rule.kind == "official":
        return EvaluationSplit.official(data, rule.share)
    if rule.kind == "days":
        return EvaluationSplit.by_time(data, rule.days)
    graph = data.graph
    if rule.kind == "random":
        chance, limit = _chance(graph, rule.seed), int(rule.share * (1 << 32))
        parts = (chance < limit).to(torch.int16) + (chance < 2 * limit)
        name = f"{rule.share:.2%} of the clicks drawn with seed {rule.seed}"
        return EvaluationSplit(_with_parts(graph, parts), name)
    _expect_days(data)
    if rule.kind == "time":
        begin, before = _last_days(graph, rule.share)
        assert graph.days is not None
        parts = (graph.days >= begin).to(torch.int16) + (graph.days >= before)
        name = f"days {begin} to {graph.day_range[1]} from those before"
        return EvaluationSplit(_with_parts(graph, parts), name)
    return _leave_last_out(graph, rule.seed)


@dataclass(frozen=True, eq=False)
class EvaluationSplit:
    """Train, validation and test clicks.

    Attributes:
        graph: All clicks; their days are 0 for train, 1 for validation and 2 for test.
        name: Description of the split.
    """

    graph: ClickGraph
    name: str

    def __post_init__(self) -> None:
        if empty := [name for name, count in self.counts.items() if not count]:
            raise InputError(
                f"Expected clicks in all of train, valid and test; found none in "
                f"{' and '.join(empty)} ({self.name}). Divide them in another way."
            )

    @classmethod
    def by_time(cls, data: ClickData, days: int = 1) -> EvaluationSplit:
        """The last days are the test, as many before them the validation.

        Args:
            data: Clicks with days.
            days: How many days a part has.
        """
        graph = data.graph
        _expect_days(data)
        first, last = graph.day_range
        begin = last - days + 1
        if days < 1 or begin - days <= first:
            raise InputError(
                f"Expected three spans of days; found days {first} to {last}, too few for a test "
                f"and a validation of {days} each. Give fewer days."
            )
        assert graph.days is not None
        number = graph.days.int()
        parts = (number >= begin).to(torch.int16) + (number >= begin - days)
        words = f"days {begin} to {last}" if days > 1 else f"day {last}"
        return cls(_with_parts(graph, parts), f"{words} from those before")

    @classmethod
    def official(cls, data: ClickData, hold_out: float = 0.1) -> EvaluationSplit:
        """The parts that came with a dataset.

        Args:
            data: Clicks whose days stand for parts.
            hold_out: Share of the training clicks to choose by, where no such part came with the
                data: a fixed choice, each click with the same chance.
        """
        graph = data.graph
        if data.parts not in (_NAMES, ("train", "test")):
            raise InputError(
                f"Expected the parts train and test, perhaps valid; found "
                f"{', '.join(data.parts) or 'none'} in {data.name}. Split by time."
            )
        assert graph.days is not None
        if data.parts == _NAMES and bool((graph.days == VALID).any()):
            return cls(graph, "official train, valid and test")
        if not 0 < hold_out < 1:
            raise InputError(f"Expected a share between 0 and 1 to hold out; found {hold_out}.")
        held = _chance(graph, _HELD_OUT) < int(hold_out * (1 << 32))
        parts = torch.where(graph.days > 0, TEST, torch.where(held, VALID, TRAIN))
        words = f"official train and test, {hold_out:.0%} of train held out to validate"
        return cls(_with_parts(graph, parts.to(torch.int16)), words)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Clicks in each part."""
        assert self.graph.days is not None
        found = torch.bincount(self.graph.days.long(), minlength=3).tolist()
        return dict(zip(_NAMES, found, strict=True))

    @cached_property
    def validation(self) -> ClickSplit:
        """Train and validation clicks. Nothing of the test is in it."""
        return ClickSplit(self.graph.until(VALID), self.graph.on(VALID), "validation")

    @cached_property
    def test(self) -> ClickSplit:
        """All clicks before the test, and those of the test."""
        return ClickSplit(self.graph.until(TEST), self.graph.on(TEST), "test")

    def facts(self) -> dict[str, Any]:
        """Name and sizes of the split, for a record."""
        return {"split": self.name, "parts": self.counts}


def hold_out(
    graph: ClickGraph,
    share: float = 0.1,
    *,
    by_time: bool = True,
    day: int | None = None,
    after: int | None = None,
) -> ClickSplit:
    """Hold out clicks to choose by.

    By time, the last days are held out, as many as come nearest to the share. Where clicks have no
    days, or all have the same, or these days would have more than half of them, a share of every
    user's clicks is held out, chosen by a hash of their place; at least one click of a user stays.

    Args:
        graph: Clicks to divide.
        share: Share of them to hold out.
        by_time: Divide by days if there are some.
        day: The first day to hold out, in place of a share.
        after: Hold out nothing of this day, nor before it.

    Raises:
        InputError: If one of the two sides would be empty.
    """
    if not 0 < share < 1:
        raise InputError(f"Expected a share between 0 and 1 to hold out; found {share}.")
    if day is None and by_time and graph.days is not None and graph.num_clicks:
        day = _day_of_share(graph, share)
    if after is not None:
        day = max(graph.day_range[1] if day is None else day, after + 1)
    if day is not None:
        assert graph.days is not None
        held, words = graph.days >= day, f"days from {day} on"
    else:
        held, words = _held_of_users(graph, share), f"{share:.0%} of every user's clicks"
    parted = ClickGraph(graph.by_user, graph.by_item, held.to(torch.int16))
    split = ClickSplit(parted.until(1), parted.on(1), f"validation: {words}")
    if not (split.train.num_clicks and split.targets.num_clicks):
        raise InputError(
            f"Expected clicks to learn from and clicks to validate by; found "
            f"{split.train.num_clicks} and {split.targets.num_clicks}. Hold out another share "
            f"(--hold-out), or train without validation for --epochs."
        )
    return split


def _day_of_share(graph: ClickGraph, share: float) -> int | None:
    """The day from which on the clicks come nearest to a share; ``None`` for one day alone, or if
    these clicks would be most of all."""
    first, last = graph.day_range
    if first == last:
        return None
    assert graph.days is not None
    counts = torch.bincount(graph.days.long() - first)
    after = counts.flip(0).cumsum(0).flip(0)[1:]  # clicks from each day but the first on
    held = after.double() / graph.num_clicks
    # Of days as near, the last: it leaves most to learn from.
    place = after.numel() - 1 - int((held - share).abs().flip(0).argmin())
    return None if float(held[place]) > max(share, 0.5) else first + 1 + place


def _held_of_users(graph: ClickGraph, share: float) -> Tensor:
    """A mask of clicks held out: of ``d`` clicks of a user ``share * d``, rounded by chance."""
    degree = graph.by_user.degree.long()
    place = torch.arange(graph.num_clicks, device=graph.device)
    user = torch.arange(graph.num_users, device=graph.device)
    wanted = share * degree.double() + _share(user, 1)
    count = torch.minimum(wanted.floor().long(), (degree - 1).clamp(min=0))
    owner = graph.by_user.row
    order = _share(place, 0).argsort()
    order = order[owner[order].argsort(stable=True)]  # by user, then by chance
    rank = torch.empty_like(place)
    rank[order] = place - graph.by_user.rowptr[owner[order]].long()
    return rank < count[owner]


def _share(numbers: Tensor, call: int) -> Tensor:
    """A fixed number from 0 to 1 for each."""
    return _hashed(numbers, _HELD_OUT + call).double() / (1 << 32)


def _leave_last_out(graph: ClickGraph, seed: int) -> EvaluationSplit:
    """Clicks of a user on one day come in an order that is drawn."""
    assert graph.days is not None
    degree = graph.by_user.degree
    user = graph.by_user.row
    order = _chance(graph, seed).argsort()
    for key in (graph.days, user):
        order = order[key[order].argsort(stable=True)]
    # Sorted by user, day and chance: the place from a row's end is the same before and after.
    ends = graph.by_user.rowptr[1:].repeat_interleave(degree)
    from_end = torch.empty_like(order)
    from_end[order] = ends - torch.arange(graph.num_clicks, device=graph.device)
    enough = degree[user] >= 3
    parts = (enough & (from_end == 1)).to(torch.int16) + (enough & (from_end <= 2))
    users = int((degree >= 3).sum())
    name = f"the last click of each of {plural(users, 'user')} with three or more"
    last = graph.by_user.rowptr[1:][degree >= 3].long() - 1
    ordered = graph.days[order]
    if drawn := int((ordered[last] == ordered[last - 1]).sum()):
        name += f", drawn for {drawn:,} among several on their last day"
    return EvaluationSplit(_with_parts(graph, parts), name)


def _last_days(graph: ClickGraph, share: float) -> tuple[int, int]:
    """First days of two spans at the end that hold at least a share of the clicks each."""
    first, last = graph.day_range
    assert graph.days is not None
    later = torch.bincount(graph.days.long() - first).flip(0).cumsum(0)
    least = share * graph.num_clicks
    test = int((later < least).sum())
    both = min(int((later < later[test] + least).sum()), last - first)
    return last - test, last - both


def _chance(graph: ClickGraph, seed: int) -> Tensor:
    """A fixed number from 0 to 2**32 - 1 for each click."""
    return _hashed(torch.arange(graph.num_clicks, device=graph.device), seed)


def _hashed(numbers: Tensor, seed: int) -> Tensor:
    return high_bits(mix(mix(numbers) + seed), 32)


def _expect_days(data: ClickData) -> None:
    if data.parts:
        raise InputError(
            f"Expected clicks with days for a split by time; those of {data.name} stand for the "
            f"parts {', '.join(data.parts)}. Use the official split."
        )


def _with_parts(graph: ClickGraph, parts: Tensor) -> ClickGraph:
    return ClickGraph(graph.by_user, graph.by_item, parts)
