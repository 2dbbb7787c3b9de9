"""How a model is trained, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drgcn.errors import InputError
from drgcn.recommend.model.losses import LogQ
from drgcn.recommend.model.positives import Draw

Loss = Literal["softmax", "bpr"]


@dataclass(frozen=True)
class TrainSettings:
    """All that decides a run beside model and data.

    Attributes:
        seed: Of every draw of the run.
        epochs: How often each click is shown; parts of one are allowed.
        steps: Number of steps, in place of epochs.
        batch_size: Clicks in a step, over all ranks.
        lr: Learning rate of Adam.
        weight_decay: L2 coefficient: of all weights (SAGE), or of the embeddings of a batch, as
            LightGCN's authors have it.
        loss: Softmax over sampled items, or BPR.
        negatives: Items drawn uniformly as further columns of the softmax, over all ranks; BPR
            with SAGE takes its negatives from them.
        logq: See :func:`~drgcn.recommend.model.losses.softmax_loss`.
        mask_hits: Leave out columns that hold the user's item by accident.
        mask_target: Take the click that is to be predicted out of both trees.
        draw: See :class:`~drgcn.recommend.model.positives.Positives`.
        bfloat16: Take products in bfloat16; weights and sums stay in single precision.
    """

    seed: int = 0
    epochs: float = 1.0
    steps: int | None = None
    batch_size: int = 8192
    lr: float = 1e-3
    weight_decay: float = 0.0
    loss: Loss = "softmax"
    negatives: int = 1024
    logq: LogQ = "standard"
    mask_hits: bool = True
    mask_target: bool = True
    draw: Draw = "clicks"
    bfloat16: bool = False

    def __post_init__(self) -> None:
        if self.loss not in ("softmax", "bpr"):
            raise InputError(f"Expected loss to be softmax or bpr; found {self.loss!r}.")
        if not self.epochs > 0 or (self.steps is not None and self.steps < 1):
            raise InputError(
                f"Expected some training; found {self.epochs} epochs and {self.steps} steps."
            )
        if not self.lr > 0 or self.weight_decay < 0 or self.negatives < 0:
            raise InputError(
                f"Expected lr above zero, weight_decay and negatives not below; found "
                f"{self.lr}, {self.weight_decay} and {self.negatives}."
            )
