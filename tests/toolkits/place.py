"""What the tests of the toolkits share: a session over a toolkit, and a web server on this machine."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from toolcrib import Crib, Session

EVERYTHING = {"grants": {"allow": ["*"]}}


@asynccontextmanager
async def opened(kit: Any, policy: Any = EVERYTHING, **more: Any) -> AsyncIterator[Session]:
    """A session in which one toolkit is open, and whatever it needs is granted."""
    async with Crib([kit], policy=policy, **more) as crib:
        yield await crib.open("s", owner="ada", namespaces=[kit.name])


async def code(session: Session, tool: str, args: Mapping[str, Any]) -> str | None:
    """The code of a call that fails, None of one that does not."""
    failure = (await session.call(tool, args)).failure
    return None if failure is None else failure.code


class Seen(NamedTuple):
    """A request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Handler = Callable[[Seen], bytes | Awaitable[bytes]]


def reply(body: bytes | str = b"", status: int = 200, **headers: str) -> bytes:
    """The bytes of an answer; `content_type="text/html"` is a header."""
    content = body.encode() if isinstance(body, str) else body
    given = {"content-type": "text/plain", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}", "connection: close"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in given.items()), "", ""]).encode() + content


class Web:
    """A server on loopback that remembers what it was asked."""

    def __init__(self, handler: Handler, port: int) -> None:
        self.handler, self.port = handler, port
        self.seen: list[Seen] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """Its address, by number."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.seen.append(Seen(method, path, headers, body))
            answer = self.handler(self.seen[-1])
            writer.write(answer if isinstance(answer, bytes) else await answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """Leaves nobody waiting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def web(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """A server that answers as the handler says."""
    server = Web(handler, 0)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        try:
            yield server
        finally:
            await server.close()


def names(**known: list[str]) -> Callable[[str, int], Awaitable[list[str]]]:
    """A resolver that knows `a_test=[...]` as a.test, and what is a number already."""

    async def resolve(host: str, port: int) -> list[str]:
        found = known.get(host.replace(".", "_"))
        if found is None and not any(char.isalpha() for char in host.replace(":", "")) and host:
            return [host]
        if found is None and ":" in host:
            return [host]
        if found is None:
            raise OSError("no such name")
        return found

    return resolve
