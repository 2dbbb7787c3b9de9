"""Options of ``drgcn recommend train``, and the file they are read from and written to; nothing
heavy is imported."""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drgcn.cli.options import Gate, whole_numbers
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.recommend.clicks import ClickData
    from drgcn.recommend.model.fitting import Stopping
    from drgcn.recommend.model.objectives import TrainSettings
    from drgcn.recommend.model.run_folder import ModelOptions


class Model(StrEnum):
    """Kind of model."""

    sage = "sage"
    lightgcn = "lightgcn"
    hybrid = "hybrid"


class Targets(StrEnum):
    """Clicks to predict."""

    same = "same"
    last_day = "last-day"


# By model and loss, where nothing else is said. BPR with LightGCN is as its authors have it, on
# all of their sets; a softmax over a batch sees thousands of items a step where BPR sees one.
_SOFTMAX: dict[str, Any] = {
    "layers": 2,
    "normalize": True,
    "temperature": 0.2,
    "weight_decay": 1e-4,
    "lr": 1e-2,
}
_DEFAULTS: dict[tuple[Model, str], dict[str, Any]] = {
    (Model.sage, "softmax"): {"normalize": True, "temperature": 0.07},
    (Model.sage, "bpr"): {"normalize": True, "temperature": 0.07},
    (Model.lightgcn, "softmax"): _SOFTMAX,
    (Model.hybrid, "softmax"): _SOFTMAX,
    (Model.hybrid, "bpr"): _SOFTMAX,
    (Model.lightgcn, "bpr"): {
        "normalize": False,
        "temperature": 1.0,
        "weight_decay": 1e-4,
        "batch_size": 2048,
        "draw": "users",
        "epochs_max": 1000.0,
        "every": 20.0,
        "patience": 5,
    },
}
_USUAL: dict[str, Any] = {
    "layers": 3,
    "weight_decay": 0.0,
    "draw": "clicks",
    "lr": 1e-3,
    "epochs_max": 100.0,
    "every": 1.0,
    "patience": 10,
}
_VALIDATION = ("epochs_max", "every", "patience")  # of no meaning for a known length
_MOST_CLICKS = 20_000_000  # propagated over at every step where no model is asked for
_COLD_SHARE = 0.3
_STEPS = 100  # about so many make an epoch
_BATCHES = (128, 8192)
_NEGATIVES = 1024  # at most; as many as a quarter of the batch
#: Half-lives in days among which ``--half-life auto`` chooses.
HALF_LIVES: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0)
#: Weights among which ``--popularity auto`` chooses, with all of these half-lives and none.
POPULARITY_WEIGHTS: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
_MOST_USERS = 100_000  # looked at in validation
# Clicks of a run, and how long it took: another that goes on from it is asked for these anew.
_OF_ONE_RUN = (
    *("content_hash", "from_run", "day", "all_days", "split", "targets", "hold_out"),
    *("epochs", "steps", "refit", *_VALIDATION),
)
# Where a run is and how it is shown; nothing of it changes a number.
_PLACE = ("out", "data_root", "checkpoint_every", "device", "threads", "json", "quiet")


