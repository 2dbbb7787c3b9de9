"""What every request passes through: a limit on its size, and the meter."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from drgcn.recommend.serving.request_meter import RequestMeter

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class BodyTooLarge(Exception):  # noqa: N818 - a state of the request
    """A body went on beyond the limit."""


class MeteredApp:
    """Wraps an ASGI application.

    Args:
        app: The application.
        meter: Where answers are counted.
        most_bytes: The largest body that is read.
    """

    def __init__(self, app: App, meter: RequestMeter, most_bytes: int) -> None:
        self.app, self.meter, self.most_bytes = app, meter, most_bytes

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Passes one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status, read = time.perf_counter(), 0, 0

        async def counting_receive() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most_bytes:
                raise BodyTooLarge
            return message

        async def noting_send(message: Message) -> None:
            nonlocal status
            if read > self.most_bytes and not status:
                return  # what the application makes of a body cut short is not the answer
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            with suppress(BodyTooLarge):
                await self.app(scope, counting_receive, noting_send)
            if read > self.most_bytes and not status:
                status = 413
                await self._refuse(send)
        finally:
            self.meter.count(scope["path"], status or 500, time.perf_counter() - begin)

    async def _refuse(self, send: Send) -> None:
        words = (
            f'{{"detail":"Expected a body of at most {self.most_bytes} bytes; ask for fewer."}}'
        )
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": words.encode()})
