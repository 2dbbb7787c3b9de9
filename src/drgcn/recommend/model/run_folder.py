"""Click models: built from options for a set of clicks, saved as a folder, and loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor

from drgcn._io import write_whole
from drgcn.data.readers import read_json
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.model.encoder import AttributeSummary
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.streams import stream_key

ModelName = Literal["sage", "lightgcn", "hybrid"]
Gate = Literal["none", "constant", "static", "dr"]
#: Rows of the largest table of user embeddings; where there are more users, they share rows.
MOST_ID_ROWS = 1 << 20
WEIGHTS, SETTINGS = "weights.safetensors", "settings.json"
HISTORY, RECORD = "history.json", "record.json"
CONFIG = "config.toml"
CHECKPOINT = "checkpoint.safetensors"
CHOICE = "choice.safetensors"  # checkpoint of a training that validation watches
_POINTS = 1000


@dataclass(frozen=True)
class ModelOptions:
    """Options of a new click model.

    Attributes:
        model: SAGE on attributes, LightGCN on ids, or LightGCN on ids and attributes (hybrid).
        gate: Gate in front of every layer of SAGE, or of the attributes in the hybrid; LightGCN
            has none.
        seed: Seed of the first weights.
        channels: Width of hidden vectors and embeddings.
        layers: Propagations of LightGCN.
        fan_outs: Neighbours that SAGE draws at each level.
        user_ids: Width of an embedding of the user in SAGE, 0 for none. (default: none if users
            have attributes, else ``channels``)
        item_ids: Width of an embedding of the item, likewise.
        temperature: Divisor of scores. (default: the model's own)
        normalize: Whether embeddings have length one. (default: the model's own)
        cold_share: Share of the users in a batch that the hybrid trains as if they had no clicks.
            (default: the model's own)
    """

    model: ModelName = "sage"
    gate: Gate = "none"
    seed: int = 0
    channels: int = 64
    layers: int = 3
    fan_outs: tuple[int, ...] = (10, 5)
    user_ids: int | None = None
    item_ids: int | None = None
    temperature: float | None = None
    normalize: bool | None = None
    cold_share: float | None = None


def build_model(
    data: ClickData, graph: ClickGraph, options: ModelOptions | None = None
) -> ClickSAGE | LightGCN:
    """Build a model with fresh weights; torch's own generator is left as it was.

    A user or item with an embedding of its own has a row of its own. Only users beyond
    :data:`MOST_ID_ROWS` share that many rows by hash.

    For one seed, all gates begin with the same weights but for the gate's own.

    Args:
        data: Attributes of users and items.
        graph: The training clicks; statistics of attributes are those of nodes that occur in it.
        options: Kind, widths and seed. (default: SAGE without a gate)
    """
    options = options or ModelOptions()
    shared: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("temperature", "normalize")
        if getattr(options, name) is not None
    }
    if options.model == "lightgcn":
        with initial_weights(options.seed):
            return LightGCN(
                graph.num_users,
                graph.num_items,
                options.channels,
                options.layers,
                **shared,
            )
    users, items = attribute_summaries(data, graph)

    def with_gate(
        gate: Literal["constant", "static", "dr"] | None,
    ) -> ClickSAGE | AttributedLightGCN:
        with initial_weights(options.seed):
            if options.model == "hybrid":
                if options.cold_share is not None:
                    shared["cold_share"] = options.cold_share
                return AttributedLightGCN(
                    users, items, options.channels, options.layers, gate, **shared
                )
            return ClickSAGE(
                users,
                items,
                options.channels,
                options.channels,
                options.fan_outs,
                gate,
                user_id_channels=_id_channels(options.user_ids, data.users, options),
                user_id_rows=MOST_ID_ROWS if graph.num_users > MOST_ID_ROWS else None,
                item_id_channels=_id_channels(options.item_ids, data.items, options),
                **shared,
            )

    plain = with_gate(None)
    if options.gate == "none":
        return plain
    # A Dr block draws weights of its own, between those of layers: without this, a seed would
    # mean other first layers for Dr than for the gates it is paired with.
    gated = with_gate(options.gate)
    gated.load_state_dict(plain.state_dict(), strict=False)
    return gated


def attribute_summaries(
    data: ClickData, graph: ClickGraph
) -> tuple[AttributeSummary, AttributeSummary]:
    """Statistics of the attributes of users and of items that occur in some clicks."""
    return (
        AttributeSummary.of(data.users, graph.num_users, graph.by_user.degree > 0),
        AttributeSummary.of(data.items, graph.num_items, graph.by_item.degree > 0),
    )


@contextmanager
def initial_weights(seed: int) -> Iterator[None]:
    """Let modules that are made meanwhile draw their weights from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        yield


def _id_channels(asked: int | None, table: AttributeTable | None, options: ModelOptions) -> int:
    if asked is not None:
        return asked
    return options.channels if table is None else 0


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
    content = save(weights)
    write_whole(folder / WEIGHTS, content)
    stride = -(-losses.numel() // _POINTS) or 1
    points = [
        {"step": min(at + stride, losses.numel()), "loss": float(losses[at : at + stride].mean())}
        for at in range(0, losses.numel(), stride)
    ]
    _write(folder / HISTORY, points)
    _write(folder / RECORD, record)
    digest = hashlib.sha256(content).hexdigest()
    _write(
        folder / SETTINGS,
        {"model": describe(model), "training": settings, "weights_sha256": digest},
    )
    return folder


def relative_source(source: dict[str, str], run: Path) -> dict[str, str]:
    """Source of clicks with a folder relative to a run: both may be moved together."""
    if not source.get("folder"):
        return source
    return {**source, "folder": os.path.relpath(source["folder"], run)}


def load_run(folder: Path | str) -> tuple[ClickSAGE | LightGCN, dict[str, Any]]:
    """Return the model that :func:`save_run` wrote, ready to embed, and its settings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"Expected a run at {folder}; there is no such folder. Check the path.")
    try:
        facts = read_json(folder / SETTINGS)
        model = from_description(facts["model"])
        content = (folder / WEIGHTS).read_bytes()
        # Runs of earlier versions have no digest.
        if facts.get("weights_sha256") not in (None, hashlib.sha256(content).hexdigest()):
            raise ValueError(f"{WEIGHTS} is not what was written")
        model.load_state_dict(load(content))
        training = dict(facts["training"])
    except Exception as error:  # a damaged description can raise nearly anything
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise InputError(
            f"Expected a folder that `drgcn recommend train` wrote to the end; found {folder} "
            f"({reason:.300}). Run the training again: it goes on where it was."
        ) from None
    return model.eval(), facts | {"training": training}


def describe(model: ClickSAGE | LightGCN) -> dict[str, Any]:
    """Return the plain values that :func:`from_description` makes such a model of."""
    if isinstance(model, LightGCN) and not isinstance(model, AttributedLightGCN):
        return {"kind": "lightgcn", **model.settings}
    return {
        "kind": "sage" if isinstance(model, ClickSAGE) else "hybrid",
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
    return {"sage": ClickSAGE, "hybrid": AttributedLightGCN}[kind](users, items, **options)


def _write(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=1))
