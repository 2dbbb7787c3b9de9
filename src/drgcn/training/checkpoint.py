"""Checkpoints of training: saved whole or not at all, loaded, cleared."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from drgcn._io import replacing
from drgcn.errors import DrgcnWarning, InputError


def save_checkpoint(
    path: Path, tensors: dict[str, Tensor], seconds: float, fingerprint: str = ""
) -> None:
    """Write a checkpoint that takes the place of the old one in one step."""
    # Copies: safetensors refuses tensors that share memory, such as views of one buffer.
    copies = {name: value.cpu().clone().contiguous() for name, value in tensors.items()}
    with replacing(path) as partial:
        save_file(copies, partial, metadata={"seconds": repr(seconds), "run": fingerprint})


def clear_checkpoint(path: Path) -> None:
    """Remove the checkpoints of a pass, once its results are stored elsewhere."""
    block = re.compile(rf"\.?{re.escape(path.name)}\.[0-9a-f]{{8}}(\.\d+\.partial)?")
    for saved in path.parent.iterdir() if path.parent.is_dir() else ():
        if block.fullmatch(saved.name):
            saved.unlink()


def load_checkpoint(path: Path, fingerprint: str = "") -> tuple[dict[str, Tensor], float] | None:
    """Return the tensors and the seconds spent so far; ``None`` if the file is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = file.metadata()
    except SafetensorError as error:
        warnings.warn(
            f"The checkpoint {path} is damaged ({error}): starting anew.",
            DrgcnWarning,
            stacklevel=2,
        )
        return None
    if facts["run"] != fingerprint:
        raise InputError(
            f"Expected a checkpoint of this very run; {path} belongs to one with other data or "
            f"settings. Choose another path, or remove it."
        )
    return tensors, float(facts["seconds"])
