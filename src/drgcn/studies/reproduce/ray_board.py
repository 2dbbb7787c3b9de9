"""Where jobs on a cluster write down how far they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

_ANSWER = 5.0  # seconds


class RayBoard:
    """A small Ray actor on this machine's node; work goes on without it, should it die."""

    def __init__(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._actor: Any = (
            ray.remote(_board_class()).options(num_cpus=0, scheduling_strategy=here).remote()
        )

    def pen(self, key: str) -> Callable[[float], None]:
        """What a job on some node notes its share with, from 0 when it starts."""
        note = self._actor.note

        def tell(share: float) -> None:
            noted = note.remote(key, share)
            if share == 0.0:  # waited for: attempts are counted, and this process may soon die
                # Not by ray.get: a task that waits in it gives its CPU to the next.
                with suppress(Exception):
                    noted.future().result(_ANSWER)

        return tell

    def read(self) -> tuple[dict[str, float], dict[str, int]]:
        """The share of each job that has started, and how often it has, by its key."""
        import ray

        with suppress(ray.exceptions.RayError):
            return ray.get(self._actor.read.remote(), timeout=_ANSWER)
        return {}, {}

    def close(self) -> None:
        """Ends the actor."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


def _board_class() -> type:
    """The actor's class, made in a function so that it is sent as it is.

    Found by its module, it would have its process import all of this package, torch included.
    """

    class Board:
        def __init__(self) -> None:
            self.shares: dict[str, float] = {}
            self.starts: dict[str, int] = {}

        def note(self, key: str, share: float) -> None:
            self.shares[key] = share
            if share == 0.0:
                self.starts[key] = self.starts.get(key, 0) + 1

        def read(self) -> tuple[dict[str, float], dict[str, int]]:
            return self.shares, self.starts

    return Board
