"""FastAPI application of an export: lists, similar items, why, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from typing import Any, cast

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from drgcn.errors import InputError
from drgcn.recommend.serving.recommender import Recommender
from drgcn.recommend.serving.requests import (
    MOST_ITEMS,
    TOGETHER,
    RecommendRequest,
    RecommendResponse,
    SimilarRequest,
    SimilarResponse,
    WhyRequest,
    WhyResponse,
    answers_together,
)
from drgcn.recommend.serving.server import AccessLog, HttpLimits, RequestMeter, ServedExport
from drgcn.reporting.page import render_html

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Asked = RecommendRequest | SimilarRequest | WhyRequest
Answer = RecommendResponse | SimilarResponse | WhyResponse
_ASKED: dict[str, type[Asked]] = {
    "/recommend": RecommendRequest,
    "/similar": SimilarRequest,
    "/why": WhyRequest,
}
_HEALTH = "/healthz"
_WORKING = 2  # threads that make lists; more requests wait
_PATIENCE = 10.0  # seconds that they wait
_WHOLE = 1 << 53  # up to which floats tell all whole numbers apart
_GONE = 499  # the status of who did not wait for an answer, as nginx counts it
_LAST_BYTES = 1.0  # seconds that a half-sent request or answer has at the end
MOST_HEAD = 1 << 14  # bytes of the line and the headers of a request
_TOLD = 1.0  # seconds that a connection has to be told that it is one too many
_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"
_RETRY = (b"retry-after", b"1")
_JSON = (b"content-type", b"application/json")
_BUSY = "Expected fewer requests at once; ask again in a second."
_BUSY_ANSWER = (
    f"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    f"content-type: text/plain\r\ncontent-length: {len(_BUSY)}\r\n\r\n{_BUSY}"
).encode()


class Refusal(BaseModel):
    """Answer to a request that cannot be answered."""

    detail: str = Field(description="What was expected, and what was found.")


class Health(BaseModel):
    """Answer of ``GET /healthz``: sizes and hashes of the export."""

    status: str
    users: int
    items: int
    model: str
    data: str


class MeteredApp:
    """Wraps an ASGI application: refuses what is beyond limits or without the token, and counts
    and writes down the answers."""

    def __init__(
        self,
        app: App,
        meter: RequestMeter,
        limits: HttpLimits,
        token: str | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self.app, self.meter, self.limits = app, meter, limits
        self.expected = None if token is None else f"Bearer {token}".encode()
        self.access_log = access_log
        self.running = 0
        self.held = 0  # bytes of bodies

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Passes one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def noting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            if fault := _fault_of_head(scope):
                await _send_refusal(noting_send, 400, fault)
            elif not self._is_allowed(scope):
                words = (
                    "Expected the token of this server as a bearer token; found none or another."
                )
                challenge = (b"www-authenticate", b"Bearer")
                await _send_refusal(noting_send, 401, words, challenge)
            elif scope["path"] in _ASKED:
                await self._read_and_pass_on(scope, receive, noting_send)
            else:
                await self.app(scope, receive, noting_send)
        except ClientDisconnect:
            status = status or _GONE
        finally:
            seconds = time.perf_counter() - begin
            self.meter.count(scope["path"], status or 500, seconds)
            if self.access_log is not None:
                self.access_log.add(_access_line(scope, status or 500, seconds))

    def _is_allowed(self, scope: MutableMapping[str, Any]) -> bool:
        if self.expected is None or scope["path"] == _HEALTH:
            return True
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0], self.expected)

    async def _read_and_pass_on(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Read the body, and only then count the request: a slow sender takes no place."""
        too_large = f"Expected a body of at most {self.limits.body} bytes; ask for fewer."
        told = [value for name, value in scope.get("headers", ()) if name == b"content-length"]
        if told and int(told[0]) > self.limits.body:  # also before the client is told to go on
            return await _send_refusal(send, 413, too_large)
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part = message.get("body", b"")
                body += part
                self.held += len(part)
                if len(body) > self.limits.body:
                    return await _send_refusal(send, 413, too_large)
                if self.held > self.limits.body * self.limits.requests:
                    return await _send_refusal(send, 503, _BUSY, _RETRY)
                if not message.get("more_body"):
                    break
            if self.running >= self.limits.requests:
                return await _send_refusal(send, 503, _BUSY, _RETRY)
            self.running += 1
            try:
                await self.app(scope, _already_read(bytes(body), receive), send)
            finally:
                self.running -= 1
        finally:
            self.held -= len(body)


