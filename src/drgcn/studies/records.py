"""Run records: results of the seeds of one experiment, one JSON file per pass."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

from drgcn.errors import warn
from drgcn.records import (
    AnyFloat,
    SeedRecord,
    dump_facts,
    expect_fields,
    expect_types,
    readable_name,
    seed_number,
)
from drgcn.studies.experiment import MODELS, Experiment

#: Facts of a record's environment that make up its build. Threads are left out: they change
#: rounding alone.
BUILD: Final = ("source", "torch", "torch_geometric", "device")
#: Metrics of which less is better.
ERRORS: Final = ("MAE", "MSE", "RMSE")
# Metrics that are no shares between 0 and 1.
_OF_VALUES: Final = ("R2", *ERRORS)
# What a record knows of its data, with the best answer that is one for all test nodes (``guess``);
# records from before one of them was kept lack it.
_DATA: Final = {
    **dict.fromkeys(("name", "split", "feature_source", "normalize", "content_hash"), str),
    **dict.fromkeys(("nodes", "edges", "features", "classes", "train", "val", "test"), int),
    "split_seed": int | None,
    "options": dict[str, Any],
    "metric": str,
    "guess": float,
    "guess_nodes": int,
}


@dataclass(frozen=True)
class SeedResult:
    """Result of one seed.

    Attributes:
        test_accuracy: Accuracy on the test nodes, between 0 and 1, or another metric.
        val_accuracy: The same on the validation nodes, at the kept epoch.
        best_epoch: The epoch whose weights were kept.
        epochs: Epochs trained.
        k: Stability measure of each layer's learnt vector; empty without a gate.
        curve_val_accuracy: Validation accuracy at the record's ``curve_epochs``.
        curve_train_loss: Training loss at the same epochs.
        saturation: Share of each layer's gate entries at either end, see
            :func:`drgcn.stability.gate_saturation`; empty without a gate, and in records from
            before it was measured.
        s_deciles: Eleven numbers for each layer's learnt vector, its least entry, its deciles and
            its greatest; empty without a gate, and in records from before it was kept.
        best_renewed_test: Highest test accuracy among the epochs whose validation accuracy was at
            least as good as any before. It was chosen by test labels: no result, but what some
            authors print. ``None`` unless the experiment has a test curve.
        best_test: Highest test accuracy of all epochs, likewise.
    """

    test_accuracy: float
    val_accuracy: float
    best_epoch: int
    epochs: int
    k: list[float | None]
    curve_val_accuracy: list[AnyFloat]
    curve_train_loss: list[AnyFloat]
    saturation: list[float] = field(default_factory=list)
    s_deciles: list[list[float]] = field(default_factory=list)
    best_renewed_test: float | None = None
    best_test: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, without those of a test curve that there is not."""
        facts = asdict(self)
        return {
            name: value
            for name, value in facts.items()
            if value is not None or name not in ("best_renewed_test", "best_test")
        }


