"""FastAPI application of an export: lists, similar items, why, health and metrics."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any

import torch
from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel
from uvicorn.protocols.http.h11_impl import H11Protocol

from drgcn.errors import InputError
from drgcn.recommend.serving.export_folder import COUNTS, ITEM_ATTRIBUTES, ExportFolder
from drgcn.recommend.serving.recommender import Recommender
from drgcn.recommend.serving.requests import (
    RecommendRequest,
    RecommendResponse,
    SimilarRequest,
    SimilarResponse,
    WhyRequest,
    WhyResponse,
)
from drgcn.recommend.serving.server import HttpLimits

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
_LISTS = ("/recommend", "/similar", "/why")
_WORKING = 4  # requests whose lists are made at once; others wait
_PATIENCE = 10.0  # seconds that they wait
_TOLD = 1.0  # seconds that a connection has to be told that it is one too many
_BUSY = "Expected fewer requests at once; ask again in a second."
_BUSY_ANSWER = (
    f"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    f"content-type: text/plain\r\ncontent-length: {len(_BUSY)}\r\n\r\n{_BUSY}"
).encode()


class Health(BaseModel):
    """Answer of ``GET /healthz``: sizes and hashes of the export."""

    status: str
    users: int
    items: int
    model: str
    data: str


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
        """Takes note of one answer."""
        path = path if path in self.paths else "other"
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds
            for limit in SECONDS:
                if seconds <= limit:
                    self._buckets[path, limit] += 1

    def count_lists(self, number: int) -> None:
        """Takes note of lists that were given."""
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


class BodyTooLarge(Exception):  # noqa: N818 - a state of the request
    """A body went on beyond the limit."""


class MeteredApp:
    """Wraps an ASGI application.

    Args:
        app: The application.
        meter: Where answers are counted.
        limits: The largest body that is read, and the most requests for lists at once.
    """

    def __init__(self, app: App, meter: RequestMeter, limits: HttpLimits) -> None:
        self.app, self.meter, self.limits = app, meter, limits
        self.running = 0

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Passes one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] not in _LISTS:
            await self._pass_on(scope, receive, send)
        elif self.running >= self.limits.requests:
            self.meter.count(scope["path"], 503, 0.0)
            await _send_refusal(send, 503, _BUSY, (b"retry-after", b"1"))
        else:
            self.running += 1
            try:
                await self._pass_on(scope, receive, send)
            finally:
                self.running -= 1

    async def _pass_on(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        begin, status, read = time.perf_counter(), 0, 0
        most_bytes = self.limits.body

        async def counting_receive() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most_bytes:
                raise BodyTooLarge
            return message

        async def noting_send(message: Message) -> None:
            nonlocal status
            if read > most_bytes and not status:
                return  # what the application makes of a body cut short is not the answer
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            with suppress(BodyTooLarge):
                await self.app(scope, counting_receive, noting_send)
            if read > most_bytes and not status:
                status = 413
                words = f"Expected a body of at most {most_bytes} bytes; ask for fewer."
                await _send_refusal(send, status, words)
        finally:
            self.meter.count(scope["path"], status or 500, time.perf_counter() - begin)


async def _send_refusal(
    send: Send, status: int, words: str, *headers: tuple[bytes, bytes]
) -> None:
    """Answer without having read the body, and close."""
    body = json.dumps({"detail": words}).encode()
    usual = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*usual, *headers]})
    await send({"type": "http.response.body", "body": body})


class LimitedConnection(H11Protocol):
    """One connection: refused where there are too many, closed where it takes too long.

    Args:
        limits: The most connections, and the longest time.
        options: Those of uvicorn.
    """

    def __init__(self, *, limits: HttpLimits, **options: Any) -> None:
        super().__init__(**options)
        self.limits = limits
        self.one_too_many = False
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)
        count = len(self.connections)
        self.one_too_many = count > self.limits.connections
        if count > 2 * self.limits.connections:  # too many even to wait for what they ask
            self._refuse()
        self._start_clock(_TOLD if self.one_too_many else self.limits.seconds)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if not self.one_too_many:
            super().data_received(data)
        elif not self.transport.is_closing():
            self._refuse()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._start_clock(self.limits.seconds)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    def _refuse(self) -> None:
        self.transport.write(_BUSY_ANSWER)
        self.transport.close()

    def _start_clock(self, seconds: float) -> None:
        if self._clock is not None:
            self._clock.cancel()
        # Not closed: that would wait for a client who does not read.
        self._clock = self.loop.call_later(seconds, self.transport.abort)


def build_app(export: ExportFolder, limits: HttpLimits | None = None) -> FastAPI:
    """Build the application for an export, all of whose files are read and checked now."""
    limits = limits or HttpLimits()
    recommender = Recommender(export)
    _read_all(export, recommender)
    app = FastAPI(title="drgcn recommend", version=version("drgcn"))
    meter = RequestMeter((*_LISTS, "/healthz", "/metrics"))
    app.add_middleware(MeteredApp, meter=meter, limits=limits)
    working = threading.BoundedSemaphore(_WORKING)

    @app.exception_handler(InputError)
    async def refuse(_: Request, error: InputError) -> JSONResponse:
        return _refusal(str(error))

    @app.exception_handler(RequestValidationError)
    async def refuse_shape(_: Request, error: RequestValidationError) -> JSONResponse:
        return _refusal(_sentence(error))

    def answer(asked: RecommendRequest | SimilarRequest | WhyRequest) -> Response:
        if not working.acquire(timeout=_PATIENCE):
            raise HTTPException(503, _BUSY, {"retry-after": "1"})
        try:
            found = asked.answer(recommender, limits)
            meter.count_lists(found.num_lists)
            # Written here, and not by FastAPI: of those that wait only the text is held.
            return Response(found.model_dump_json(), media_type="application/json")
        finally:
            working.release()

    @app.post("/recommend", response_model=RecommendResponse)
    def recommend(asked: Annotated[RecommendRequest, Body()]) -> Response:
        """The best items of each user or visitor, in scores that are inner products: higher is
        better. Who is not known gets the most clicked items, and the list says so."""
        return answer(asked)

    @app.post("/similar", response_model=SimilarResponse)
    def similar(asked: Annotated[SimilarRequest, Body()]) -> Response:
        """The items whose vectors point the same way as those of the items asked for."""
        return answer(asked)

    @app.post("/why", response_model=WhyResponse)
    def why(asked: Annotated[WhyRequest, Body()]) -> Response:
        """The items that a user has clicked which speak for an item."""
        return answer(asked)

    @app.get("/healthz")
    async def healthz() -> Health:
        """State of the endpoint, and sizes of the export it serves."""
        facts = export.manifest
        return Health(
            status="ok",
            users=export.num_users,
            items=export.num_items,
            model=str(facts.model["sha256"]),
            data=str(facts.data["content_hash"]),
        )

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Counts and times in Prometheus' text form."""
        return PlainTextResponse(meter.text(), media_type="text/plain; version=0.0.4")

    return app


def _read_all(export: ExportFolder, recommender: Recommender) -> None:
    """Read every file, so that a broken one ends the start and not a later request."""
    recommender.for_users(torch.zeros(1, dtype=torch.int64), 1)
    recommender.for_users(torch.zeros(1, dtype=torch.int64), 1, exact=True)
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


def _refusal(sentence: str) -> JSONResponse:
    """The sentence as an answer; it may quote names that are no proper text."""
    proper = sentence.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": proper}, status_code=422)


def _sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    found = f"; found {first['input']!r:.80}" if "input" in first else ""
    return f"Expected a request as /docs describes it; {place}: {first['msg']}{found}."
