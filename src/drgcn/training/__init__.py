"""Training: many seeds in one pass, explicit stopping rules, checkpoints."""

from drgcn.training.checkpoint import clear_checkpoint
from drgcn.training.epoch_loop import Progress
from drgcn.training.fit_result import FitResult
from drgcn.training.fitting import fit
from drgcn.training.schedule import StepwiseDecay
from drgcn.training.stopping import BestValidation, Patience, RisingLoss, StoppingRule

__all__ = [
    "BestValidation",
    "FitResult",
    "Patience",
    "Progress",
    "RisingLoss",
    "StepwiseDecay",
    "StoppingRule",
    "clear_checkpoint",
    "fit",
]
