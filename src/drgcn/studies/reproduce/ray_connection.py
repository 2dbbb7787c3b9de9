"""The way into a Ray cluster, with one clear line where there is none."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from drgcn.errors import InputError, how_to_install

_PATIENCE = 5.0  # seconds for a machine to answer at all
_LOCAL_STORE = 100 * 1024**2  # bytes; what goes through it are records, a few kilobytes each


def connect(address: str, cpus: int) -> None:
    """Connects this process to a cluster, unless it is connected to it already.

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
    how: dict[str, Any] = {}
    if address == "local":
        how = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _LOCAL_STORE}
    else:
        _expect_answer(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **how)
    except Exception as error:  # Ray raises many kinds: no cluster, another version, no token
        words = " ".join(str(error).split())
        raise InputError(
            f"Expected a Ray cluster at --ray-address {address}; found none that this machine can "
            f"work with ({words}). Start it with `ray start`, see docs/cluster.md."
        ) from None


def _expect_answer(address: str) -> None:
    """Asks whether anything listens there: Ray itself waits for minutes."""
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
