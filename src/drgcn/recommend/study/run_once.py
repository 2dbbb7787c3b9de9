"""One run of a study, read from its record or made and recorded."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.study.study_record import StudyRecord, file_name, identity
from drgcn.recommend.study.study_run import Look, StudyRun
from drgcn.recommend.study.study_settings import StudySettings
from drgcn.recommend.study.three_parts import ThreeParts

RUNNING = ".checkpoints"
Begin = Callable[[StudySettings, StudyRecord | None], Look | None]


def parts_of(data: ClickData, settings: StudySettings) -> ThreeParts:
    """The clicks divided as the settings say."""
    if settings.split == "official":
        return ThreeParts.official(data, settings.hold_out)
    return ThreeParts.by_time(data, settings.days)


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
