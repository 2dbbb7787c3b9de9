"""The way into the group of ranks that some launcher has started."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from drgcn.errors import DrgcnWarning
from drgcn.recommend.distributed.group_exchange import GroupExchange
from drgcn.recommend.distributed.torchrun import RESTART_SETTING
from drgcn.recommend.model.exchange import Exchange

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[tuple[Exchange, torch.device]]:
    """The other ranks of this run, and this rank's device.

    Ray Train has made the process group by now. torchrun, and a batch system that sets the same
    variables, leave that to us: gloo on CPU, NCCL on CUDA. Whoever was started by hand is alone.

    Args:
        device: Where to train. A rank on CUDA takes the GPU of its number on its machine.
    """
    if dist.is_initialized():  # by Ray Train
        yield GroupExchange(), _own(device)
        return
    if not all(os.environ.get(name) for name in _NEEDED) or os.environ["WORLD_SIZE"] == "1":
        yield Exchange(), device
        return
    device = _own(device)
    _expect_restart_setting()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield GroupExchange(), device
    finally:
        dist.destroy_process_group()


def _expect_restart_setting() -> None:
    """Warns, once, of a torchrun that may start ranks again but was not told how."""
    missing = [name for name, value in RESTART_SETTING.items() if os.environ.get(name) != value]
    may_restart = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    if missing and may_restart and os.environ["RANK"] == "0":
        warnings.warn(
            f"Ranks that torchrun starts again may not find each other: set {missing[0]}=1 "
            "before you start it, see docs/scale.md.",
            DrgcnWarning,
            stacklevel=3,
        )


def _own(device: torch.device) -> torch.device:
    if device.type != "cuda" or device.index is not None:
        return device
    # A launcher may show each rank its own GPU alone, whatever the rank's number.
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
