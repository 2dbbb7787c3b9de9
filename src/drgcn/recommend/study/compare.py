"""All gates and seeds of a study, one after the other; what is on record is not run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.study.run_once import Begin, parts_of, run_once
from drgcn.recommend.study.side_by_side import SideBySide, Task
from drgcn.recommend.study.study_record import StudyRecord
from drgcn.recommend.study.study_settings import Gate, StudySettings

SEARCH_SEED = 1_000_000  # no seed of a comparison is looked at in a search


def compare(
    data: ClickData,
    settings: StudySettings,
    out: Path | str,
    *,
    gates: Sequence[Gate] = ("none", "constant", "static", "dr"),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    search_lr: Sequence[float] = (),
    device: torch.device | str = "cpu",
    environment: dict[str, Any] | None = None,
    checkpoint_every: float = 30.0,
    begin: Begin | None = None,
    jobs: int = 1,
    load: Callable[[], ClickData] | None = None,
) -> list[StudyRecord]:
    """Runs what is not on record yet, and returns all records that were asked for.

    Gates share everything else: learning rate, limit and patience, and for a seed first weights,
    batches and draws. Seeds are the outer loop, so that a study cut short has whole seeds.

    Args:
        data: The clicks.
        settings: What is shared; its gate and seed do not matter.
        out: Folder of the records.
        gates: Gates to compare.
        seeds: Seeds, for all gates the same.
        search_lr: Learning rates to choose from, by validation of the plain model alone, with a
            seed of its own. (default: that of the settings)
        device: Where to run.
        environment: Versions and hardware, for the records.
        checkpoint_every: Seconds between checkpoints.
        begin: Called before every run, with its record if there is one; returns what is to be
            told of its progress.
        jobs: Runs at once, in processes that share the device.
        load: With several jobs, gives the same clicks to each process; it and ``begin`` must be
            functions that can be pickled.
    """
    if not gates or not seeds:
        raise InputError("Expected at least one gate and one seed; found none.")
    parts = parts_of(data, settings)
    place = (Path(out), torch.device(device), environment or {})

    def run(tasks: list[Task]) -> list[StudyRecord]:
        if jobs > 1 and load is not None:
            return SideBySide(load, jobs, *place, checkpoint_every, begin).records(tasks)
        return [
            run_once(
                *(data, parts, one, *place),
                purpose=purpose,
                checkpoint_every=checkpoint_every,
                begin=begin,
            )
            for one, purpose in tasks
        ]

    if search_lr:
        plain = replace(settings, gate="none", seed=SEARCH_SEED, protocol="kept")
        tried = run([(replace(plain, lr=lr), "search") for lr in search_lr])
        settings = replace(settings, lr=max(tried, key=_recall).settings.lr)
    return run(
        [
            (replace(settings, gate=gate, seed=seed), "compare")
            for seed in seeds
            for gate in dict.fromkeys(gates)
        ]
    )


def _recall(record: StudyRecord) -> float:
    assert record.choice is not None
    return float(record.choice["best_recall"])
