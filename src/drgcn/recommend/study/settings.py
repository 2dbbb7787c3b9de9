"""A run of a study as plain values: its settings, recipes of published sets, its record.

Nothing here was chosen by looking at a gate. Limits are such that training stops by patience: a
run takes seconds to two minutes on one H200, and with MovieLens-100k a minute on one CPU core.
"""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from drgcn._io import write_once
from drgcn.errors import InputError
from drgcn.recommend.model.fitting import Stopping, steps_of
from drgcn.recommend.model.losses import LogQ
from drgcn.recommend.model.objectives import Loss, TrainSettings
from drgcn.recommend.model.run_folder import Gate, ModelName, ModelOptions
from drgcn.recommend.model.sampling import Draw
from drgcn.recommend.retrieval.evaluation import GROUPS, MEASURES
from drgcn.records import (
    Record,
    dump_facts,
    expect_fields,
    expect_types,
    identity_of,
    readable_name,
)

Protocol = Literal["kept", "refit", "fixed"]
Split = Literal["time", "official"]
_CHOICES = {"model": ModelName, "gate": Gate, "protocol": Protocol, "split": Split}
GATES: tuple[Gate, ...] = get_args(Gate)
_SAGE: Final[dict[str, dict[str, Any]]] = {
    # No attributes: every user and every item has an embedding of its own.
    "gowalla": {
        "split": "official",
        "n": (20,),
        "batch_size": 8192,
        "epochs_max": 80.0,
        "every": 2.0,
        "patience": 5,
    },
    "amazon-book": {
        "split": "official",
        "n": (20,),
        "batch_size": 8192,
        "epochs_max": 60.0,
        "every": 2.0,
        "patience": 5,
    },
    # Genres and years do not tell films apart, so films have embeddings of their own beside them.
    # Users have none: most of those in the test are new.
    "movielens-100k": {
        "split": "time",
        "days": 30,
        "n": (20, 50),
        "batch_size": 1024,
        "negatives": 256,
        "item_ids": 16,
        "fan_outs": (5, 3),
        "epochs_max": 60.0,
        "every": 0.25,
        "patience": 20,
    },
    "movielens-1m": {
        "split": "official",
        "n": (20, 50),
        "batch_size": 4096,
        "item_ids": 16,
        "epochs_max": 300.0,
        "every": 2.0,
        "patience": 8,
    },
    # The paper's protocol on made-up clicks: the next day, top 50, seen items stay.
    "astar": {
        "split": "time",
        "days": 1,
        "n": (50,),
        "exclude_seen": False,
        "batch_size": 8192,
        "epochs_max": 8.0,
        "every": 0.5,
        "patience": 3,
        "valid_users": 200_000,
    },
}
# As its authors train it, on all of their sets.
_LIGHTGCN: Final[dict[str, Any]] = {
    "model": "lightgcn",
    "protocol": "fixed",
    "layers": 3,
    "channels": 64,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "batch_size": 2048,
    "loss": "bpr",
    "draw": "users",
    "epochs_max": 1000.0,
    "every": 20.0,
    "patience": 5,
    "temperature": 1.0,
    "normalize": False,
}
# A softmax over a batch sees thousands of items a step where BPR sees one: far fewer epochs.
_SOFTMAX: Final[dict[str, Any]] = {
    "loss": "softmax",
    "draw": "clicks",
    "epochs_max": 100.0,
    "every": 2.0,
    "temperature": 0.2,
    "normalize": True,
    "protocol": "refit",
}
# Ids and attributes under LightGCN's propagation, trained like its variant with a softmax.
_HYBRID: Final[dict[str, Any]] = {
    **{"model": "hybrid", "protocol": "refit", "layers": 2, "lr": 1e-2, "weight_decay": 1e-4},
    **{"epochs_max": 100.0, "every": 1.0, "patience": 10, "temperature": 0.2},
}
#: Raised when the same settings come to mean another run; older records are then run again.
PROTOCOL = 1
# What a record knows of its data and of its choice.
_FACTS: Final[dict[str, dict[str, type]]] = {
    "data": {
        **{"name": str, "content_hash": str, "split": str},
        **{"users": int, "items": int, "clicks": int},
    },
    "choice": {"best_step": int, "best_recall": float, "steps": int, "stopped": str},
}
_MOST_USERS = 300_000  # whose values a record holds, a byte or two each


