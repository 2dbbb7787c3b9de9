"""All gates and seeds of a study, one after the other; what is on record is not run again."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.study.study_record import StudyRecord, file_name, identity
from drgcn.recommend.study.study_run import Look, StudyRun
from drgcn.recommend.study.study_settings import Gate, StudySettings
from drgcn.recommend.study.three_parts import ThreeParts

RUNNING = ".checkpoints"
SEARCH_SEED = 1_000_000  # no seed of a comparison is looked at in a search
Begin = Callable[[StudySettings, StudyRecord | None], Look | None]


def parts_of(data: ClickData, settings: StudySettings) -> ThreeParts:
    """The clicks divided as the settings say."""
    if settings.split == "official":
        return ThreeParts.official(data, settings.hold_out)
    return ThreeParts.by_time(data, settings.days)


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
    """
    if not gates or not seeds:
        raise InputError("Expected at least one gate and one seed; found none.")
    parts = parts_of(data, settings)

    def run(one: StudySettings, purpose: str = "compare") -> StudyRecord:
        return run_once(
            *(data, parts, one, Path(out), torch.device(device), environment or {}),
            purpose=purpose,
            checkpoint_every=checkpoint_every,
            begin=begin,
        )

    if search_lr:
        plain = replace(settings, gate="none", seed=SEARCH_SEED, protocol="kept")
        tried = {lr: run(replace(plain, lr=lr), "search") for lr in search_lr}
        settings = replace(settings, lr=max(tried, key=lambda lr: _recall(tried[lr])))
    return [
        run(replace(settings, gate=gate, seed=seed))
        for seed in seeds
        for gate in dict.fromkeys(gates)
    ]


def run_once(
    data: ClickData,
    parts: ThreeParts,
    settings: StudySettings,
    out: Path,
    device: torch.device,
    environment: dict[str, Any],
    *,
    purpose: str = "compare",
    checkpoint_every: float = 30.0,
    begin: Begin | None = None,
) -> StudyRecord:
    """The record of a run: read, or made and written."""
    known = identity(settings, data.content_hash, purpose)
    path = out / file_name(settings, data.name, known, purpose)
    if path.exists():
        record = StudyRecord.loads(path.read_text(encoding="utf-8"), str(path))
        if begin is not None:
            begin(settings, record)
        return record
    folder = out / RUNNING / known[:16]
    look = begin(settings, None) if begin is not None else None
    run = StudyRun(data, parts, settings, device, folder, checkpoint_every, look)
    record = run.record(environment, purpose)
    record.save(out)
    shutil.rmtree(folder, ignore_errors=True)
    gc.collect()  # a trainer holds itself by its recorded step, and that a pool of device memory
    return record


def _recall(record: StudyRecord) -> float:
    assert record.choice is not None
    return float(record.choice["best_recall"])
