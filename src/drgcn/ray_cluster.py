"""Connection to a Ray cluster, and the resources of it that one job takes."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drgcn.errors import InputError, how_to_install

_PATIENCE = 5.0  # seconds for a machine to answer at all
_LOCAL_STORE = 100 * 1024**2  # bytes; what goes through it are records, a few kilobytes each


def connect(address: str, cpus: int) -> None:
    """Connect this process to a cluster, unless it is connected to it already.

    Ray's usage reports, dashboard and log lines are turned off, as far as they start from here.

    Args:
        address: ``auto`` for the cluster that this machine belongs to, ``HOST:PORT`` for the head
            of one, or ``local`` for a Ray of this machine's own, which ends with this process.
        cpus: How many CPUs a ``local`` one may use.

    Raises:
        InputError: If Ray is not installed, or nothing answers there.
    """
    # Ray reads these when it is imported. One round of waiting for a head is half a minute.
    for name, value in (
        ("RAY_USAGE_STATS_ENABLED", "0"),
        ("RAY_NUM_REDIS_GET_RETRIES", "1"),
        ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"),
    ):
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError(
            "Expected Ray for --ray-address; found none. On every machine of the cluster: "
            + how_to_install("cluster")
        ) from None
    if ray.is_initialized():
        return
    options: dict[str, Any] = {}
    if address == "local":
        options = {
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": _LOCAL_STORE,
        }
    else:
        _expect_answer(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # Ray raises many kinds: no cluster, another version, no token
        words = " ".join(str(error).split())
        raise InputError(
            f"Expected a Ray cluster at --ray-address {address}; found none that this machine can "
            f"work with ({words}). Start it with `ray start`, see docs/cluster.md."
        ) from None


def _expect_answer(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself waits for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(
            f"Expected --ray-address auto, local or HOST:PORT; found {address!r}. The port of a "
            "head is 6379 unless it was started with another."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Expected the head of a Ray cluster at {address}; nothing answers there ({error}). "
            "Start it with `ray start --head`, see docs/cluster.md."
        ) from None


@dataclass(frozen=True)
class RayShare:
    """Resources of one job, in Ray's units.

    Attributes:
        cpus: CPUs, one for each thread.
        gpus: Share of a GPU; 0 on CPU.
    """

    cpus: int
    gpus: float

    def room(self, nodes: Iterable[Mapping[str, Any]]) -> int:
        """Return how many jobs can run at once on the nodes that are alive, see ``ray.nodes``."""
        return sum(self._on(node["Resources"]) for node in nodes if node["Alive"])

    def expect_room(self, nodes: Iterable[Mapping[str, Any]], address: str) -> int:
        """Return :meth:`room`; refuse a cluster without any, where Ray would wait for ever."""
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