@dataclass(frozen=True)
class StudySettings:
    """One run: a model, a gate, a seed, and how it is trained and tested.

    The test never decides anything. What it is asked of depends on ``protocol``:

    * :obj:`"kept"`: the weights that were best on validation, learnt from train alone. Neighbours
      in the test are all clicks before it, those of validation included.
    * :obj:`"refit"`: a new model, trained on train and validation together for as many epochs as
      were best on validation.
    * :obj:`"fixed"`: a model trained on train and validation together for ``epochs_max`` epochs,
      with no choice at all. This is how LightGCN's numbers came about.

    Attributes:
        model: SAGE, the hybrid, or LightGCN, which has no gate.
        gate: What stands in front of every layer, or of the attributes in the hybrid.
        seed: Of weights, batches and draws.
        protocol: What is tested.
        split: By days, or as it came with the data.
        days: Days in the test and in the validation, if split by time.
        hold_out: Share of train to validate by, if an official split has no such part.
        n: Lengths of lists; the first is what validation looks at.
        exclude_seen: Leave out what a user has clicked before.
        channels: Width of hidden vectors and embeddings.
        layers: Propagations of LightGCN and the hybrid.
        fan_outs: Neighbours that SAGE draws at each level.
        user_ids: Width of an embedding of the user in SAGE; ``None`` for ``channels`` if users
            have no attributes, else none.
        item_ids: Likewise of the item.
        temperature: What scores are divided by.
        normalize: Whether embeddings have length one.
        epochs_max: Most epochs.
        every: Epochs between two looks at validation.
        patience: Looks without a better one after which training stops.
        valid_users: At most so many users are looked at in validation; 0 for all.
        batch_size: Clicks in a step.
        lr: Learning rate.
        weight_decay: See :class:`~drgcn.recommend.model.objectives.TrainSettings`.
        loss: Likewise, as the rest.
        negatives: Uniform negatives in a step.
        logq: Correction for how often items are drawn.
        draw: Batches of clicks, or of users with a click each.
        bfloat16: Products in bfloat16.
        half_life: Days after which a click is drawn half as often; ``None`` for all as often.
    """

    model: ModelName = "sage"
    gate: Gate = "none"
    seed: int = 0
    protocol: Protocol = "kept"
    split: Split = "time"
    days: int = 1
    hold_out: float = 0.1
    n: tuple[int, ...] = (20,)
    exclude_seen: bool = True
    channels: int = 64
    layers: int = 3
    fan_outs: tuple[int, ...] = (10, 5)
    user_ids: int | None = None
    item_ids: int | None = None
    temperature: float = 0.07
    normalize: bool = True
    epochs_max: float = 100.0
    every: float = 1.0
    patience: int = 10
    valid_users: int = 0
    batch_size: int = 2048
    lr: float = 1e-3
    weight_decay: float = 0.0
    loss: Loss = "softmax"
    negatives: int = 1024
    logq: LogQ = "standard"
    draw: Draw = "clicks"
    bfloat16: bool = False
    half_life: float | None = None

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise InputError(
                    f"Expected {name} to be one of {', '.join(known)}; found {value!r}."
                )
        if self.model == "lightgcn" and self.gate != "none":
            raise InputError(
                f"Expected no gate for lightgcn, which has no layer to put one in front of; found "
                f"{self.gate}. Use --gates none, or --model sage."
            )
        if not self.n or min(self.n) < 1:
            raise InputError(f"Expected lists of at least one item; found {self.n}.")
        self.stopping()  # which checks what it holds, as the next does
        self.training(1)

    def model_options(self) -> ModelOptions:
        """Options of the model that is trained."""
        return ModelOptions(**self._own(ModelOptions))

    def training(self, steps: int) -> TrainSettings:
        """Settings of a training of so many steps."""
        return TrainSettings(steps=steps, **self._own(TrainSettings))

    def stopping(self) -> Stopping:
        """Rule by which training ends."""
        own = self._own(Stopping) | {"n": self.n[0], "most_users": self.valid_users}
        return Stopping(**own)

    def _own(self, kind: type[ModelOptions | TrainSettings | Stopping]) -> dict[str, Any]:
        """Settings that are named alike in another class."""
        return {f.name: getattr(self, f.name) for f in fields(kind) if f.name in _NAMES}

    def steps(self, epochs: float, clicks: int) -> int:
        """Steps that show so many clicks so often."""
        return steps_of(epochs, clicks, self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        """As a record holds it: through JSON and back, so that tuples are lists."""
        values = dict(json.loads(json.dumps(asdict(self))))
        if self.half_life is None:  # as before there was one
            del values["half_life"]
        return values

    def group(self) -> dict[str, Any]:
        """All but gate and seed: runs that agree in these are compared."""
        return {k: v for k, v in self.to_dict().items() if k not in ("gate", "seed")}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> StudySettings:
        """Read what :meth:`to_dict` returned."""
        lists = ("n", "fan_outs")
        own: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in values.items()}
        return cls(**own)


