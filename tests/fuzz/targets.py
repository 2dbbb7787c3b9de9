"""All that malformed input is made for, by name."""

from __future__ import annotations

from typing import Final

from . import clicks, files, generators, state, verbs
from .generators import Target

TARGETS: Final[dict[str, Target]] = {
    **generators.TARGETS,
    **files.TARGETS,
    **clicks.TARGETS,
    **state.TARGETS,
    **verbs.TARGETS,
}
