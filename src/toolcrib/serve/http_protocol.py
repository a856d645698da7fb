"""The HTTP protocol of uvicorn, with an end to its patience: slow and endless headers, readers who take nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 15.0
HEADERS_BYTES = 64 * 1024
DRAIN_S = 30.0
_UNREADABLE = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
)


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests have to say what they want within a while; bodies are timed where they are read."""

    headers_s = HEADERS_S
    headers_bytes = HEADERS_BYTES
    drain_s = DRAIN_S
    _timer: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _kept = 0
    _leaving = False

    def data_received(self, data: bytes) -> None:
        """Some bytes. What is no body is kept until it is whole; too much of it, also after a body, ends it all."""
        self._kept += len(data)
        super().data_received(data)
        if self._kept > self.headers_bytes and not self.transport.is_closing():
            if self._timer is not None:
                self.send_400_response(f"The headers have more than {self.headers_bytes} bytes.")
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Says what is wrong with a request that cannot be read, as everything else does that is refused."""
        body = msgspec.json.encode({"error": {"code": "invalid_arguments", "message": msg}})
        self.transport.write(_UNREADABLE % len(body) + body)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """A piece of a body, which whoever reads it counts."""
        self._kept = 0
        super().on_body(body)

    def connection_made(self, transport: Any) -> None:
        """A connection on which nothing came yet."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """It says what it wants."""
        self._stop()
        self._kept = 0
        super().on_headers_complete()
        if self._leaving:
            self.cycle.keep_alive = False

    def leave(self) -> None:
        """The server is about to stop: the next response is the last one of this connection, and says so."""
        self._leaving = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._stop()
        self._flows()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What was sent is not taken: who takes nothing for long is cut off, and what is kept for them is freed."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.drain_s, self.transport.abort)

    def resume_writing(self) -> None:
        """It is taken."""
        self._flows()
        super().resume_writing()

    def _flows(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _wait(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(self.headers_s, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
