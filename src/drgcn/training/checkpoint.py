"""Checkpoints of training: saved whole or not at all, loaded, cleared, and known by a hash."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data

from drgcn._io import plain_file, remove_orphans, write_whole
from drgcn.errors import InputError, warn
from drgcn.records import UNSOUND
from drgcn.streams import stream_key
from drgcn.training.inputs import name_of

# Version of the layout of checkpoints; one of another layout cannot be resumed.
_STATE: Final = 4


#: Networks of a checkpoint: the seed of each, and what it is trained with.
Lanes = Sequence[tuple[int, Mapping[str, Any]]]


def save_checkpoint(
    path: Path,
    tensors: dict[str, Tensor],
    seconds: float,
    fingerprint: str = "",
    lanes: Lanes | None = None,
) -> None:
    """Write a checkpoint that takes the place of the old one in one step."""
    # Copies: safetensors refuses tensors that share memory, such as views of one buffer.
    copies = {name: value.cpu().clone().contiguous() for name, value in tensors.items()}
    facts = {"seconds": repr(seconds), "run": fingerprint}
    if lanes is not None:
        facts["lanes"] = json.dumps(lanes)
    facts["sha256"] = _digest(copies, facts)
    # Not save_file, which writes beside the file under a name of its own: a kill would leave it.
    write_whole(path, save(copies, metadata=facts))


def clear_checkpoint(path: Path, done: Callable[[Lanes], bool] | None = None) -> None:
    """Remove the checkpoints of a pass, once its results are stored elsewhere.

    What another process is writing at this moment stays: it is removed at that one's own end.

    Args:
        path: Path that they begin with.
        done: Says of the networks that a checkpoint was asked for whether they need it no more.
            Checkpoints that nobody can go on from are removed in any case, and those of earlier
            versions, which do not say what they hold, stay. (default: remove all)
    """
    if not path.parent.is_dir():
        return
    remove_orphans(path)
    block = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{8}}")
    for saved in path.parent.iterdir():
        with suppress(FileNotFoundError):  # another process may clear at the same time
            if block.fullmatch(saved.name) and (done is None or _is_done(saved, done)):
                saved.unlink()


def _is_done(path: Path, done: Callable[[Lanes], bool]) -> bool:
    """Judge by what a checkpoint holds: times of the system may jump."""
    try:
        with safe_open(plain_file(path), framework="pt") as file:
            lanes = json.loads((file.metadata() or {}).get("lanes", "null"))
        return lanes is not None and done(lanes)
    except (SafetensorError, *UNSOUND):
        return True


def load_checkpoint(path: Path, fingerprint: str = "") -> tuple[dict[str, Tensor], float] | None:
    """Return the tensors and the seconds spent so far.

    ``None`` if there is none; with a warning, if the file is not to the bit what was saved, or of
    an older layout.
    """
    try:
        with safe_open(plain_file(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = file.metadata() or {}
        if facts.pop("sha256", None) != _digest(tensors, facts):
            raise ValueError("its content is not what was saved")
    except FileNotFoundError:
        return None  # another process has ended the same work in this moment
    except (SafetensorError, ValueError) as error:
        warn(f"The checkpoint {path} is damaged or of an older layout ({error}): starting anew.")
        return None
    if facts["run"] != fingerprint:
        raise InputError(
            f"Expected a checkpoint of this very run; {path} belongs to one with other data or "
            f"settings. Choose another path, or remove it."
        )
    return tensors, float(facts["seconds"])


def _digest(tensors: dict[str, Tensor], facts: dict[str, str]) -> str:
    """Hash all that a checkpoint holds."""
    shapes = [(name, str(value.dtype), list(value.shape)) for name, value in tensors.items()]
    digest = hashlib.sha256(repr((sorted(shapes), sorted(facts.items()))).encode())
    for _, value in sorted(tensors.items()):
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fingerprint_of(
    settings: tuple[Any, ...],
    graphs: Iterable[Data],
    make_model: Callable[[], torch.nn.Module],
    inputs: tuple[Any, ...] = (),
) -> str:
    """Hash settings, data, model and its arguments, so that only checkpoints of the same run are
    resumed."""
    digest = hashlib.sha256(repr((_STATE, *settings)).encode())

    def add(name: str, value: Any) -> None:
        if isinstance(value, list | np.ndarray):  # as masks may be
            digest.update(f"{name} {np.asarray(value).tolist()}".encode())
        if isinstance(value, Tensor):
            dense = value if value.layout == torch.strided else value.to_dense()
            digest.update(f"{name} {dense.dtype} {list(dense.shape)}".encode())
            digest.update(dense.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())

    for graph in graphs:
        for name, value in sorted(graph.to_dict().items()):
            add(name, value)
    for place, value in enumerate(inputs):
        add(f"input {place}", value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(0, "initialisation"))
        model = make_model()
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {parameter.requires_grad}".encode())
        if not is_lazy(parameter):
            add(name, parameter)
    digest.update(repr(model).encode())
    for name, module in model.named_modules():  # dropout rates and the like are seldom printed
        facts = {k: _printed(v) for k, v in vars(module).items() if _is_plain(v)}
        digest.update(f"{name} {type(module).__qualname__} {sorted(facts.items())}".encode())
    return digest.hexdigest()


def _is_plain(value: Any) -> bool:
    """True for values that print the same in every process: numbers, text, functions, tuples."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str) or inspect.isroutine(value)


def _printed(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_printed, value))})"
    return name_of(value) if inspect.isroutine(value) else repr(value)
