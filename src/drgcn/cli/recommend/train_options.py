"""Options of ``drgcn recommend train``; nothing heavy is imported."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drgcn.cli.options import Gate, whole_numbers

if TYPE_CHECKING:
    from drgcn.recommend.model.objectives import TrainSettings
    from drgcn.recommend.model.run_folder import ModelOptions


class Model(StrEnum):
    """Kind of model."""

    sage = "sage"
    lightgcn = "lightgcn"


class Targets(StrEnum):
    """Clicks to predict."""

    same = "same"
    last_day = "last-day"


_DEFAULTS: dict[Model, dict[str, Any]] = {
    Model.sage: {"epochs": 5.0, "batch_size": 8192, "loss": "softmax", "draw": "clicks"},
    # Those of its authors, on all of their datasets.
    Model.lightgcn: {
        "epochs": 1000.0,
        "batch_size": 2048,
        "loss": "bpr",
        "draw": "users",
        "weight_decay": 1e-4,
    },
}


@dataclass(frozen=True)
class TrainOptions:
    """Options of one training, by the names they have on the command line.

    What is ``None`` is left to the model or to the clicks.
    """

    folder: Path
    out: Path
    model: Model
    gate: Gate
    channels: int
    fan_outs: str
    layers: int
    user_ids: int | None
    item_ids: int | None
    temperature: float | None
    day: int | None
    all_days: bool
    targets: Targets
    seed: int
    epochs: float | None
    steps: int | None
    batch_size: int | None
    lr: float
    weight_decay: float | None
    loss: str | None
    negatives: int
    logq: str
    draw: str | None
    bfloat16: bool
    leak: bool
    checkpoint_every: float
    device: str
    threads: int | None
    json: bool

    def model_options(self) -> ModelOptions:
        """Options of the model."""
        from drgcn.recommend.model.run_folder import ModelOptions

        return ModelOptions(
            model=self.model.value,
            gate=self.gate.value,
            seed=self.seed,
            channels=self.channels,
            layers=self.layers,
            fan_outs=whole_numbers(self.fan_outs, "--fan-outs", "10,5"),
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            temperature=self.temperature,
        )

    def settings(self) -> TrainSettings:
        """Settings of the training; those that were not given are the model's."""
        from drgcn.recommend.model.objectives import TrainSettings

        given: dict[str, Any] = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "loss": self.loss,
            "draw": self.draw,
            "weight_decay": self.weight_decay,
        }
        given = {name: value for name, value in given.items() if value is not None}
        return TrainSettings(
            seed=self.seed,
            steps=self.steps,
            lr=self.lr,
            negatives=self.negatives,
            logq=self.logq,  # type: ignore[arg-type]  # checked by the loss
            bfloat16=self.bfloat16,
            mask_target=not self.leak,
            **(_DEFAULTS[self.model] | given),
        )

    def absolute(self) -> TrainOptions:
        """The same with paths that hold in any working directory."""
        return replace(self, folder=self.folder.absolute(), out=self.out.absolute())

    def to_json(self) -> dict[str, Any]:
        """As plain values, for other processes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return dict(json.loads(json.dumps(values, default=str)))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainOptions:
        """The options that :meth:`to_json` wrote."""
        kinds = {"folder": Path, "out": Path, "model": Model, "gate": Gate, "targets": Targets}
        typed = {name: kind(values[name]) for name, kind in kinds.items()}
        return cls(**(values | typed))


@dataclass(frozen=True)
class RankOptions:
    """Processes that share a training.

    Attributes:
        workers: Number of processes.
        ray_address: Address of a Ray cluster; ``None`` for this machine, by torchrun.
        restarts: Number of times they are started again if one dies.
    """

    workers: int
    ray_address: str | None
    restarts: int

    @property
    def launched(self) -> bool:
        """True if this process starts others instead of training itself."""
        return self.workers > 1 or self.ray_address is not None