def _already_read(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read, and then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _fault_of_head(scope: MutableMapping[str, Any]) -> str:
    """Return why a request is refused by its head alone; nothing for a sound one."""
    headers = scope.get("headers", ())
    # A proxy in front might believe the other one.
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
        return "Expected one length of the body; found Content-Length and Transfer-Encoding."
    size = sum(len(scope.get(name) or b"") for name in ("method", "raw_path", "query_string"))
    size += sum(len(name) + len(value) + 4 for name, value in headers)
    if size > MOST_HEAD:  # that came in one read; an unfinished one is not waited for
        return f"Expected a line and headers of at most {MOST_HEAD} bytes; found {size}."
    return ""


def _access_line(scope: MutableMapping[str, Any], status: int, seconds: float) -> str:
    """Return who asked for what, and what came of it; without queries, bodies and headers."""
    client = scope.get("client") or ("-",)
    path = bytes(scope.get("raw_path") or b"-").decode("ascii", "backslashreplace")
    return f"{client[0]} {scope.get('method', '-')} {path:.200} {status} {1000 * seconds:.1f} ms"


async def _send_refusal(
    send: Send, status: int, words: str, *headers: tuple[bytes, bytes]
) -> None:
    """Answer without having read the body, and close."""
    await _send_json(send, status, _detail(words), (b"connection", b"close"), *headers)


async def _send_json(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    body = text.encode()
    usual = (_JSON, (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*usual, *headers]})
    await send({"type": "http.response.body", "body": body})


def _detail(words: str) -> str:
    """The text of a refusal; it may quote names that are no proper text."""
    return json.dumps({"detail": words.encode("utf-8", "backslashreplace").decode()})


class _HeldTransport:
    """A transport that sends what is written in one turn of the loop at once, and reads nothing
    more of a client who has sent more than the request that is answered.

    uvicorn writes the head of an answer and its body one after the other. It pauses where too
    much was sent, and goes on as soon as the application asks for the body.

    Args:
        transport: The transport.
        is_answering: Tells whether a whole request waits for its answer.
    """

    def __init__(self, transport: asyncio.Transport, is_answering: Callable[[], bool]) -> None:
        self._transport, self._is_answering = transport, is_answering
        self._parts: list[bytes] = []

    def resume_reading(self) -> None:
        """Go on, unless a whole request waits for its answer."""
        if not (self._is_answering() or self._transport.is_closing()):
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Take note of what is to be sent."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedConnection(H11Protocol):
    """One connection: refused where there are too many, closed where it takes too long.

    While a request is answered, at most one read of what comes after it is held.

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
        held = _HeldTransport(transport, self._is_answering)
        super().connection_made(cast("asyncio.Transport", held))
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
        self.transport.resume_reading()

    def shutdown(self) -> None:
        """Let a request that is whole be answered; others have a moment."""
        super().shutdown()
        if not self._is_answering():
            self._start_clock(_LAST_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    def _refuse(self) -> None:
        self.transport.write(_BUSY_ANSWER)
        self.transport.close()

    def _start_clock(self, seconds: float) -> None:
        if self._clock is not None:
            self._clock.cancel()
        # Not closed: that would wait for a client who does not read.
        self._clock = self.loop.call_later(seconds, self.transport.abort)


@dataclass(eq=False)
class _Waiting:
    """A request whose lists nobody has begun.

    Attributes:
        asked: The request.
        answer: Takes the text of the answer.
    """

    asked: Asked
    answer: asyncio.Future[str]


class _BusyError(Exception):
    """Nobody has begun on a request for long."""


class ListMaker:
    """Makes lists in a few threads; those of requests that wait for a thread by one search."""

    def __init__(self, served: ServedExport, meter: RequestMeter, limits: HttpLimits) -> None:
        self.served, self.meter, self.limits = served, meter, limits
        self._threads = ThreadPoolExecutor(_WORKING)
        self._idle = _WORKING
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()

    async def text(self, asked: Asked) -> str:
        """The answer to a request."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(asked, loop.create_future())
        clock = loop.call_later(_PATIENCE, self._give_up, waiting)
        with self._lock:
            self._waiting.append(waiting)
            is_idle = self._idle > 0
            self._idle -= is_idle
        if is_idle:
            self._threads.submit(self._work)
        try:
            return await waiting.answer
        finally:
            clock.cancel()

    def _give_up(self, waiting: _Waiting) -> None:
        with self._lock:
            if waiting not in self._waiting:
                return
            self._waiting.remove(waiting)
        waiting.answer.set_exception(_BusyError())

    def _work(self) -> None:
        """Answer until nobody waits."""
        while batch := self._take():
            answers: Sequence[str | Exception]
            try:
                answers = self._answers(batch)
            except Exception as error:  # or who waits would wait for ever
                answers = [error] * len(batch)
            answered = [(one.answer, answer) for one, answer in zip(batch, answers, strict=True)]
            for loop, some in groupby(answered, lambda one: one[0].get_loop()):
                with suppress(RuntimeError):  # the loop has ended, and nobody waits
                    loop.call_soon_threadsafe(_deliver, list(some))

    def _take(self) -> list[_Waiting]:
        """Return the request that has waited longest, and others that may go with it."""
        with self._lock:
            self._waiting = deque(one for one in self._waiting if not one.answer.done())
            if not self._waiting:
                self._idle += 1
                return []
            first = self._waiting.popleft()
            batch, users = [first], first.asked.num_lists
            left: deque[_Waiting] = deque()
            for one in self._waiting:
                alike = one.asked.shared is not None and one.asked.shared == first.asked.shared
                if alike and users + one.asked.num_lists <= TOGETHER:
                    batch.append(one)
                    users += one.asked.num_lists
                else:
                    left.append(one)
            self._waiting = left
            return batch

    def _answers(self, batch: list[_Waiting]) -> list[str | Exception]:
        recommender = self.served.recommender
        if len(batch) > 1:
            asked = [one.asked for one in batch if isinstance(one.asked, RecommendRequest)]
            with suppress(Exception):  # by itself, each is told what is wrong with it
                found = answers_together(asked, recommender, self.limits)
                return [self._written(answer) for answer in found]
        return [self._alone(recommender, one.asked) for one in batch]

    def _alone(self, recommender: Recommender, asked: Asked) -> str | Exception:
        try:
            return self._written(asked.answer(recommender, self.limits))
        except Exception as error:  # raised again where the answer is waited for
            return error

    def _written(self, answer: Answer) -> str:
        """The text, which is shorter than what it is made of: an answer may wait to be sent."""
        self.meter.count_lists(answer.num_lists)
        return answer.model_dump_json()


def _deliver(answered: list[tuple[asyncio.Future[str], str | Exception]]) -> None:
    for future, answer in answered:
        if future.done():  # the client has gone
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


class ListApp:
    """ASGI application that answers requests for lists, and leaves others to another.

    FastAPI's way to a function and back would take half of the time of a request.
    """

    def __init__(self, maker: ListMaker, pages: App) -> None:
        self.maker, self.pages = maker, pages

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Answer a request whose body is there as a whole."""
        kind = _ASKED.get(scope["path"])
        if kind is None or scope["method"] != "POST":
            await self.pages(scope, receive, send)
            return
        try:
            asked = read_request(kind, scope["headers"], (await receive())["body"])
            await _send_json(send, 200, await self.maker.text(asked))
        except InputError as error:
            await _send_json(send, 422, _detail(str(error)))
        except _BusyError:
            await _send_json(send, 503, _detail(_BUSY), _RETRY)


def read_request(kind: type[Asked], headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Asked:
    """Read a body of JSON.

    Raises:
        InputError: If it is no request of this kind.
    """
    sent = [value for name, value in headers if name == b"content-type"]
    media = b"".join(sent[:1]).partition(b";")[0].strip().lower()
    if len(sent) != 1 or media != b"application/json":
        found = ascii(b", ".join(sent).decode("latin-1")) if sent else "none"
        raise InputError(f"Expected the content-type application/json; found {found:.80}.")
    try:
        return kind.model_validate(_DECODER.decode(body.decode()))
    except ValidationError as error:
        raise InputError(_sentence(error)) from None
    except UnicodeDecodeError:
        found = "bytes that are no UTF-8"
    except RecursionError:
        found = "lists or objects that are nested too deeply"
    except json.JSONDecodeError as error:
        found = f"{error.msg.lower()} at character {error.pos}"
    except ValueError as error:
        found = str(error)
    raise InputError(f"Expected a body of JSON as /docs describes it; found {found}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a name that is there twice others might read the other value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice in one object")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word}, which JSON does not know")


def _number(text: str) -> float:
    """A number with a point or an exponent; a whole one is a whole number, as in JSON Schema."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= _WHOLE else value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_number
)


