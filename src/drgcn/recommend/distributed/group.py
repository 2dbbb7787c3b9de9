"""The group of ranks: what they tell each other, and the state they share on disk."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from torch import Tensor

from drgcn._io import whole_folder
from drgcn.errors import InputError, warn
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.distributed.launch import RESTART_SETTING

_TOGETHER = 1 << 20  # numbers; gradients up to this size travel in one message
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
ATTEMPTS = "attempts.jsonl"
Parts = tuple[ClickGraph, ClickGraph | None]
_GRAPH, _TARGETS = "graph", "targets"


class Exchange:
    """Sums and gathers over ranks. This base class is that of a single process.

    A rank holds rows ``rank * B / size`` to ``(rank + 1) * B / size`` of the global batch, and
    likewise of the extra negatives. The loss of a rank is the mean over its rows, and the loss of
    the run is the mean over ranks. A class for several processes overrides the methods so that a
    step on ``size`` ranks equals one on a single rank with the whole batch:

    * :meth:`sum` adds over ranks, and so does its backward pass;
    * :meth:`gather` concatenates over ranks in their order; backward adds the gradients over
      ranks and gives each its own part;
    * :meth:`average_gradients` replaces gradients by their mean over ranks, after ``backward``.

    Attributes:
        rank: This process, from 0.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    def sum(self, x: Tensor) -> Tensor:
        """The sum over ranks, with a gradient: sums and counts behind a Dr block's mean."""
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The rows of all ranks in their order, with a gradient: embeddings of items."""
        return x

    def gather_ids(self, ids: Tensor) -> Tensor:
        """The same for whole numbers, without a gradient."""
        return ids

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Make the gradients of all ranks equal to their mean."""

    def mean(self, x: Tensor) -> Tensor:
        """The mean over ranks of a number that is reported, without a gradient."""
        return x


