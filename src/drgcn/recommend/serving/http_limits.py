"""How much one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HttpLimits:
    """What one request may ask for.

    Attributes:
        n: The longest list.
        batch: The most users.
        body: The most bytes.
    """

    n: int = 500
    batch: int = 256
    body: int = 1 << 20
