"""A served crib, and what the tests of its API send to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from tests.serve.place import serving
from toolcrib import Crib
from toolcrib.serve.http import Site

SOON_S = 60


class Sent(NamedTuple):
    """One event of a stream."""

    id: str
    kind: str
    data: Any


class Desk:
    """A client of the API; `key` says who it is."""

    def __init__(self, site: Site, http: httpx.AsyncClient, key: str | None = None) -> None:
        self.site = site
        self.api = site.api
        self.http = http
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def as_(self, key: str | None) -> Desk:
        """The same server for somebody else."""
        return Desk(self.site, self.http, key)

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        given = {} if body is None else {"json": body}
        return await self.http.request(method, f"/v1{path}", headers=headers, **given, **more)

    async def get(self, path: str, **query: Any) -> Any:
        """What a path gives."""
        return good(await self.ask("GET", path, params=query))

    async def post(self, path: str, **body: Any) -> Any:
        """What comes of sending something."""
        return good(await self.ask("POST", path, body))

    async def open(self, id: str | None = None, **body: Any) -> str:
        """A session of one's own."""
        found: str = (await self.post("/sessions", **({} if id is None else {"id": id}), **body))["id"]
        return found

    async def call(self, session: str, tool: str, args: Any = None, **more: Any) -> Any:
        """The result of a call."""
        return await self.post(f"/sessions/{session}/calls", tool=tool, args={} if args is None else args, **more)

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        """The status and the code of a request that is not carried out."""
        answer = await self.ask(method, path, body, **more)
        return answer.status_code, answer.json()["error"]["code"]

    async def comes_to(self, status: int, path: str = "/me") -> None:
        """Returns when a path answers so; nobody tells when it does."""
        async with asyncio.timeout(SOON_S):
            while (await self.ask("GET", path)).status_code != status:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Sent]]:
        """The events of a stream, as they come."""
        wanted = {**self.headers, "Accept": "text/event-stream", **headers}
        async with asyncio.timeout(SOON_S), self.http.stream("GET", f"/v1{path}", headers=wanted) as answer:
            if answer.status_code != 200:
                await answer.aread()
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "text/event-stream"
            yield sent(answer)


async def sent(answer: httpx.Response) -> AsyncIterator[Sent]:
    """The events of an answer."""
    id, kind, data = "", "message", ""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id = value
        elif name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not line and data:
            yield Sent(id, kind, json.loads(data))
            id, kind, data = "", "message", ""


async def until(events: AsyncIterator[Sent], *kinds: str) -> Sent:
    """The next event of one of these kinds."""
    async for event in events:
        if event.kind in kinds:
            return event
    raise AssertionError(f"the stream ended without {kinds}")


def good(answer: httpx.Response) -> Any:
    """What an answer holds that is no error."""
    assert answer.status_code < 300, (answer.status_code, answer.text)
    return answer.json()


@asynccontextmanager
async def desk(crib: Crib, key: str | None = None, **site: Any) -> AsyncIterator[Desk]:
    """A crib that is served until the test is done."""
    async with serving(crib, **site) as place:
        yield Desk(place.site, place.http, key)
