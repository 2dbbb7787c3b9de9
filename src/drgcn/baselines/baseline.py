"""What all baselines have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from torch_geometric.data import Data

from drgcn.baselines.prediction import Prediction


class Baseline(Protocol):
    """A method that classifies nodes; its fields are its settings.

    Attributes:
        name: What it is called on the command line and in records.
        row: Its row in the paper's table.
        scaling: What to give :func:`drgcn.load` as ``normalize``.
        deterministic: Whether the seed changes nothing.
    """

    name: ClassVar[str]
    row: ClassVar[str]
    scaling: ClassVar[str]
    deterministic: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """Scores for all nodes, from training labels; validation serves for choosing alone."""
        ...
