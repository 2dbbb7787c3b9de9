"""What a baseline returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Prediction:
    """Scores of classes, and what was chosen on validation to get them.

    Attributes:
        scores: One row per node, one column per class ``[nodes, classes]``; the highest counts.
        chosen: Settings that were picked by validation accuracy, by name; empty if none was.
    """

    scores: Tensor
    chosen: dict[str, Any] = field(default_factory=dict)
