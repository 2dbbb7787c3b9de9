"""Read and write the folder of a training run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from drgcn._io import write_whole
from drgcn.errors import InputError
from drgcn.recommend.model.encoder import AttributeSummary
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.sage import ClickSAGE

WEIGHTS, SETTINGS = "weights.safetensors", "settings.json"
HISTORY, RECORD = "history.json", "record.json"
CHECKPOINT = "checkpoint.safetensors"
_POINTS = 1000


def save_run(
    folder: Path | str,
    model: ClickSAGE | LightGCN,
    settings: dict[str, Any],
    losses: Tensor,
    record: dict[str, Any],
) -> Path:
    """Write a run. Settings come last: a folder that has them is complete.

    Args:
        folder: Folder to write.
        model: The trained model.
        settings: Data and settings of the training.
        losses: Loss of every step; at most a thousand means of them are kept.
        record: Versions, hardware, hash of the data, seconds.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.cpu().contiguous() for name, value in model.state_dict().items()}
    partial = folder / f"{WEIGHTS}.partial"
    save_file(weights, partial)
    partial.replace(folder / WEIGHTS)
    stride = -(-losses.numel() // _POINTS) or 1
    points = [
        {"step": min(at + stride, losses.numel()), "loss": float(losses[at : at + stride].mean())}
        for at in range(0, losses.numel(), stride)
    ]
    _write(folder / HISTORY, points)
    _write(folder / RECORD, record)
    _write(folder / SETTINGS, {"model": describe(model), "training": settings})
    return folder


def load_run(folder: Path | str) -> tuple[ClickSAGE | LightGCN, dict[str, Any]]:
    """Return the model that :func:`save_run` wrote, ready to embed, and its settings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"Expected a run at {folder}; there is no such folder. Check the path.")
    try:
        facts = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        model = from_description(facts["model"])
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"Expected a folder that `drgcn recommend train` wrote to the end; found {folder} "
            f"({error}). Run the training again: it goes on where it was."
        ) from None
    return model.eval(), facts


def describe(model: ClickSAGE | LightGCN) -> dict[str, Any]:
    """Return the plain values that :func:`from_description` makes such a model of."""
    if isinstance(model, LightGCN):
        return {"kind": "lightgcn", **model.settings}
    return {
        "kind": "sage",
        "users": model.encoder("user").summary.to_json(),
        "items": model.encoder("item").summary.to_json(),
        **model.settings,
    }


def from_description(description: dict[str, Any]) -> ClickSAGE | LightGCN:
    """Build a model from what :func:`describe` returned, with arbitrary weights."""
    options = dict(description)
    kind = options.pop("kind")
    if kind == "lightgcn":
        return LightGCN(**options)
    users, items = (AttributeSummary.from_json(options.pop(side)) for side in ("users", "items"))
    return ClickSAGE(users, items, **options)


def _write(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=1))
