"""All that malformed input is made for, by name."""

from __future__ import annotations

from typing import Final

from . import clicks, generators, verbs
from .generators import Target

TARGETS: Final[dict[str, Target]] = generators.TARGETS | clicks.TARGETS | verbs.TARGETS
