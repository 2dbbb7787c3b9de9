"""Serve an export over HTTP with uvicorn; imports neither FastAPI nor uvicorn before that."""

from __future__ import annotations

import gc
import json
import logging
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from asyncio import Protocol
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from logging.handlers import WatchedFileHandler
from os import PathLike
from pathlib import Path
from typing import cast

import torch

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.serving.export_folder import (
    COUNTS,
    ITEM_ATTRIBUTES,
    MANIFEST,
    ExportFolder,
)
from drgcn.recommend.serving.recommender import Recommender

TOKEN_VARIABLE = "DRGCN_SERVE_TOKEN"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LEAST_TOKEN = 16  # characters
_WAITING = 2048  # connections
_LAST_REQUESTS = 10  # seconds that running requests get at the end
_LOOK_EVERY = 1.0  # seconds between looks for another export


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


class RequestMeter:
    """Counts, for each path of a fixed list, requests by status and the time they took.

    Args:
        paths: Paths counted by name; any other path counts as ``other``, so that nobody can fill
            memory with names.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = frozenset(paths)
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: dict[str, float] = {}
        self._lists = 0

    def count(self, path: str, status: int, seconds: float) -> None:
        """Take note of one answer."""
        path = path if path in self.paths else "other"
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds
            for limit in SECONDS:
                if seconds <= limit:
                    self._buckets[path, limit] += 1

    def count_lists(self, number: int) -> None:
        """Take note of lists that were given."""
        with self._lock:
            self._lists += number

    def text(self) -> str:
        """All counts."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "# HELP drgcn_requests_total Requests answered, by path and status."
        yield "# TYPE drgcn_requests_total counter"
        for (path, status), number in sorted(self._requests.items()):
            yield f'drgcn_requests_total{{path="{path}",status="{status}"}} {number}'
        for name, words, low, high in (
            ("refused", "Requests refused as bad (4xx).", 400, 500),
            ("errors", "Requests that failed on our side (5xx).", 500, 600),
        ):
            number = sum(n for (_, status), n in self._requests.items() if low <= status < high)
            yield f"# HELP drgcn_{name}_total {words}"
            yield f"# TYPE drgcn_{name}_total counter"
            yield f"drgcn_{name}_total {number}"
        yield "# HELP drgcn_lists_total Lists of items given."
        yield "# TYPE drgcn_lists_total counter"
        yield f"drgcn_lists_total {self._lists}"
        yield "# HELP drgcn_request_seconds Time from request to answer."
        yield "# TYPE drgcn_request_seconds histogram"
        for path, total in sorted(self._seconds.items()):
            count = sum(n for (where, _), n in self._requests.items() if where == path)
            for limit in SECONDS:
                number = self._buckets[path, limit]
                yield f'drgcn_request_seconds_bucket{{path="{path}",le="{limit}"}} {number}'
            yield f'drgcn_request_seconds_bucket{{path="{path}",le="+Inf"}} {count}'
            yield f'drgcn_request_seconds_sum{{path="{path}"}} {total:.6f}'
            yield f'drgcn_request_seconds_count{{path="{path}"}} {count}'