def build_app(
    served: ServedExport,
    limits: HttpLimits | None = None,
    *,
    token: str | None = None,
    access_log: AccessLog | None = None,
) -> MeteredApp:
    """Build the application for an export.

    Args:
        served: The export.
        limits: Limits of one request, and of all at once.
        token: What clients must show to be answered, but for ``/healthz``. (default: nothing)
        access_log: Where answers are written down. (default: nowhere)
    """
    limits = limits or HttpLimits()
    # FastAPI's own pages load scripts from elsewhere.
    app = FastAPI(title="drgcn recommend", version=version("drgcn"), docs_url=None, redoc_url=None)
    meter = RequestMeter((*_ASKED, _HEALTH, "/metrics"))
    maker = ListMaker(served, meter, limits)
    closed: dict[int | str, dict[str, Any]] = {} if token is None else {401: {"model": Refusal}}
    refused = dict(closed)
    refused.update((status, {"model": Refusal}) for status in (413, 422, 503))

    # These three are described here, and answered by ListApp.
    @app.post("/recommend", response_model=RecommendResponse, responses=refused)
    async def recommend(asked: RecommendRequest) -> None:
        """The best items of each user or visitor, in scores that are inner products: higher is
        better. Who is not known gets the most clicked items, and the list says so."""

    @app.post("/similar", response_model=SimilarResponse, responses=refused)
    async def similar(asked: SimilarRequest) -> None:
        """The items whose vectors point the same way as those of the items asked for."""

    @app.post("/why", response_model=WhyResponse, responses=refused)
    async def why(asked: WhyRequest) -> None:
        """The items that a user has clicked which speak for an item."""

    @app.get(_HEALTH)
    async def healthz() -> Health:
        """State of the endpoint, and sizes of the export it serves."""
        export = served.export
        return Health(
            status="ok",
            users=export.num_users,
            items=export.num_items,
            model=str(export.manifest.model["sha256"]),
            data=str(export.manifest.data["content_hash"]),
        )

    @app.get("/metrics", response_class=PlainTextResponse, responses=closed)
    async def metrics() -> PlainTextResponse:
        """Counts and times in Prometheus' text form."""
        text = meter.text() + served.metrics()
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = render_html(__package__, "docs.html.jinja", title=app.title, **app.openapi())
        return HTMLResponse(page, headers={"content-security-policy": _NOTHING_ELSE})

    _state_limits(app.openapi(), limits, token is not None)
    return MeteredApp(ListApp(maker, app), meter, limits, token, access_log)


