"""Triton kernels of the library, and what goes with them: lanes, programs and CUDA graphs."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

# Runs of a function before it is recorded as a CUDA graph.
_WARM_UP: Final = 2

_log = logging.getLogger(__name__)


def triton_available() -> bool:
    """Return whether Triton is installed with a C compiler, which builds its launchers."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return find_spec("triton") is not None and compiler is not None


def being_recorded() -> bool:
    """Return whether operations are being recorded as a program.

    A kernel that is launched then would be missing from it: plain operations take its place.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def with_lanes(value: Tensor, dim: int | None, lanes: int) -> Tensor:
    """``value`` with the lanes of :func:`torch.vmap` as its first axis.

    Args:
        value: An argument of a ``vmap`` rule.
        dim: Its axis of lanes; ``None`` if all lanes share it, which copies nothing.
        lanes: Number of lanes.
    """
    return value.expand(lanes, *value.shape) if dim is None else value.movedim(dim, 0)


class LaneFunction(torch.autograd.Function):
    """An autograd function with a rule for ``vmap``, whose arguments are all given by position.

    Torch reads the signature of ``forward`` at every call to fill in what is not given, which
    takes the host longer than the launch of a small kernel.
    """

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        """Call the function, as torch does but for the signature."""
        if torch._C._are_functorch_transforms_active():
            return super().apply(*arguments)
        without_defaults = super(torch.autograd.Function, cls)
        return without_defaults.apply(*unwrap_dead_wrappers(arguments))  # type: ignore[attr-defined]


class Recorded:
    """A function that is run a few times, then recorded as a CUDA graph and replayed.

    The function must change tensors in place and return nothing. One that cannot be recorded is
    called as it is.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.calls = 0
        self.recordable = True
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the function once, or replay its recording."""
        if self.graph is None and self.recordable and self.calls >= _WARM_UP:
            self._record()  # which does not run it
        self.calls += 1
        if self.graph is not None:
            self.graph.replay()
        elif self.calls <= _WARM_UP:
            self._warm_up()
        else:
            self.function()

    def _warm_up(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.function()
        torch.cuda.current_stream().wait_stream(side)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        state = generator.clone_state()
        try:
            with torch.cuda.graph(graph):
                self.function()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            _log.warning("This model cannot be recorded as a CUDA graph (%s).", reason)
            self.recordable = False
            # A recording that fails leaves its stream in use, and the generator waiting for the
            # graph: every later draw in the process would be refused.
            torch.cuda.set_stream(stream)
            generator.graphsafe_set_state(state)
            torch.cuda.synchronize()
        else:
            self.graph = graph
