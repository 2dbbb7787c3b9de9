"""Splits of clicks: two parts by time, or train, validation and test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.streams import mix

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

    def to(self, device: torch.device | str) -> ClickSplit:
        """The same split on another device."""
        return ClickSplit(self.train.to(device), self.targets.to(device), self.name)


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
        if data.parts:
            raise InputError(
                f"Expected clicks with days for a split by time; those of {data.name} stand for "
                f"the parts {', '.join(data.parts)}. Use the official split."
            )
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
        place = torch.arange(graph.num_clicks, device=graph.device)
        chance = (mix(mix(place) + _HELD_OUT) >> 32) & ((1 << 32) - 1)
        held = chance < int(hold_out * (1 << 32))
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


def _with_parts(graph: ClickGraph, parts: torch.Tensor) -> ClickGraph:
    return ClickGraph(graph.by_user, graph.by_item, parts)
