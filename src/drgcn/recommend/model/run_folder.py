"""New models for a set of clicks, and a trained one as a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from drgcn._io import write_whole
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.model.encoder import AttributeSummary
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.streams import stream_key


def build_sage(
    data: ClickData, graph: ClickGraph | None = None, seed: int = 0, **options: Any
) -> ClickSAGE:
    """The model with statistics of the attributes of nodes that occur in the training clicks.

    Args:
        data: Attributes, and clicks if no graph is given.
        graph: The training clicks.
        seed: Of the weights; torch's own generator is left as it was.
        options: Arguments of :class:`ClickSAGE`.
    """
    graph = data.graph if graph is None else graph
    users = AttributeSummary.of(data.users, graph.num_users, graph.by_user.degree > 0)
    items = AttributeSummary.of(data.items, graph.num_items, graph.by_item.degree > 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        return ClickSAGE(users, items, **options)


def build_lightgcn(graph: ClickGraph, seed: int = 0, **options: Any) -> LightGCN:
    """The model for the users and items of a graph.

    Args:
        graph: The training clicks.
        seed: Of the embeddings.
        options: Arguments of :class:`LightGCN`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        return LightGCN(graph.num_users, graph.num_items, **options)


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
    """Writes a run. Settings come last: a folder that has them is complete.

    Args:
        folder: Where to.
        model: The trained model.
        settings: How it was trained, on what.
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
    """The model of a folder that :func:`save_run` wrote, ready to embed, and its settings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"Expected a run at {folder}; there is no such folder. Check the path.")
    try:
        facts = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        model = build(facts["model"])
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"Expected a folder that `drgcn recommend train` wrote to the end; found {folder} "
            f"({error}). Run the training again: it goes on where it was."
        ) from None
    return model.eval(), facts


def describe(model: ClickSAGE | LightGCN) -> dict[str, Any]:
    """What :func:`build` needs to make such a model."""
    if isinstance(model, LightGCN):
        return {"kind": "lightgcn", **model.settings}
    return {
        "kind": "sage",
        "users": model.encoder("user").summary.to_json(),
        "items": model.encoder("item").summary.to_json(),
        **model.settings,
    }


def build(description: dict[str, Any]) -> ClickSAGE | LightGCN:
    """A model as :func:`describe` described it, with fresh weights."""
    options = dict(description)
    kind = options.pop("kind")
    if kind == "lightgcn":
        return LightGCN(**options)
    users, items = (AttributeSummary.from_json(options.pop(side)) for side in ("users", "items"))
    return ClickSAGE(users, items, **options)


def _write(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=1))
