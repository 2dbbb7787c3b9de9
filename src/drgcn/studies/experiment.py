"""An experiment: everything that decides its numbers, and nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

RuleName = Literal["best-validation", "rising-loss", "patience"]
WatchName = Literal["both", "accuracy", "loss"]
OptimizerName = Literal["adam", "sgd"]
InductiveName = Literal["train", "apart"]


@dataclass(frozen=True)
class Experiment:
    """One row of a table on one dataset.

    Seeds, device and number of threads are not part of it: they say how often and where it
    was run. Defaults are those of the paper's full-batch GCN; :func:`drgcn.studies.recipes.recipe`
    has those of the other models.

    Attributes:
        options: Further arguments of the model's class, such as ``{"out_heads": 8}``.
        patience: Epochs that the rule waits for something better; its own number if not given.
        watch: What the rule ``patience`` looks at: ``accuracy``, ``loss`` or ``both``.
        lr_cut_every: Epochs after which one hundredth of the initial learning rate is taken off,
            again and again; never if not given.
        graphs_per_step: Training graphs in each step, on data of several graphs; all if not given.
        inductive: What training does not see of one graph, see :func:`drgcn.fit`.
        batch_size: Training nodes in each step, for models that sample; all if not given.
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
    options: dict[str, Any] = field(default_factory=dict)
    optimizer: OptimizerName = "adam"
    patience: int | None = None
    watch: WatchName = "both"
    lr_cut_every: int | None = None
    graphs_per_step: int | None = None
    inductive: InductiveName | None = None
    batch_size: int | None = None

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

    def identity(self, content_hash: str) -> str:
        """A name for this experiment on this very data.

        Equal names mean equal numbers, up to rounding on other devices or versions.

        Settings at their default are left out, so that a setting added later does not rename
        what was run before it existed.
        """
        chosen = departures(self, Experiment("", ""))
        facts = json.dumps([chosen, content_hash], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def departures(experiment: Experiment, usual: Experiment) -> dict[str, Any]:
    """The settings in which an experiment differs from another, by name."""
    expected = usual.to_dict()
    found = experiment.to_dict()
    return {name: value for name, value in found.items() if value != expected[name]}
