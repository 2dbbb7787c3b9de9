"""An experiment: everything that decides its numbers, and nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

RuleName = Literal["best-validation", "rising-loss", "patience"]


@dataclass(frozen=True)
class Experiment:
    """One row of a table on one dataset.

    Seeds, device and number of threads are not part of it: they say how often and where it
    was run. Defaults are those of the paper's full-batch GCN.
    """

    dataset: str
    split: str
    model: str = "gcn"
    reweight: str | None = None
    norm: str | None = None
    pre_activation: bool = False
    hidden_channels: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    epochs: int = 800
    rule: RuleName = "best-validation"
    lr: float = 0.01
    weight_decay: float = 5e-4

    @property
    def label(self) -> str:
        """The row's name in a table: ``gcn``, ``gcn + dr``, ``gcn + layer norm + dr``."""
        parts = [self.model]
        if self.pre_activation:
            parts.append("pre-activation")
        if self.norm is not None:
            parts.append(f"{self.norm} norm")
        if self.reweight is not None:
            parts.append(self.reweight)
        return " + ".join(parts)

    @property
    def settings(self) -> str:
        """What departs from the usual training, in words; empty if nothing does."""
        usual = {field.name: field.default for field in fields(self)}
        named = ("dataset", "split", "model", "reweight", "norm", "pre_activation")
        departures = [
            f"{name.replace('_', ' ')} {value}"
            for name, value in self.to_dict().items()
            if name not in named and value != usual[name]
        ]
        return ", ".join(departures)

    def identity(self, content_hash: str) -> str:
        """A name for this experiment on this very data.

        Equal names mean equal numbers, up to rounding on other devices or versions.

        Settings at their default are left out, so that a setting added later does not rename
        what was run before it existed.
        """
        usual = {field.name: field.default for field in fields(self)}
        chosen = {name: value for name, value in self.to_dict().items() if value != usual[name]}
        facts = json.dumps([chosen, content_hash], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
