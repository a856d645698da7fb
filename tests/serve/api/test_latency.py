"""What a tool yields is with its readers before it yields more. How soon that is, `make bench` measures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, desk
from toolcrib import Context, Crib, Session, tool

STREAMS, CHUNKS = 50, 10
TAKEN: dict[str, asyncio.Queue[None]] = {}
"""For each session, what its reader has taken."""


@tool(read_only=True)
async def beats(ctx: Context) -> AsyncIterator[int]:
    """Go on when the reader has what was yielded."""
    for number in range(CHUNKS):
        yield number
        await TAKEN[ctx.session].get()


async def _inside(session: Session) -> list[int]:
    """What a reader in the same process gets."""
    call, chunks = await session.submit("beats"), list[int]()
    async for event in session.events(call=call.id):
        if event.kind == "output":
            chunks.append(event.fields["value"])
            TAKEN[session.id].put_nowait(None)
    return chunks


class Reader:
    """A reader of a stream with nothing between it and the socket."""

    def __init__(self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._session = session
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, url: Any, session: Session, after: int) -> Reader:
        """One who follows a session from that event on."""
        made = cls(session, *await asyncio.open_connection(url.host, url.port))
        path = f"/v1/sessions/{session.id}/events?follow=1&after={after}"
        made._writer.write(f"GET {path} HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
        while not (await made._reader.readline()).startswith(b"retry:"):
            pass
        return made

    async def chunks(self) -> list[int]:
        """What it gets until the call is done."""
        chunks: list[int] = []
        while line := await self._reader.readline():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event["kind"] == "output":
                    chunks.append(event["data"]["value"])
                    TAKEN[self._session.id].put_nowait(None)
                elif event["kind"] == "done":
                    break
        self._writer.close()
        await self._writer.wait_closed()
        return chunks


async def _outside(url: Any, sessions: list[Session]) -> list[list[int]]:
    seqs = [row.seq for session in sessions if (row := await session.crib.store.session(session.id)) is not None]
    readers = [await Reader.of(url, session, seq) for session, seq in zip(sessions, seqs, strict=True)]
    reading = [asyncio.ensure_future(reader.chunks()) for reader in readers]
    for session in sessions:
        await session.submit("beats")
    return await asyncio.gather(*reading)


@requirement("aomi.stream.4")
async def test_what_is_yielded_is_with_its_readers_before_the_next_is(tmp_path: Path) -> None:
    crib = Crib([beats], store=f"sqlite:///{tmp_path / 'crib.db'}")
    async with desk(crib) as served, asyncio.timeout(SOON_S):
        sessions = [await crib.open(f"s-{n}", owner="anyone") for n in range(STREAMS)]
        TAKEN.update({session.id: asyncio.Queue() for session in sessions})
        every = [list(range(CHUNKS))] * STREAMS
        assert await asyncio.gather(*map(_inside, sessions)) == every
        assert await _outside(served.http.base_url, sessions) == every