_NAMES: Final = frozenset(field.name for field in fields(StudySettings))


def recipe(data: str, model: ModelName = "sage", *, fast: bool = False) -> StudySettings:
    """The settings for a set of clicks by name; for others the defaults.

    Args:
        data: Name of the set.
        model: SAGE, the hybrid, or LightGCN as its authors train it.
        fast: LightGCN with a softmax in place of BPR: a variant, not what was published.
    """
    first = data.partition(" ")[0]  # the name of made-up clicks goes on with size and seed
    own = _SAGE.get(first, {"n": (50,), "exclude_seen": False})
    if fast and model != "lightgcn":
        raise InputError(f"Expected --fast with --model lightgcn; found {model}. Leave one out.")
    if model == "sage":
        return StudySettings(**own)
    if model == "hybrid":
        shared = ("split", "days", "n", "exclude_seen", "batch_size", "negatives")
        return StudySettings(**({name: own[name] for name in shared if name in own} | _HYBRID))
    asked = {name: own[name] for name in ("split", "days", "n", "exclude_seen") if name in own}
    return StudySettings(**(asked | _LIGHTGCN | (_SOFTMAX if fast else {})))


@dataclass(frozen=True)
class StudyRecord(Record):
    """Result of a run, with all that is needed to judge and repeat it.

    Attributes:
        settings: What was run.
        data: Name, content hash, sizes and parts of the data.
        purpose: ``"compare"``; or ``"search"``, which has validation alone and no test.
        model: The settings of the model itself.
        environment: Versions and hardware.
        started: When, in UTC.
        seconds: Of training and test.
        choice: The best step on validation and how training stopped; ``None`` if nothing was
            chosen.
        history: Step, loss and recall on validation at every look.
        trained_steps: Steps behind the weights that were tested.
        test: Report for each length of lists, by its number; empty for a search.
        user_recall: Recall at the first length, user by user, see :func:`packed`; empty for
            searches and very many users.
        peak_bytes: Most memory on a CUDA device.
    """

    kind: ClassVar = "a record of a study"
    format: ClassVar = "drgcn recommend study"
    pattern: ClassVar = "*-seed-*.json"

    settings: StudySettings
    data: dict[str, Any]
    purpose: str
    model: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: dict[str, float]
    choice: dict[str, Any] | None
    history: list[dict[str, float]]
    trained_steps: int
    test: dict[str, Any]
    user_recall: str = ""
    peak_bytes: int | None = None

    @property
    def identity(self) -> str:
        """Hash of settings, data and purpose, independent of machine and time."""
        return identity(self.settings, self.data["content_hash"], self.purpose)

    @property
    def file_name(self) -> str:
        """Readable, and unique to settings and data."""
        return file_name(self.settings, self.data["name"], self.identity, self.purpose)

    def recall(self, n: int | None = None, group: str = "all", measure: str = "recall") -> float:
        """A mean of the test."""
        report = self.test[str(n or self.settings.n[0])]
        return float(report["model"][group][measure]["mean"])

    def dumps(self) -> str:
        """Return the record as JSON, with one line for each fact."""
        facts = {"format": self.format, "protocol": PROTOCOL, "identity": self.identity}
        facts |= {field.name: getattr(self, field.name) for field in fields(self)}
        return dump_facts(facts | {"settings": self.settings.to_dict()}, indent=1)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> StudyRecord:
        """Return the record with the facts of a file, checked by name, type and range."""
        del facts["protocol"]
        known = facts.pop("identity")
        expect_fields(cls, facts, "it")
        expect_fields(StudySettings, facts["settings"], "its settings")
        record = cls(**{**facts, "settings": StudySettings.from_dict(facts["settings"])})
        record._expect_whole()
        if record.identity != known:
            raise ValueError("its identity is not that of its settings and data")
        return record

    def _expect_whole(self) -> None:
        """Refuse a record that tables and comparisons cannot use, with a ``ValueError``."""
        for name, values in {"data": self.data, "choice": self.choice}.items():
            if values is not None:
                _expect_facts(name, values)
        if self.trained_steps < 0 or min(self.seconds.values(), default=0) < 0:
            raise ValueError("it took less than no time, or no steps")
        if any(row.keys() != {"step", "loss", "recall"} for row in self.history):
            raise ValueError("its history is not one of step, loss and recall")
        lengths = {"compare": {str(n) for n in self.settings.n}, "search": set()}
        if self.test.keys() != lengths.get(self.purpose):
            raise ValueError(f"it has tests of {', '.join(self.test) or 'nothing'}")
        shares = [row["recall"] for row in self.history]
        shares += [] if self.choice is None else [self.choice["best_recall"]]
        for n, report in self.test.items():
            if report["n"] != int(n):
                raise ValueError(f"its test of {n} items is one of {report['n']}")
            for part, group in product(("model", "popularity"), GROUPS):
                # Records of earlier versions have the first three alone; novelty is no share.
                found = {name for name in MEASURES[3:] if name in report[part][group]}
                for name in {*MEASURES[:3], *found} - {"novelty"}:
                    mean = report[part][group][name]["mean"]
                    if mean is not None or group == "all":  # no user may be cold
                        shares.append(mean)
        for share in [*shares, *unpacked(self.user_recall).tolist()]:
            if type(share) not in (int, float) or not 0 <= share <= 1:
                raise ValueError(f"it has {share} as a share")

    def save(self, folder: Path, name: str | None = None) -> Path:
        """Write the record whole or not at all; one that is there already stays."""
        path = folder / (name or self.file_name)
        with suppress(FileExistsError):  # somebody else has run the same meanwhile
            write_once(path, self.sealed())
        return path