def _state_limits(page: dict[str, Any], limits: HttpLimits, is_closed: bool) -> None:
    """Write into the OpenAPI page what this server allows, and the token it asks for."""
    schemas = page["components"]["schemas"]
    for name, lists in (
        ("RecommendRequest", ("users", "clicked", "attributes")),
        ("SimilarRequest", ("items",)),
    ):
        fields = schemas[name]["properties"]
        facts = {field: {"minItems": 1, "maxItems": limits.batch} for field in lists}
        facts["n"] = {"minimum": 1, "maximum": limits.n}
        facts |= {field: {"maxItems": MOST_ITEMS} for field in ("allow", "deny")}
        for field, bounds in facts.items():
            # The first of two kinds where null is the other.
            fields[field].get("anyOf", [fields[field]])[0].update(bounds)
    busy = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
    for path in _ASKED:
        page["paths"][path]["post"]["responses"]["503"]["headers"] = {"Retry-After": busy}
    if is_closed:
        page["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in (*_ASKED, "/metrics"):
            for method in page["paths"][path].values():
                method["security"] = [{"token": []}]


def _sentence(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the body"
    found = f"; found {first['input']!r:.80}" if "input" in first else ""
    return f"Expected a request as /docs describes it; {place}: {first['msg']}{found}."
