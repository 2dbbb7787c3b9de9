"""One rank of ``drgcn recommend train``, from clicks to a folder with the run."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drgcn.cli.options import use_device
from drgcn.cli.recommending.rank_clicks import clear_run, rank_clicks
from drgcn.cli.recommending.train_inputs import build, numbers
from drgcn.cli.recommending.train_progress import trained
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.distributed.group import joined_ranks
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.run_folder import CHECKPOINT, RECORD, save_run


def train_here(asked: Mapping[str, Any], settings: TrainSettings, data: ClickData) -> None:
    """Trains, and says how it went; of several ranks, the first writes and says it.

    Args:
        asked: All options of the command by name.
        settings: What they come to.
        data: The clicks.
    """
    out, targets = asked["out"], asked["targets"]
    with joined_ranks(use_device(asked["device"])) as (exchange, where):
        last, graph, goal = rank_clicks(
            data, asked["day"], asked["all_days"], targets, out, exchange
        )
        made = build(
            *(asked["model"], data, graph, asked["seed"], asked["gate"], asked["channels"]),
            *(numbers(asked["fan_outs"]), asked["layers"], asked["user_ids"], asked["item_ids"]),
            asked["temperature"],
        )
        result, record = trained(
            *(made, data, graph, settings, goal, where),
            checkpoint=out / CHECKPOINT,
            checkpoint_every=asked["checkpoint_every"],
            exchange=exchange,
        )
        if exchange.rank > 0:
            return
        facts = {
            **{"data": data.name, "content_hash": data.content_hash, "day": last},
            # Seen from the run, so that both may be moved together.
            **{"folder": os.path.relpath(asked["folder"], out), "targets": targets.value},
            **asdict(settings),
        }
        save_run(out, made, facts, result.losses, record)
        clear_run(out)
        say_run(out, asked["json"])


def say_run(out: Path, json: bool) -> None:
    """How a run went that was written to the end."""
    record = jsonlib.loads((out / RECORD).read_text(encoding="utf-8"))
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    print(
        f"{record['steps']:,} steps in {record['seconds']:.1f} s, loss {record['loss']:.4f} over "
        f"the last tenth"
    )
    print(f"written to {out}")
