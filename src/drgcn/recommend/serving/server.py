"""Serve an export over HTTP with uvicorn; imports neither FastAPI nor uvicorn before that."""

from __future__ import annotations

import resource
import signal
import socket
from asyncio import Protocol
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import cast

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.serving.export_folder import ExportFolder

_WAITING = 2048  # connections
_LAST_REQUESTS = 10  # seconds that running requests get at the end


@dataclass(frozen=True)
class HttpLimits:
    """Limits of one request, and of all at once.

    Attributes:
        n: The longest list.
        batch: The most users.
        body: The most bytes.
        requests: The most requests for lists at once; another is answered with 503, as is one
            that would wait for long.
        connections: The most connections; another is answered with 503 and closed. Where the
            system allows few open files, a quarter of these.
        seconds: The longest time from the connection, or the last answer on it, to the end of
            the next answer; the connection is closed then.
    """

    n: int = 500
    batch: int = 256
    body: int = 1 << 20
    requests: int = 64
    connections: int = 4096
    seconds: float = 30.0


def serve(
    folder: str | PathLike[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: HttpLimits | None = None,
) -> None:
    """Serves an export until SIGINT or SIGTERM; requests that are running are finished first.

    Args:
        folder: The export.
        host: Address to listen at.
        port: Port to listen at; 0 for any that is free.
        limits: Limits of one request, and of all at once.
    """
    try:
        import uvicorn

        from drgcn.recommend.serving.http import LimitedConnection, build_app
    except ImportError as error:
        raise InputError(
            f"Expected FastAPI and uvicorn to serve; found no {error.name}. "
            + how_to_install("serve")
        ) from None
    limits = limits or HttpLimits()
    files = _allow_files(limits)
    limits = replace(limits, connections=min(limits.connections, files // 4))
    listening = _listen(host, port)
    with listening:
        app = build_app(ExportFolder(folder), limits)
        listening.listen(_WAITING)  # who comes from here on waits for uvicorn
        number = listening.getsockname()[1]
        print(f"serving {folder} at http://{host}:{number} (POST /recommend)", flush=True)
        config = uvicorn.Config(
            app,
            http=cast("type[Protocol]", partial(LimitedConnection, limits=limits)),
            ws="none",
            lifespan="off",
            log_level="error",
            backlog=min(_WAITING, files // 16),  # so many are accepted in a turn of the loop
            timeout_graceful_shutdown=_LAST_REQUESTS,
        )
        # uvicorn ends on these signals and then sends them on: by then all is done.
        before = {
            name: signal.signal(name, _ignore_signal) for name in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def _allow_files(limits: HttpLimits) -> int:
    """Raise the number of files that may be open to what connections need; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * limits.connections
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft >= 0 else wanted


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without it, the second half of an answer waits until the first is
    # acknowledged, which clients put off by 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"Expected a free port at {host}; {port} cannot be used ({error}). Choose another "
            f"--port."
        ) from None
    return listening


def _ignore_signal(*_: object) -> None:
    """Take a signal and do nothing."""