@dataclass(frozen=True)
class RunRecord(SeedRecord):
    """Results of one pass, with all that is needed to judge and repeat them."""

    kind: ClassVar = "a run record"
    format: ClassVar = 1

    experiment: Experiment
    data: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: float
    curve_epochs: list[int]
    seeds: dict[int, SeedResult]

    @property
    def identity(self) -> str:
        """Identity of the experiment on this very data."""
        return self.experiment.identity(self.data["content_hash"])

    @property
    def build(self) -> tuple[str, ...]:
        """Source, libraries and kind of machine that trained it.

        Numbers of two builds are not compared: what separates them may be a change of the code.
        A record that lacks one of these facts has a build of its own.
        """
        known = tuple(str(self.environment[name]) for name in BUILD if name in self.environment)
        return known if len(known) == len(BUILD) else (*known, self.identity, self.started)

    @property
    def file_name(self) -> str:
        """Name of its file: readable, and unique to experiment, data and seeds."""
        seeds = f"seeds-{min(self.seeds)}-{max(self.seeds)}"
        words = [self.data["name"], self.data["split"], self.experiment.label]
        return readable_name([*words, self.identity[:8], seeds])

    def dumps(self) -> str:
        """Return the record as JSON, with one line per seed."""
        facts = {
            "format": self.format,
            "experiment": self.experiment.to_dict(),
            "data": self.data,
            "environment": self.environment,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "curve_epochs": self.curve_epochs,
            "seeds": {seed: result.to_dict() for seed, result in sorted(self.seeds.items())},
        }
        return dump_facts(facts, by_line="seeds")

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> RunRecord:
        """Return the record with the facts of a file, checked by name, type and range."""
        expect_fields(cls, facts, "it")
        expect_fields(Experiment, facts["experiment"], "its experiment")
        expect_types(_DATA, facts["data"], "its data")
        environment = facts["environment"]
        expect_types(dict.fromkeys(environment, str | int), environment, "its environment")
        for seed, result in facts["seeds"].items():
            expect_fields(SeedResult, result, f"seed {seed}")
        seeds = {
            seed_number(seed): SeedResult(**result) for seed, result in facts.pop("seeds").items()
        }
        record = cls(experiment=Experiment(**facts.pop("experiment")), seeds=seeds, **facts)
        record.expect_whole()
        return record

    def expect_whole(self) -> None:
        """Refuse a record that tables and comparisons cannot use, with a ``ValueError``."""
        if self.experiment.model not in MODELS:
            raise ValueError(f"unknown model {self.experiment.model!r}")
        for name in ("name", "split", "content_hash"):
            if not self.data.get(name):
                raise ValueError(f"the data has no {name}")
        if not isinstance(self.environment.get("device"), str):
            raise ValueError("the environment has no device")
        if not self.seeds:
            raise ValueError("it has no seeds")
        if self.seconds < 0:
            raise ValueError(f"it took {self.seconds} seconds")
        if datetime.fromisoformat(self.started).tzinfo is None:
            raise ValueError(f"it started at {self.started}, which names no time zone")
        if any(one >= other for one, other in pairwise([0, *self.curve_epochs])):
            raise ValueError("its curve_epochs do not ascend from 1 on")
        share = self.data.get("metric") not in _OF_VALUES
        if share and not 0 <= self.data.get("guess", 0) <= 1:
            raise ValueError(f"its data has {self.data['guess']} as guess, which is no share")
        if self.data.get("guess_nodes", 1) < 1:
            raise ValueError(f"its data has {self.data['guess_nodes']} as guess_nodes")
        for seed, result in self.seeds.items():
            if not 1 <= result.best_epoch <= result.epochs:
                raise ValueError(
                    f"seed {seed} has {result.best_epoch} as best epoch of {result.epochs}"
                )
            for name in ("test_accuracy", "val_accuracy", "best_renewed_test", "best_test"):
                value = getattr(result, name)
                if share and value is not None and not 0 <= value <= 1:
                    raise ValueError(f"seed {seed} has {value} as {name}, which is no share")
            curves = (result.curve_val_accuracy, result.curve_train_loss)
            if max(map(len, curves)) > len(self.curve_epochs):
                raise ValueError(f"seed {seed} has curves of more epochs than the record")
        if len({len(result.k) for result in self.seeds.values()}) > 1:
            raise ValueError("its seeds have K of different numbers of layers")


def load_records(folder: Path) -> list[RunRecord]:
    """Return the run records of a folder, see :meth:`drgcn.records.Record.read_folder`.

    Records of errors are left out, with a warning: tables of records are in percent, of which
    more is better.
    """
    found = list(RunRecord.read_folder(folder).values())
    shares = [record for record in found if record.data.get("metric") not in ERRORS]
    if len(shares) < len(found):
        warn(
            f"{folder}: {len(found) - len(shares):,} records are left out, whose metric is "
            f"{', '.join(ERRORS)}: tables of records are in percent"
        )
    return shares
