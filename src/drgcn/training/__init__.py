"""Training: many seeds in one pass, explicit stopping rules, checkpoints."""

from drgcn.training.checkpoint import clear_checkpoint
from drgcn.training.fitting import fit
from drgcn.training.objectives import Metric
from drgcn.training.result import FitResult, Prediction, load_fit
from drgcn.training.stopping import (
    BestValidation,
    Patience,
    RisingLoss,
    StepwiseDecay,
    StoppingRule,
)
from drgcn.training.trainer import Progress

__all__ = [
    "BestValidation",
    "FitResult",
    "Metric",
    "Patience",
    "Prediction",
    "Progress",
    "RisingLoss",
    "StepwiseDecay",
    "StoppingRule",
    "clear_checkpoint",
    "fit",
    "load_fit",
]
