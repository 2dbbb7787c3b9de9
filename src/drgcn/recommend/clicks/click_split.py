"""What a model may see, and what it is to find."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph


@dataclass(frozen=True, eq=False)
class ClickSplit:
    """Two sets of clicks between the same users and items.

    Attributes:
        train: What a model may see.
        targets: What is to be found.
        name: How the clicks were divided, in words.
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
