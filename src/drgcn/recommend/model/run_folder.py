"""Click models: built from options for a set of clicks, saved as a folder, and loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor

from drgcn._io import plain_file, sweep, write_whole
from drgcn.data.readers import read_json
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.model.encoder import LARGEST_COLUMN, AttributeEncoder, AttributeSummary
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.records import expect_types, sealed, unsealed
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


@dataclass(frozen=True, eq=False)
class Origin:
    """A trained model that a training goes on from.

    Attributes:
        model: The model.
        digest: Hash of its weights.
        last_day: The last day that it has learnt from; ``None`` if that is not known.
    """

    model: ClickSAGE | LightGCN
    digest: str
    last_day: int | None = None


def build_model(
    data: ClickData,
    graph: ClickGraph,
    options: ModelOptions | None = None,
    origin: Origin | None = None,
) -> ClickSAGE | LightGCN:
    """Build a model with fresh weights; torch's own generator is left as it was.

    A user or item with an embedding of its own has a row of its own. Only users beyond
    :data:`MOST_ID_ROWS` share that many rows by hash.

    For one seed, all gates begin with the same weights but for the gate's own. With an origin, all
    that it knows has its weights, and numbers are standardised by its statistics; users, items and
    values of categories that came since begin as in a fresh model.

    Args:
        data: Attributes of users and items.
        graph: The training clicks; statistics of attributes are those of nodes that occur in it.
        options: Kind, widths and seed. (default: SAGE without a gate)
        origin: A model of fewer users and items to begin with. (default: fresh weights)

    Raises:
        InputError: If the origin is another kind of model, or of other attributes; or if there
            is nothing to put a gate in front of.
    """
    options = options or ModelOptions()
    summaries = None
    if origin is not None and not _is_plain(origin.model):
        summaries = _grown_summaries(data, graph, origin.model)
    model = _fresh_model(data, graph, options, summaries)
    if origin is not None:
        _carry_over(origin.model, model)
    return model


def _fresh_model(
    data: ClickData,
    graph: ClickGraph,
    options: ModelOptions,
    summaries: tuple[AttributeSummary, AttributeSummary] | None,
) -> ClickSAGE | LightGCN:
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
    users, items = summaries or attribute_summaries(data, graph)

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
    if isinstance(gated, AttributedLightGCN) and not gated.gates:
        raise InputError(
            f"Expected attributes of users or items, which the gate of the hybrid stands in front "
            f"of; found none, and a gate {options.gate}. Do without a gate, or use sage."
        )
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


def _is_plain(model: ClickSAGE | LightGCN) -> bool:
    """True for LightGCN without attributes."""
    return isinstance(model, LightGCN) and not isinstance(model, AttributedLightGCN)


def _grown_summaries(
    data: ClickData, graph: ClickGraph, known: ClickSAGE | LightGCN
) -> tuple[AttributeSummary, AttributeSummary]:
    """Statistics of a model for more nodes and more values of its columns."""
    assert isinstance(known, ClickSAGE | AttributedLightGCN)
    found = []
    for side, table, count in (
        ("user", data.users, graph.num_users),
        ("item", data.items, graph.num_items),
    ):
        old = known.encoder(side).summary  # type: ignore[arg-type]
        names = ((), ()) if table is None else (table.numeric_names, table.category_names)
        sizes = () if table is None else table.category_sizes
        if names != (old.numeric_names, old.category_names) or any(
            new < before for new, before in zip(sizes, old.category_sizes, strict=True)
        ):
            raise InputError(
                f"Expected the attributes of {side}s that the run was trained on, with their "
                f"values; found others. Give clicks that grew out of its own (`ingest --append`)."
            )
        found.append(replace(old, num_nodes=count, category_sizes=sizes))
    return found[0], found[1]


@torch.no_grad()
def _carry_over(known: ClickSAGE | LightGCN, model: ClickSAGE | LightGCN) -> None:
    """Give a model the weights of one that has a part of its users, items and categories."""
    if type(model) is not type(known):
        raise InputError(
            f"Expected the kind of model that the run has, {type(known).__name__}; found "
            f"{type(model).__name__}. Leave --model out, or train without --from."
        )
    sizes = ("num_users", "num_items")
    for name, value in known.settings.items():
        if name not in sizes and model.settings[name] != value:
            raise InputError(
                f"Expected {name} as in the run to go on from, {value}; found "
                f"{model.settings[name]}. Leave its option out, or train without --from."
            )
    old, new = known.state_dict(), model.state_dict()
    for name, value in old.items():
        if name == "frozen":  # means over all clicks are taken again at the end
            continue
        for there, here in _rows_in_both(name, known, model):
            new[name][there] = value[here]
    model.load_state_dict(new)


def _rows_in_both(
    name: str, known: ClickSAGE | LightGCN, model: ClickSAGE | LightGCN
) -> list[tuple[Any, Any]]:
    """Rows of a tensor in the larger model, and the same ones in the smaller."""
    if name == "embeddings":
        assert isinstance(known, LightGCN)
        assert isinstance(model, LightGCN)
        users, items = known.num_users, known.num_items
        behind = slice(model.num_users, model.num_users + items)
        return [
            (slice(users), slice(users)),
            (behind, slice(users, users + items)),
        ]
    part, _, kind = name.rpartition(".")
    if kind == "table":
        one, other = (encoder_of.get_submodule(part) for encoder_of in (known, model))
        assert isinstance(one, AttributeEncoder)
        assert isinstance(other, AttributeEncoder)
        return list(_category_rows(one.summary.category_sizes, other.summary.category_sizes))
    if kind == "id_table":  # the last row is padding
        own = known.get_submodule(part)
        assert isinstance(own, AttributeEncoder)
        return [(slice(own.id_rows), slice(own.id_rows))]
    return [(..., ...)]


def _category_rows(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Rows of each column's values, and of what is missing in it, behind them."""
    there = here = 0
    for before, after in zip(old, new, strict=True):
        if before != after and after > LARGEST_COLUMN:
            raise InputError(
                f"Expected categories of at most {LARGEST_COLUMN:,} values to go on from a run; "
                f"found one that grew to {after:,}, whose rows are shared by hash. Train without "
                f"--from."
            )
        kept, size = min(before, LARGEST_COLUMN), min(after, LARGEST_COLUMN)
        yield slice(there, there + kept), slice(here, here + kept)
        yield slice(there + size, there + size + 1), slice(here + kept, here + kept + 1)
        there, here = there + size + 1, here + kept + 1


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
    _write(folder / HISTORY, sealed({"losses": points}))
    _write(folder / RECORD, sealed(record))
    digest = hashlib.sha256(content).hexdigest()
    _write(
        folder / SETTINGS,
        sealed({"model": describe(model), "training": settings, "weights_sha256": digest}),
    )
    return folder


def clear_left(folder: Path) -> None:
    """Remove the checkpoints of a run, and what a process that was killed had begun to write."""
    for name in (CHECKPOINT, CHOICE):
        (folder / name).unlink(missing_ok=True)
    sweep(folder)


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
        facts = unsealed(read_json(folder / SETTINGS))
        model = from_description(facts["model"])
        content = plain_file(folder / WEIGHTS).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if facts.get("weights_sha256", digest) != digest:  # earlier versions wrote none
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


# Settings of models that any value would pass for.
_KINDS: Final = {
    **dict.fromkeys(("temperature", "cold_share", "shrinkage"), float),
    "normalize": bool,
    "user_id_rows": int | None,
}


def from_description(description: dict[str, Any]) -> ClickSAGE | LightGCN:
    """Build a model from what :func:`describe` returned, with arbitrary weights."""
    options = dict(description)
    kind = options.pop("kind")
    expect_types(_KINDS, options, "the model")
    if kind == "lightgcn":
        return LightGCN(**options)
    users, items = (AttributeSummary.from_json(options.pop(side)) for side in ("users", "items"))
    return {"sage": ClickSAGE, "hybrid": AttributedLightGCN}[kind](users, items, **options)


def _write(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=1))