@dataclass(frozen=True)
class TrainOptions:
    """Options of one training, by the names they have on the command line.

    What is ``None`` is left to the model or to the clicks, see :meth:`resolved`.
    """

    data: str
    out: Path
    model: Model | None
    gate: Gate | None
    channels: int
    fan_outs: str
    layers: int | None
    user_ids: int | None
    item_ids: int | None
    temperature: float | None
    normalize: bool | None
    cold_share: float | None
    day: int | None
    all_days: bool
    split: str | None
    half_life: str | None
    popularity: str | None
    from_run: Path | None
    targets: Targets
    seed: int
    epochs: float | None
    steps: int | None
    hold_out: float | None
    epochs_max: float | None
    every: float | None
    patience: int | None
    refit: bool
    batch_size: int | None
    lr: float | None
    weight_decay: float | None
    loss: str | None
    negatives: int | None
    logq: str
    draw: str | None
    bfloat16: bool
    leak: bool
    content_hash: str | None
    data_root: Path | None
    checkpoint_every: float
    device: str
    threads: int | None
    json: bool
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.model is Model.lightgcn and self.gate not in (None, Gate.none):
            raise InputError(
                f"Expected no gate for lightgcn, which has no layer to put one in front of; found "
                f"{self.gate}. Use --gate none, or --model sage or hybrid."
            )
        if self.cold_share is not None and self.model not in (None, Model.hybrid):
            raise InputError(
                f"Expected --cold-share with --model hybrid; found {self.model}. Leave one out."
            )
        others = {
            "--day": self.day is not None,
            "--all-days": self.all_days,
            "--hold-out": self.hold_out is not None,
            "--targets last-day": self.targets is Targets.last_day,
        }
        if self.split is not None and any(others.values()):
            raise InputError(
                f"Expected --split, which says what is held back, without "
                f"{next(name for name, is_given in others.items() if is_given)}. Leave one out."
            )
        given = [name for name in ("hold_out", *_VALIDATION) if getattr(self, name) is not None]
        if given and not self.validated:
            raise InputError(
                f"Expected a training of known length (--epochs, --steps) without "
                f"--{given[0].replace('_', '-')}; found both. Leave one out."
            )
        if len(self.half_lives) > 1 and not self.validated:
            raise InputError(
                "Expected one --half-life with --epochs or --steps, where nothing validates; "
                "found several. Give one."
            )
        if not self.validated and len(parse_popularity(self.popularity)) > 1:
            raise InputError(
                "Expected one --popularity with --epochs or --steps, where nothing validates; "
                "found several. Give one, as in 2:10, or 0."
            )
        if self.validated and self.targets is Targets.last_day:
            raise InputError(
                "Expected --epochs or --steps with --targets last-day, which nothing validates; "
                "found neither. Give one."
            )

    @property
    def half_lives(self) -> tuple[float | None, ...]:
        """Half-lives to choose from, in days; ``None`` for none."""
        return parse_half_lives(self.half_life)

    @property
    def validated(self) -> bool:
        """True if validation says how long to train."""
        return self.epochs is None and self.steps is None

    def resolved(self, clicks: int, attributes: bool) -> TrainOptions:
        """The same with what was left open filled in, by model, loss and number of clicks.

        Models that propagate over all clicks at every step are for as many as that is quick for;
        beyond, SAGE draws neighbours. A batch is such that an epoch has about a hundred steps, so
        that few clicks do not mean few steps; but no larger than fits, and no smaller than a
        softmax over it needs.

        Args:
            clicks: Clicks to learn from.
            attributes: True if something is known of users or items.
        """
        model = self.model
        if model is None:
            model = Model.hybrid if attributes else Model.lightgcn
            model = Model.sage if clicks > _MOST_CLICKS else model
        loss = self.loss or "softmax"
        usual = _USUAL | {"batch_size": _batch_size(clicks)} | _DEFAULTS.get((model, loss), {})
        usual |= {"model": model, "loss": loss}
        usual["gate"] = Gate.dr if model is Model.sage else Gate.none
        usual["negatives"] = min((self.batch_size or usual["batch_size"]) // 4, _NEGATIVES)
        usual["popularity"] = "auto" if self.validated else "0"
        if model is Model.hybrid:
            usual["cold_share"] = _COLD_SHARE
        skipped = () if self.validated else _VALIDATION
        found = {
            name: value
            for name, value in usual.items()
            if getattr(self, name) is None and name not in skipped
        }
        return replace(self, **found)

    def model_options(self) -> ModelOptions:
        """Options of the model, once all are resolved."""
        from drgcn.recommend.model.run_folder import ModelOptions

        assert self.model is not None
        assert self.gate is not None
        assert self.layers is not None
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
            normalize=self.normalize,
            cold_share=self.cold_share,
        )

    def settings(self) -> TrainSettings:
        """Settings of the training, once all are resolved."""
        from drgcn.recommend.model.objectives import TrainSettings

        names = ("batch_size", "lr", "weight_decay", "loss", "negatives", "draw")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        return TrainSettings(
            seed=self.seed,
            epochs=1.0 if self.epochs is None else self.epochs,
            steps=self.steps,
            logq=self.logq,  # type: ignore[arg-type]  # checked by the loss
            bfloat16=self.bfloat16,
            mask_target=not self.leak,
            half_life=self.half_lives[0] if len(self.half_lives) == 1 else None,
            **shared,
        )

    def stopping(self, items: int) -> Stopping | None:
        """Rule by which training ends, once all are resolved; ``None`` for a known length.

        Lists are those of :class:`Stopping`, but no longer than a fifth of the items: longer ones
        hold what is to be found whatever the model.
        """
        if not self.validated:
            return None
        from drgcn.recommend.model.fitting import Stopping

        shared: dict[str, Any] = {name: getattr(self, name) for name in _VALIDATION}
        n = min(Stopping.n, max(items // 5, 1))
        return Stopping(most_users=_MOST_USERS, n=n, **shared)

    def absolute(self) -> TrainOptions:
        """The same with paths that hold in any working directory."""
        root = None if self.data_root is None else self.data_root.absolute()
        data = self.data if is_known(self.data) else str(Path(self.data).expanduser().absolute())
        origin = None if self.from_run is None else self.from_run.absolute()
        own = {"data": data, "out": self.out.absolute(), "data_root": root, "from_run": origin}
        return replace(self, **own)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """As plain values, for other processes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return dict(json.loads(json.dumps(values, default=str)))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainOptions:
        """The options that :meth:`to_json` wrote."""
        kinds: dict[str, type] = {"out": Path, "data_root": Path, "from_run": Path}
        kinds |= {"model": Model, "gate": Gate, "targets": Targets}
        typed = {name: kind(values[name]) for name, kind in kinds.items() if values[name]}
        return cls(**(values | typed))

    def to_toml(self) -> str:
        """As the text of a file for ``--config``: all that decides the numbers of a run."""
        values = {k: v for k, v in self.absolute().to_json().items() if v is not None}
        lines = [f"{k} = {_toml(v)}" for k, v in values.items() if k not in _PLACE]
        return "\n".join(("# drgcn recommend train --config THIS_FILE --out run", *lines, ""))


def parse_half_lives(text: str | None) -> tuple[float | None, ...]:
    """Read half-lives in days as ``10``, ``3,10,30``, ``auto`` or ``none``."""
    if text in (None, "none"):
        return (None,)
    if text == "auto":
        return HALF_LIVES
    found = []
    for part in str(text).split(","):
        try:
            found.append(float(part))
        except ValueError:
            found.append(math.nan)
    if not all(0 < one < math.inf for one in found):
        raise InputError(
            f"Expected --half-life as days above zero such as 10 or 3,10,30, auto or none; found "
            f"{text!r}."
        )
    return tuple(found)


def parse_popularity(
    text: str | None, days: bool = True
) -> tuple[tuple[float, float | None], ...]:
    """Read weights with half-lives in days as ``2:10``, ``0.5``, several of them, or ``auto``.

    Args:
        text: The text.
        days: True if clicks have days, by which ``auto`` may tell old ones.
    """
    if text is None:
        return ((0.0, None),)
    if text == "auto":
        lives = (None, *(HALF_LIVES if days else ()))
        return (0.0, None), *((weight, one) for one in lives for weight in POPULARITY_WEIGHTS)
    found: list[tuple[float, float | None]] = []
    for part in text.split(","):
        weight, colon, life = part.partition(":")
        try:
            found.append((float(weight), float(life) if colon else None))
        except ValueError:
            found.append((math.nan, None))
    if not all(0 <= w < math.inf and (h is None or 0 < h < math.inf) for w, h in found):
        raise InputError(
            f"Expected --popularity as a weight from 0 on, perhaps with a half-life in days, such "
            f"as 0.5 or 2:10, several of these, or auto; found {text!r}."
        )
    return tuple(found)


def _batch_size(clicks: int) -> int:
    least, most = _BATCHES
    size: int = 2 ** round(math.log2(max(clicks / _STEPS, 1)))
    return min(max(size, least), most)


def _toml(value: str | float | bool) -> str:
    # A string of JSON is one of TOML too, but for DEL, which JSON leaves as it is.
    return json.dumps(value).replace("\x7f", "\\u007f")


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file, unless the command line gives them."""
    if path is not None:
        options = _read_options(context, path)
        context.default_map = {**(context.default_map or {}), **options}
    return path


def read_origin(context: typer.Context, run: Path | None) -> Path | None:
    """Take options from the run to go on from, unless the command line or a file gives them."""
    if run is not None and not (run / "settings.json").is_file():
        raise InputError(
            f"Expected a folder that `drgcn recommend train` wrote to the end; found none at "
            f"{run}. Check the path."
        )
    if run is not None and (run / "config.toml").is_file():
        options = _read_options(context, run / "config.toml")
        kept = {name: value for name, value in options.items() if name not in _OF_ONE_RUN}
        context.default_map = {**kept, **(context.default_map or {})}
    return run


def _read_options(context: typer.Context, path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Expected settings in {path}; {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"Expected settings as TOML in {path}; it cannot be read ({error})."
        ) from None
    known = {parameter.name for parameter in context.command.params} - {"config"}
    options: dict[str, Any] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        values = value if isinstance(value, list) else [value]
        plain = all(isinstance(one, str | int | float) for one in values)
        if name not in known or not plain or name in options:
            raise InputError(
                f"Expected options of `drgcn recommend train` in {path}, each a plain value and "
                f"there once; found {key} = {value!r}. See --help for their names."
            )
        # As on the command line, where it is checked: 2.5 is no number of steps.
        options[name] = ",".join(map(str, values))
    return options


def is_known(name: str) -> bool:
    """True for the name of a published set."""
    from drgcn.recommend.clicks.known_sets import KNOWN_SETS

    return name in KNOWN_SETS


def open_clicks(name: str, root: Path | None) -> ClickData:
    """Load a published set by its name, or a folder of clicks.

    A name means the published set, whatever folders there are; a folder of that name is meant by
    ``./name``.
    """
    from drgcn.recommend.clicks import load_clicks

    if is_known(name) and Path(name).is_dir() and "RANK" not in os.environ:
        print(
            f"{name} is the published set; for the folder of that name write ./{name}",
            file=sys.stderr,
        )
    return load_clicks(name, root)


def clicks_source(name: str, root: Path | None) -> dict[str, str]:
    """Source of what :func:`open_clicks` loads, for ``evaluate`` and ``export`` to find them."""
    if not is_known(name):
        return {"folder": str(Path(name).expanduser().absolute())}
    from drgcn.data.downloader import data_root

    return {"known": name, "folder": str((data_root(root) / "recommend" / name).absolute())}


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
