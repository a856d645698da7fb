"""Other processes at the same port: a connection of an older revision is kept by the one that greeted its client.

The id of the connection names that process, and a request that another one took is passed on to it as it came; it is
let in there anew, by its own credentials.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import h11

from toolcrib.serve.asgi import ClientDisconnected, Header, Receive, Scope, Send

_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that are about one connection between two programs."""
_PIECE = 64 * 1024


class McpPeers:
    """The processes of a port, by number; each leaves the private port that it also listens at in a shared folder."""

    def __init__(self, number: int, folder: Path) -> None:
        self.prefix = f"mcp-{number}-"
        self._number = number
        self._folder = folder

    def publish(self, port: int) -> None:
        """Tells the others where this process is reached."""
        written = self._folder / f"{self._number}.new"
        written.write_text(str(port), "utf-8")
        written.rename(self._folder / str(self._number))

    def port_of(self, connection: str) -> int | None:
        """The private port of the process that keeps a connection, if that is another one."""
        number = connection.removeprefix("mcp-").partition("-")[0]
        if not number.isascii() or not number.isdecimal() or int(number) == self._number:
            return None
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / str(int(number))).read_text("utf-8"))
        return None

    async def pass_on(self, port: int, scope: Scope, body: bytes, receive: Receive, send: Send) -> bool:
        """Has another process answer a request; False if that process is gone."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            gone = asyncio.ensure_future(_disconnected(receive))
            relaying = asyncio.ensure_future(_relayed(reader, writer, scope, body, send))
            await asyncio.wait({gone, relaying}, return_when=asyncio.FIRST_COMPLETED)
            for task in (gone, relaying):
                task.cancel()
            await asyncio.wait({gone, relaying})
            if relaying.cancelled():
                raise ClientDisconnected
            relaying.result()
        finally:
            writer.close()
        return True


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _relayed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, scope: Scope, body: bytes, send: Send
) -> None:
    """Sends a request and its body, and then what comes back, piece by piece."""
    wire = h11.Connection(h11.CLIENT)
    target = scope.get("raw_path") or scope["path"].encode()
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    kept = [(name, value) for name, value in scope["headers"] if name not in _HOP and name != b"content-length"]
    headers = [*kept, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    request = h11.Request(method=scope["method"], target=target, headers=headers)
    writer.write(
        (wire.send(request) or b"") + (wire.send(h11.Data(body)) or b"") + (wire.send(h11.EndOfMessage()) or b"")
    )
    await writer.drain()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(_PIECE))
        elif isinstance(event, h11.Response):
            answered: list[Header] = [(name, value) for name, value in event.headers if name not in _HOP]
            await send({"type": "http.response.start", "status": event.status_code, "headers": answered})
        elif isinstance(event, h11.Data):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        elif isinstance(event, h11.EndOfMessage):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        else:
            raise ConnectionError("the process that keeps the connection is gone")
