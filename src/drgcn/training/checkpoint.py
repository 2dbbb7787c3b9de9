"""Checkpoints that are either whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor


def save_checkpoint(path: Path, tensors: dict[str, Tensor], seconds: float) -> None:
    """Writes beside the old checkpoint, then takes its place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    # Copies: safetensors refuses tensors that share memory, such as views of one buffer.
    copies = {name: value.cpu().clone().contiguous() for name, value in tensors.items()}
    save_file(copies, partial, metadata={"seconds": repr(seconds)})
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def clear_checkpoint(path: Path) -> None:
    """Removes the checkpoints of a pass, once its results are safe elsewhere."""
    for saved in path.parent.glob(f"{path.name}.*"):
        saved.unlink()


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], float]:
    """The tensors, and the seconds spent on them so far."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, float(file.metadata()["seconds"])