def identity(settings: StudySettings, content_hash: str, purpose: str = "compare") -> str:
    """A hash of settings that differ from their defaults, data and protocol.

    Settings that are added later with a default do not rename old records.
    """
    usual = asdict(StudySettings())
    own = {name: value for name, value in asdict(settings).items() if value != usual[name]}
    return identity_of([PROTOCOL, purpose, content_hash, own])


def file_name(
    settings: StudySettings, data: str, identifier: str, purpose: str = "compare"
) -> str:
    """The name of a run's record."""
    words = [purpose, data, settings.model, settings.protocol, settings.gate, identifier[:8]]
    return readable_name([*words, f"seed-{settings.seed}"])


def read_records(folder: Path, purpose: str = "compare") -> list[StudyRecord]:
    """Return the records of a folder, see :meth:`drgcn.records.Record.read_folder`."""
    return list(StudyRecord.read_folder(folder, f"{purpose}-*-seed-*.json").values())


def packed(values: np.ndarray) -> str:
    """Single-precision numbers as text, compressed; nothing if there are very many."""
    if len(values) > _MOST_USERS:
        return ""
    return base64.b64encode(zlib.compress(values.astype("<f4").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Read what :func:`packed` returned."""
    try:
        # A few bytes can stand for very many.
        values = zlib.decompressobj().decompress(base64.b64decode(text), 4 * _MOST_USERS + 1)
        return np.frombuffer(values, dtype="<f4").astype(np.float64)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"its user_recall cannot be read: {error}") from None


def _expect_facts(name: str, values: dict[str, Any]) -> None:
    types = _FACTS[name]
    if missing := sorted(types.keys() - values.keys()):
        raise ValueError(f"its {name} has no {missing[0]}")
    expect_types(types, values, f"its {name}")
