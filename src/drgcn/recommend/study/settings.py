"""Settings of a study, and recipes of published sets.

Nothing here was chosen by looking at a gate. Limits are such that training stops by patience: a
run takes seconds to two minutes on one H200, and with MovieLens-100k a minute on one CPU core.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from drgcn.errors import InputError
from drgcn.recommend.model.build import Gate, ModelName, ModelOptions
from drgcn.recommend.model.losses import LogQ
from drgcn.recommend.model.objectives import Loss, TrainSettings
from drgcn.recommend.model.sampling import Draw

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
        model: SAGE, or LightGCN, which has no gate.
        gate: What stands in front of every layer.
        seed: Of weights, batches and draws.
        protocol: What is tested.
        split: By days, or as it came with the data.
        days: Days in the test and in the validation, if split by time.
        hold_out: Share of train to validate by, if an official split has no such part.
        n: Lengths of lists; the first is what validation looks at.
        exclude_seen: Leave out what a user has clicked before.
        channels: Width of hidden vectors and embeddings.
        layers: Propagations of LightGCN.
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
        if not (self.every > 0 and self.epochs_max > 0 and self.patience > 0):
            raise InputError(
                f"Expected epochs, epochs between looks and patience above zero; found "
                f"{self.epochs_max}, {self.every} and {self.patience}."
            )
        self.training(1)  # which checks the rest

    def model_options(self) -> ModelOptions:
        """Options of the model that is trained."""
        return ModelOptions(
            model=self.model,
            gate=self.gate,
            seed=self.seed,
            channels=self.channels,
            layers=self.layers,
            fan_outs=self.fan_outs,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            temperature=self.temperature,
            normalize=self.normalize,
        )

    def training(self, steps: int) -> TrainSettings:
        """Settings of a training of so many steps."""
        return TrainSettings(
            seed=self.seed,
            steps=steps,
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
            loss=self.loss,
            negatives=self.negatives,
            logq=self.logq,
            draw=self.draw,
            bfloat16=self.bfloat16,
        )

    def steps(self, epochs: float, clicks: int) -> int:
        """Steps that show so many clicks so often."""
        return max(round(epochs * clicks / self.batch_size), 1)

    def to_dict(self) -> dict[str, Any]:
        """As a record holds it: through JSON and back, so that tuples are lists."""
        return dict(json.loads(json.dumps(asdict(self))))

    def group(self) -> dict[str, Any]:
        """All but gate and seed: runs that agree in these are compared."""
        return {k: v for k, v in self.to_dict().items() if k not in ("gate", "seed")}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> StudySettings:
        """Read what :meth:`to_dict` returned."""
        lists = ("n", "fan_outs")
        own: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in values.items()}
        return cls(**own)


def recipe(data: str, model: ModelName = "sage", *, fast: bool = False) -> StudySettings:
    """The settings for a set of clicks by name; for others the defaults.

    Args:
        data: Name of the set.
        model: SAGE, or LightGCN as its authors train it.
        fast: LightGCN with a softmax in place of BPR: a variant, not what was published.
    """
    first = data.partition(" ")[0]  # the name of made-up clicks goes on with size and seed
    own = _SAGE.get(first, {"n": (50,), "exclude_seen": False})
    if model == "sage":
        if fast:
            raise InputError("Expected --fast with --model lightgcn; found sage. Leave one out.")
        return StudySettings(**own)
    asked = {name: own[name] for name in ("split", "days", "n", "exclude_seen") if name in own}
    return StudySettings(**(asked | _LIGHTGCN | (_SOFTMAX if fast else {})))
