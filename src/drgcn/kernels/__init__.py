"""Triton kernels of the library: whether they can be built, and the axis of lanes they take."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def triton_available() -> bool:
    """Return whether Triton is installed with a C compiler, which builds its launchers."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return find_spec("triton") is not None and compiler is not None


def being_recorded() -> bool:
    """Return whether operations are being recorded as a program.

    A kernel that is launched then would be missing from it: plain operations take its place.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def with_lanes(value: Tensor, dim: int | None, lanes: int) -> Tensor:
    """``value`` with the lanes of :func:`torch.vmap` as its first axis.

    Args:
        value: An argument of a ``vmap`` rule.
        dim: Its axis of lanes; ``None`` if all lanes share it, which copies nothing.
        lanes: Number of lanes.
    """
    return value.expand(lanes, *value.shape) if dim is None else value.movedim(dim, 0)
