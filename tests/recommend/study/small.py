"""Clicks and settings so small that a run takes a fraction of a second."""

from dataclasses import replace

import torch

from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.study import StudySettings

from ..model.clicks import planted


def timed(days=12):
    """Four groups told by a category, with a day for every click."""
    made = planted()
    generator = torch.Generator().manual_seed(3)
    day = torch.randint(days, (made.graph.num_clicks,), generator=generator)
    graph = ClickGraph(made.graph.by_user, made.graph.by_item, day.to(torch.int16))
    return replace(made, graph=graph, name="planted")


def official(parts=("train", "valid", "test")):
    """The same clicks without attributes, their days the parts of a split."""
    made = timed(len(parts))
    return ClickData(made.graph, name="parts", parts=parts)


SMALL = StudySettings(
    days=2,
    n=(5, 10),
    channels=8,
    fan_outs=(3, 2),
    batch_size=64,
    negatives=16,
    lr=0.01,
    epochs_max=6.0,
    every=1.0,
    patience=3,
)


def settled(record):
    """All of a record that does not depend on when and where it was made."""
    facts = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {k: v for k, v in facts.items() if k not in ("seconds", "started", "environment")}
