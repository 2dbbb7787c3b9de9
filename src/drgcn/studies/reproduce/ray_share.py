"""What of a cluster one job takes, and how many jobs find room in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drgcn.errors import InputError


@dataclass(frozen=True)
class RayShare:
    """The resources of one job, in Ray's units.

    Attributes:
        cpus: CPUs, one for each thread.
        gpus: Share of a GPU; 0 on CPU.
    """

    cpus: int
    gpus: float

    def room(self, nodes: Iterable[Mapping[str, Any]]) -> int:
        """How many jobs can run at once on the nodes that are alive, see ``ray.nodes``."""
        return sum(self._on(node["Resources"]) for node in nodes if node["Alive"])

    def expect_room(self, nodes: Iterable[Mapping[str, Any]], address: str) -> int:
        """The same, or an error if there is none: Ray would wait for such a node for ever."""
        room = self.room(nodes)
        if room == 0:
            wanted = f"{self.cpus} CPUs" + (" and a GPU" if self.gpus else "")
            raise InputError(
                f"Expected a node with {wanted} in the Ray cluster at {address}; found none. Add "
                "one with `ray start --address`, or choose other --threads or --device."
            )
        return room

    def _on(self, resources: Mapping[str, float]) -> int:
        found = resources.get("CPU", 0.0) / self.cpus
        if self.gpus:
            # A share is of one GPU: what is left over of several does not add up to one more.
            each = int(1 / self.gpus + 1e-6)
            found = min(found, int(resources.get("GPU", 0.0)) * each)
        return int(found)
