"""Triton kernels of the library, and whether they can be built here."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec


def triton_available() -> bool:
    """Triton comes with torch's CUDA builds, and builds its launchers with a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return find_spec("triton") is not None and compiler is not None
