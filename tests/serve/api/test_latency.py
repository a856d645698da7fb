"""How soon what a tool yields is with its readers. The machine may be busy: the best of several rounds counts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, desk
from toolcrib import Crib, Session, tool

STREAMS, CHUNKS, ROUNDS = 50, 10, 60


@tool(read_only=True)
async def beats(count: int) -> AsyncIterator[dict[str, Any]]:
    """Tell the time, again and again."""
    for _ in range(count):
        yield {"at": time.perf_counter()}
        await asyncio.sleep(0.03)


async def _inside(session: Session) -> list[float]:
    """The seconds from each yield to a reader in the same process."""
    call = await session.submit("beats", {"count": CHUNKS})
    events = session.events(call=call.id)
    return [time.perf_counter() - one.data["value"]["at"] async for one in events if one.kind == "output"]


class Reader:
    """A reader of a stream with nothing between it and the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, url: Any, session: Session, after: int) -> Reader:
        """One who follows a session from that event on."""
        made = cls(*await asyncio.open_connection(url.host, url.port))
        path = f"/v1/sessions/{session.id}/events?follow=1&after={after}"
        made._writer.write(f"GET {path} HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
        while not (await made._reader.readline()).startswith(b"retry:"):
            pass
        return made

    async def delays(self) -> list[float]:
        """The seconds from each yield to here, until the call is done."""
        found: list[float] = []
        while line := await self._reader.readline():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event["kind"] == "output":
                    found.append(time.perf_counter() - event["data"]["value"]["at"])
                elif event["kind"] == "done":
                    break
        self._writer.close()
        await self._writer.wait_closed()
        return found


async def _outside(url: Any, sessions: list[Session]) -> list[list[float]]:
    seqs = [row.seq for session in sessions if (row := await session.crib.store.session(session.id)) is not None]
    readers = [await Reader.of(url, session, seq) for session, seq in zip(sessions, seqs, strict=True)]
    reading = [asyncio.ensure_future(reader.delays()) for reader in readers]
    for session in sessions:
        await session.submit("beats", {"count": CHUNKS})
    return await asyncio.gather(*reading)


def _p95(times: list[list[float]]) -> float:
    assert all(len(one) == CHUNKS for one in times)
    every = sorted(time for one in times for time in one)
    return every[int(0.95 * len(every))]


@requirement("aomi.stream.4")
async def test_what_is_yielded_is_soon_with_its_readers(tmp_path: Path) -> None:
    crib = Crib([beats], store=f"sqlite:///{tmp_path / 'crib.db'}")
    async with desk(crib) as served, asyncio.timeout(SOON_S):
        sessions = [await crib.open(f"s-{n}", owner="anyone") for n in range(STREAMS)]
        inside = outside = 9.0
        for _ in range(ROUNDS):
            if inside > 0.05:
                inside = min(inside, _p95(await asyncio.gather(*map(_inside, sessions))))
            if outside > 0.15:
                outside = min(outside, _p95(await _outside(served.http.base_url, sessions)))
        assert inside <= 0.05
        assert outside <= 0.15