class GroupExchange(Exchange):
    """An exchange over gloo (CPU) or NCCL (CUDA): a step on all ranks equals one on a single rank.

    Sums over ranks are taken by the backend in an order that depends on the number of ranks alone:
    a run that is repeated, or goes on from a checkpoint, repeats them to the bit.

    Before the first step the ranks compare their weights. Ranks that disagree have read different
    data or different checkpoints, and averaging their gradients would hide it.

    Args:
        group: The process group. (default: all processes)
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.compared = False

    def sum(self, x: Tensor) -> Tensor:
        """The sum over ranks; backward sums the gradients."""
        return _Sum.apply(x, self.group)

    def gather(self, x: Tensor) -> Tensor:
        """The rows of all ranks; backward sums the gradients and keeps those of the own rows."""
        return _Gather.apply(x, self.group)

    def gather_ids(self, ids: Tensor) -> Tensor:
        """The rows of all ranks, without a gradient."""
        return _gathered(ids, self.group)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Make gradients equal to their mean; small ones share a message, large ones go alone."""
        weights = list(parameters)
        if not self.compared:
            self._expect_same_weights(weights)
        small: dict[torch.dtype, list[Tensor]] = {}
        for weight in weights:
            grad = weight.grad
            if grad is None:
                continue
            if grad.numel() > _TOGETHER:
                dist.all_reduce(grad, group=self.group)
                grad /= self.size
            else:
                small.setdefault(grad.dtype, []).append(grad)
        for grads in small.values():
            flat = torch.cat([grad.flatten() for grad in grads])
            dist.all_reduce(flat, group=self.group)
            flat /= self.size
            for grad, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
                grad.copy_(part.view_as(grad))

    def mean(self, x: Tensor) -> Tensor:
        """The mean over ranks, without a gradient."""
        return _summed(x, self.group) / self.size

    def gather_values(self, value: Any) -> list[Any]:
        """Return a small plain value of every rank, in their order."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self.group)
        return found

    def expect_same(self, what: str, value: Any) -> None:
        """Refuse to work with ranks that do not see the same thing.

        Args:
            what: What it is, for the message.
            value: A small plain value that tells it.
        """
        found = self.gather_values(value)
        others = [rank for rank, its in enumerate(found) if its != found[0]]
        if others:
            raise InputError(
                f"Expected the same {what} on all {self.size} ranks; found {found[0]} on rank 0 "
                f"and {found[others[0]]} on rank {others[0]}. All machines must see the same "
                "folders of clicks and of the run."
            )

    def wait(self) -> None:
        """Wait until all ranks are here."""
        dist.barrier(group=self.group)

    def _expect_same_weights(self, weights: Sequence[Tensor]) -> None:
        self.compared = True
        total = torch.zeros((), dtype=torch.int64, device=weights[0].device)
        for number, weight in enumerate(weights, 1):
            bits = weight.detach().contiguous().view(_BITS[weight.element_size()])
            total += bits.sum() * number
        self.expect_same("weights (a checksum)", int(total))


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        return _summed(x, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _summed(grads[0], ctx.group), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group, ctx.rows = group, x.size(0)
        return _gathered(x, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # gloo has no reduce-scatter; a batch of embeddings is small enough to sum whole.
        first = dist.get_rank(ctx.group) * ctx.rows
        return _summed(grads[0], ctx.group)[first : first + ctx.rows], None


def _summed(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def _gathered(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    found = x.new_empty((dist.get_world_size(group), *x.shape))
    dist.all_gather(list(found), x.detach().contiguous(), group=group)
    return found.flatten(0, 1)


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
        warn(
            f"Ranks that torchrun starts again may not find each other: set {missing[0]}=1 "
            "before you start it, see docs/recommend_inside.md."
        )


def _own(device: torch.device) -> torch.device:
    if device.type != "cuda" or device.index is not None:
        return device
    # A launcher may show each rank its own GPU alone, whatever the rank's number.
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def note_attempt(folder: Path, checkpoint: Path, exchange: GroupExchange) -> None:
    """Add a line to the run's folder: where each rank is, and the step it all goes on from.

    Args:
        folder: Folder of the run; rank 0 writes.
        checkpoint: The run's checkpoint, if there is one yet.
        exchange: The other ranks.
    """
    ranks = exchange.gather_values(_location())
    if exchange.rank:
        return
    line = json.dumps({"step": saved_step(checkpoint), "ranks": ranks})
    with (folder / ATTEMPTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_attempts(folder: Path) -> list[dict[str, Any]]:
    """The lines so far; one that is being written is left out."""
    path = folder / ATTEMPTS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def saved_step(checkpoint: Path) -> int:
    """The step that a checkpoint stands at; zero if there is none that can be read."""
    try:
        with safe_open(checkpoint, framework="pt") as file:
            return int(file.get_tensor("step"))
    except (OSError, SafetensorError):
        return 0


def _location() -> dict[str, Any]:
    found: dict[str, Any] = {"host": platform.node(), "pid": os.getpid()}
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        found["ray_node"] = ray.get_runtime_context().get_node_id()
    return found


def shared_clicks(make: Callable[[], Parts], folder: Path, exchange: GroupExchange) -> Parts:
    """Clicks that rank 0 makes and writes, and all ranks map into memory.

    A graph without the day that is held back is a new graph: made by every rank, it would be in
    memory as many times as there are ranks. Mapped, ranks of one machine share its pages.

    Args:
        make: Makes the clicks that give neighbours, and those to learn if they are others.
        folder: Where to; taken as it is if it is there, for it is there as a whole or not at all.
            Its name has to say what is in it. All machines must see it.
        exchange: The other ranks.

    Raises:
        InputError: On every rank, if it was raised on rank 0 by ``make``.
    """
    refused = ""
    if exchange.rank == 0 and not folder.exists():
        try:
            _write(make(), folder)
        except InputError as error:
            refused = str(error)
    refused = exchange.gather_values(refused)[0]
    if refused:
        raise InputError(refused)
    if not folder.is_dir():
        raise InputError(
            f"Expected {folder}, which rank 0 wrote, on the machine of rank {exchange.rank} too; "
            "it is not there. All machines must see the folder of the run."
        )
    has_targets = (folder / _TARGETS).is_dir()
    return (
        ClickGraph.load(folder / _GRAPH),
        ClickGraph.load(folder / _TARGETS) if has_targets else None,
    )


def _write(parts: Parts, folder: Path) -> None:
    with whole_folder(folder) as partial:
        for name, part in zip((_GRAPH, _TARGETS), parts, strict=True):
            if part is not None:
                (partial / name).mkdir()
                part.save(partial / name)
