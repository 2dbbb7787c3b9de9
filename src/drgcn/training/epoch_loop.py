"""The loop around the epochs: progress, checkpoints, and going on after an interruption."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from drgcn.training.checkpoint import load_checkpoint, save_checkpoint
from drgcn.training.epoch_runner import EpochRunner
from drgcn.training.trainer import Trainer
from drgcn.training.trainer_state import restore, state_tensors

_REPORT_EVERY = 0.2  # seconds


@dataclass(frozen=True)
class Progress:
    """Where a pass stands; loss and accuracy are means over the seeds still training.

    ``seeds_at_once`` of the ``seeds`` in all are trained now: the rest wait, on a GPU for want
    of memory.
    """

    epochs_done: int
    epochs_in_all: int
    train_loss: float
    val_accuracy: float
    seeds_at_once: int
    seeds: int


class EpochLoop:
    """Trains block after block of seeds.

    Args:
        epochs: Budget of each block.
        blocks: How many blocks there will be.
        seeds: How many seeds were asked for.
        progress: Called a few times a second.
        checkpoint: Where to save the state, one file per block.
        checkpoint_every: Seconds between two saves.
        fingerprint: What a checkpoint must have been saved with to be used.
    """

    def __init__(
        self,
        epochs: int,
        blocks: int,
        seeds: int,
        progress: Callable[[Progress], None] | None = None,
        checkpoint: Path | str | None = None,
        checkpoint_every: float = 10.0,
        fingerprint: str = "",
    ) -> None:
        self.epochs, self.blocks, self.seeds = epochs, blocks, seeds
        self.progress = progress
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.fingerprint = fingerprint
        self.finished = 0
        self.reported = 0.0

    def run(self, trainer: Trainer) -> float:
        """Trains one block to its end; returns the seconds it took, over all attempts."""
        path = self._path(trainer)
        found = load_checkpoint(path, self.fingerprint) if path and path.exists() else None
        spent = 0.0
        if found is not None:
            tensors, spent = found
            restore(trainer, tensors)
        start = time.perf_counter()
        self._run_epochs(trainer, path, spent)
        if trainer.epoch.is_cuda:
            torch.cuda.synchronize()
        seconds = spent + time.perf_counter() - start
        # Only between epochs: a state caught in the middle of one would not go on to the same
        # numbers. So an interruption goes back to the last checkpoint.
        if path is not None:
            save_checkpoint(path, state_tensors(trainer), seconds, self.fingerprint)
        self.finished += 1
        return seconds

    def _run_epochs(self, trainer: Trainer, path: Path | None, spent: float) -> None:
        runner = EpochRunner(trainer)
        start = saved = time.perf_counter()
        epoch = int(trainer.epoch)
        while epoch < self.epochs and bool(trainer.active.any()):
            # Reading a result waits for the device, so several epochs go out between looks.
            epoch += runner.run(min(runner.stride, self.epochs - epoch))
            now = time.perf_counter()
            self._report(trainer, epoch, now)
            if path is not None and now - saved > self.checkpoint_every:
                seconds = spent + now - start
                save_checkpoint(path, state_tensors(trainer), seconds, self.fingerprint)
                saved = now

    def _path(self, trainer: Trainer) -> Path | None:
        if self.checkpoint is None:
            return None
        seeds = zlib.crc32(repr(trainer.stack.seeds).encode())  # a block's lanes, in order
        return self.checkpoint.with_name(f"{self.checkpoint.name}.{seeds:08x}")

    def _report(self, trainer: Trainer, epoch: int, now: float) -> None:
        if self.progress is None or now - self.reported < _REPORT_EVERY:
            return
        self.reported = now
        active = trainer.active if bool(trainer.active.any()) else ~trainer.active
        self.progress(
            Progress(
                epochs_done=self.finished * self.epochs + epoch,
                epochs_in_all=self.blocks * self.epochs,
                train_loss=float(trainer.curve("train_loss")[epoch - 1][active].mean()),
                val_accuracy=float(trainer.curve("val_accuracy")[epoch - 1][active].mean()),
                seeds_at_once=min(len(trainer.stack.seeds), self.seeds),
                seeds=self.seeds,
            )
        )