class ServedExport:
    """The export that is served: another takes its place only when all of it is read and checked.

    Args:
        folder: The export, or a link to one that is changed from time to time.

    Attributes:
        recommender: What searches it; takes its successor's place in one step.
        loaded: When that was read, in seconds since 1970.
        reloads: Exports that took the place of another.
        failures: Exports that could not.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self._seen = _signature(self.folder / MANIFEST)
        self._asked = False
        self.recommender = load_recommender(self.folder)
        self.loaded, self.reloads, self.failures = time.time(), 0, 0

    @property
    def export(self) -> ExportFolder:
        """The export."""
        return self.recommender.export

    def ask(self, *_: object) -> None:
        """Have the next look read the export again; a handler of signals."""
        self._asked = True

    def look(self) -> bool:
        """Read the export if that was asked for, or if another is there; return whether it was.

        An export that is broken is told on standard error, and tried again when it is asked for
        or has changed.
        """
        found = _signature(self.folder / MANIFEST)
        if not self._asked and (found is None or found == self._seen):
            return False
        self._asked, self._seen = False, found
        try:
            recommender = load_recommender(self.folder)
        except Exception as error:  # whatever it is, the one that is served stays
            self.failures += 1
            reason = str(error) if isinstance(error, InputError) else repr(error)
            _say(f"{self.folder} is not taken, the export before it is served on: {reason}")
            return False
        self.recommender, self.loaded = recommender, time.time()
        self.reloads += 1
        _say(f"serving {recommender.export.folder} from now on")
        return True

    def metrics(self) -> str:
        """The export and its reloads, in Prometheus' text form."""
        facts = self.export.manifest
        model, data = facts.model["sha256"], facts.data["content_hash"]
        lines = [
            "# HELP drgcn_export_info The export that is served, by hashes of model and data.",
            "# TYPE drgcn_export_info gauge",
            f'drgcn_export_info{{model="{_label(model)}",data="{_label(data)}"}} 1',
            "# HELP drgcn_export_loaded_seconds When it was read, in seconds since 1970.",
            "# TYPE drgcn_export_loaded_seconds gauge",
            f"drgcn_export_loaded_seconds {self.loaded:.0f}",
            "# HELP drgcn_reloads_total Exports read while serving; a failed one is not self.",
            "# TYPE drgcn_reloads_total counter",
            f'drgcn_reloads_total{{result="done"}} {self.reloads}',
            f'drgcn_reloads_total{{result="failed"}} {self.failures}',
        ]
        return "\n".join([*lines, ""])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look every second, in a thread, as long as the block runs."""
        end = threading.Event()

        def watch() -> None:
            while not end.wait(_LOOK_EVERY):
                self.look()

        # Nobody waits for it at the end: it may be reading a large export.
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            end.set()


def _label(value: object) -> str:
    """A value of a label; it comes from a file."""
    return json.dumps(str(value))[1:-1]


def load_recommender(folder: Path) -> Recommender:
    """Read and check all files of an export, so that none is needed again.

    Raises:
        InputError: If a file is broken, or changed while it was read.
    """
    folder = folder.resolve()  # a link may change meanwhile; the files must be those of one export
    export = ExportFolder(folder)
    files = [folder / MANIFEST, *(folder / name for name in export.manifest.files)]
    before = [_signature(path) for path in files]
    recommender = Recommender(export)
    first = torch.zeros(1, dtype=torch.int64)
    recommender.for_users(first, 1)
    recommender.for_users(first, 1, exact=True)
    export.user_lookup.rows([""])
    export.users.hold()
    _ = export.item_lookup
    if export.manifest.seen:
        _ = export.seen
    if export.manifest.cold_users:
        _ = export.cold_users
    if export.manifest.fold_in:
        _ = export.fold_in
    if export.manifest.listed(ITEM_ATTRIBUTES):
        _ = export.item_categories
    recommender.similar(export.known_items.nonzero()[:1, 0], 1)
    if export.manifest.seen or export.manifest.listed(COUNTS):
        recommender.popular(1, 1)
    for path, known in zip(files, before, strict=True):
        if _signature(path) != known:
            raise InputError(
                f"Expected files that stay as they are while they are read; {path} has changed. "
                f"Read the export again."
            )
    return recommender


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file does; ``None`` without one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_token(path: Path | None = None) -> str | None:
    """Return the token that clients must show, from a file or else the environment.

    Args:
        path: The file. (default: the variable ``DRGCN_SERVE_TOKEN``, if it is set)

    Raises:
        InputError: If the token is too short, or is not one printable word.
    """
    if path is None:
        found = os.environ.get(TOKEN_VARIABLE)
        if found is None:
            return None
    else:
        try:
            found = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"Expected a token in {path}; it cannot be read.") from None
    token = found.strip()
    if len(token) < _LEAST_TOKEN or not all("!" <= letter <= "~" for letter in token):
        raise InputError(
            f"Expected a token of at least {_LEAST_TOKEN} printable ASCII characters without "
            f"spaces in {path or TOKEN_VARIABLE}; found another. Make one with `openssl rand "
            f"-hex 32`."
        )
    return token


class AccessLog(WatchedFileHandler):
    """Takes a line for each answer; the file may be moved away, and a new one is begun.

    Args:
        path: The file; lines are added to it.
    """

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path, encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"Expected a file for the access log; {path} cannot be written "
                f"({error.strerror}). Choose another --access-log."
            ) from None
        self.failed = False

    def add(self, words: str) -> None:
        """Write a line with the time in front."""
        line = f"{_now()} {words}"
        self.handle(logging.LogRecord(__name__, logging.INFO, "", 0, line, None, None))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the base
        """Say once that lines are lost: answers matter more."""
        if not self.failed:
            _say(f"{self.baseFilename} cannot be written: lines of the access log are lost")
        self.failed = True


def _say(words: str) -> None:
    print(f"{_now()} {words}", file=sys.stderr, flush=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def serve(
    folder: str | PathLike[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: HttpLimits | None = None,
    *,
    token: str | None = None,
    access_log: Path | None = None,
) -> None:
    """Serve an export until SIGINT or SIGTERM; requests that are running are finished first.

    When SIGHUP comes, or another export is at ``folder``, it is read beside the old one and takes
    its place.

    Args:
        folder: The export, or a link to it.
        host: Address to listen at.
        port: Port to listen at; 0 for any that is free.
        limits: Limits of one request, and of all at once.
        token: What clients must show to be answered, but for ``/healthz``. (default: nothing)
        access_log: File that gets a line for each answer. (default: none)
    """
    try:
        import uvicorn

        from drgcn.recommend.serving.http import MOST_HEAD, LimitedConnection, build_app
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
        served = ServedExport(folder)
        log = None if access_log is None else AccessLog(access_log)  # made if all else is well
        app = build_app(served, limits, token=token, access_log=log)
        listening.listen(_WAITING)  # who comes from here on waits for uvicorn
        number = listening.getsockname()[1]
        print(f"serving {folder} at http://{host}:{number} (POST /recommend)", flush=True)
        config = uvicorn.Config(
            app,
            http=cast("type[Protocol]", partial(LimitedConnection, limits=limits)),
            h11_max_incomplete_event_size=MOST_HEAD,
            ws="none",
            lifespan="off",
            log_level="error",
            backlog=min(_WAITING, files // 16),  # so many are accepted in a turn of the loop
            timeout_keep_alive=math.ceil(limits.seconds),
            timeout_graceful_shutdown=_LAST_REQUESTS,
        )
        server = uvicorn.Server(config)

        def end(*_: object) -> None:
            server.should_exit = True

        # uvicorn handles the first two while it runs, and then sends them on. One that comes
        # before it runs counts too.
        handlers = {signal.SIGINT: end, signal.SIGTERM: end, signal.SIGHUP: served.ask}
        before = {name: signal.signal(name, handler) for name, handler in handlers.items()}
        gc.freeze()  # a search for garbage among all that is loaded would hold up every answer
        try:
            with served.watched():
                server.run(sockets=[listening])
        finally:
            gc.unfreeze()
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
