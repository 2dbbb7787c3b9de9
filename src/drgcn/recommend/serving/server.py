"""Serve an export over HTTP with uvicorn; imports neither FastAPI nor uvicorn before that."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from os import PathLike

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.serving.export_folder import ExportFolder

_WAITING = 2048  # connections
_LAST_REQUESTS = 10  # seconds that running requests get at the end


@dataclass(frozen=True)
class HttpLimits:
    """Limits of one request.

    Attributes:
        n: The longest list.
        batch: The most users.
        body: The most bytes.
    """

    n: int = 500
    batch: int = 256
    body: int = 1 << 20


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
        limits: Limits of one request.
    """
    try:
        import uvicorn

        from drgcn.recommend.serving.http import build_app
    except ImportError as error:
        raise InputError(
            f"Expected FastAPI and uvicorn to serve; found no {error.name}. "
            + how_to_install("serve")
        ) from None
    listening = _listen(host, port)
    with listening:
        app = build_app(ExportFolder(folder), limits)
        listening.listen(_WAITING)  # who comes from here on waits for uvicorn
        number = listening.getsockname()[1]
        print(f"serving {folder} at http://{host}:{number} (POST /recommend)", flush=True)
        config = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=_LAST_REQUESTS, lifespan="off"
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


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
