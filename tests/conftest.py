"""What holds for every test: one thread, a fixed seed, and no way out to the network."""

from __future__ import annotations

import functools
import gc
import ipaddress
import os
import socket
from typing import Any

import pytest

# Test graphs are tiny: more threads only get in each other's way. The matrix libraries of torch,
# numpy and faiss read these once, when they are first imported; processes that tests start
# inherit them. A number that is already set is left as it is.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import torch  # noqa: E402 - after the environment
import typer.testing  # noqa: E402

# Making the command line of its functions takes a tenth of a second, at every call of a runner.
typer.testing._get_command = functools.cache(typer.testing._get_command)

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Keeps the modules that are loaded by now out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and not _is_local(address[0]):
            raise AssertionError(f"a test tried to reach {address[0]}: tests use no network")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
