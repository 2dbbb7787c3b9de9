"""Runs epochs eagerly, or on CUDA as replays of one graph."""

from __future__ import annotations

import logging

import torch

from drgcn.training.trainer import Trainer

_WARM_UP = 2
_STRIDE = 20  # epochs between two looks at the device: a fraction of a second

log = logging.getLogger(__name__)


class EpochRunner:
    """Hands epochs to the device.

    A small full-batch epoch is hundreds of tiny kernels, and starting them one by one takes
    longer than running them. On CUDA the first epochs run eagerly, then one is recorded, and
    the rest are replays. Models that cannot be recorded go on eagerly.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.on_cuda = trainer.epoch.is_cuda
        self.stride = _STRIDE if self.on_cuda else 1
        self.recordable = self.on_cuda
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, count: int) -> int:
        """Runs up to ``count`` epochs; returns how many."""
        if not self.on_cuda:
            for _ in range(count):
                self.trainer.run_epoch()
            return count
        if self.recordable and self.graph is None:
            count = min(count, _WARM_UP)
            self._warm_up(count)
            self._record()
            return count
        for _ in range(count):
            if self.graph is None:
                self.trainer.run_epoch()
            else:
                self.graph.replay()
        return count

    def _warm_up(self, count: int) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(count):
                self.trainer.run_epoch()
        torch.cuda.current_stream().wait_stream(side)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.trainer.run_epoch()
        except RuntimeError as error:
            log.warning("This model cannot be recorded as a CUDA graph (%s).", error)
            self.recordable = False
            torch.cuda.synchronize()
        else:
            self.graph = graph
