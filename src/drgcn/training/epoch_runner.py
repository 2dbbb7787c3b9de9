"""Runs epochs eagerly, or on CUDA as replays of recorded graphs."""

from __future__ import annotations

from drgcn.training.recorded import Recorded
from drgcn.training.trainer import Trainer

_STRIDE = 20  # epochs between two looks at the device: a fraction of a second


class EpochRunner:
    """Hands epochs to the device.

    A small epoch is hundreds of tiny kernels, and starting them one by one takes longer than
    running them. On CUDA every phase of an epoch is therefore recorded and replayed. An epoch of
    one step is one phase here: nothing but the whole is ever run.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        on_cuda = trainer.epoch.is_cuda
        self.stride = _STRIDE if on_cuda and trainer.task.batches is None else 1
        self.phases = trainer.phases
        if on_cuda and trainer.task.batches is None:
            self.phases = ((Recorded(trainer.run_epoch), 1),)
        elif on_cuda:
            self.phases = tuple((Recorded(phase), times) for phase, times in trainer.phases)

    def run(self, count: int) -> int:
        """Runs ``count`` epochs; returns how many."""
        for _ in range(count):
            for phase, times in self.phases:
                for _ in range(times):
                    phase()
        return count
