"""`RemoteCrib`: what a program makes to use the crib of a server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote, urlsplit

import msgspec

from toolcrib.client import codec, streams
from toolcrib.client.codec import Inbox, Listed, RemoteTool
from toolcrib.client.session import RemoteSession
from toolcrib.errors import Refused
from toolcrib.events import SessionDeleted
from toolcrib.keywords import ScheduleKeywords
from toolcrib.store.codec import encode
from toolcrib.types import Answer, Question, ScheduleEntry

if TYPE_CHECKING:
    from toolcrib.client.transport import Key, Transport

PAGE = 1000
END = ""
"""Where a list is over."""


class RemoteCrib:
    """The crib of a server; it opens sessions as `Crib` does.

    More than one address is for several nodes of one cluster: where one is lost, the next goes on. `key` is an API key
    or a token, or a function that gives one that lasts for now. For so many seconds as `patience` it tries again while
    nobody answers, for ever with None. `verify` is what `httpx` takes: an `ssl.SSLContext` for certificates of one's
    own.

    Raises:
        Refused: `invalid_arguments`, an address is none.
    """

    def __init__(self, *urls: str, key: Key | None = None, patience: float | None = 30.0, verify: Any = True) -> None:
        self.urls = tuple(map(_address, urls))
        if not urls:
            raise Refused("invalid_arguments", "A remote crib needs an address", "http://127.0.0.1:8000")
        self._key = key
        self._patience = patience
        self._verify = verify
        self._link: Transport | None = None
        self.me: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"RemoteCrib({', '.join(self.urls)})"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Asks the server who one is; `me` is what it says.

        Raises:
            Refused: `unauthorized` or `denied`, the key is none; `unavailable`, nobody answers.
        """
        from toolcrib.client.transport import Transport

        if self._link is None:
            self._link = Transport(self.urls, self._key, self._patience, self._verify)
            try:
                self.me = (await self._link.ask("GET", "/me")).json()
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Hangs up. What was begun goes on at the server."""
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    @property
    def link(self) -> Transport:
        """The way to the server.

        Raises:
            Refused: `unavailable`, it is closed.
        """
        if self._link is None:
            raise Refused("unavailable", "The remote crib is closed", "use it within `async with`")
        return self._link

    # Sessions

    async def open(
        self,
        id: str | None = None,
        *,
        owner: str | None = None,
        namespaces: Sequence[str] | None = None,
        grants: Mapping[str, Any] | Sequence[str] = (),
    ) -> RemoteSession:
        """Creates a session or restores it. Its owner is whom the key belongs to; `owner` makes sure of that.

        Raises:
            Refused: `invalid_arguments` for a bad id, `denied` for somebody else's or a namespace, `not_found`.
        """
        self._check_owner(owner)
        body: dict[str, Any] = {"id": secrets.token_hex(16) if id is None else id}
        if namespaces is not None:
            body["namespaces"] = list(namespaces)
        if grants:
            body["grants"] = dict(grants) if isinstance(grants, Mapping) else list(grants)
        answer = await self.link.ask("POST", "/sessions", body)
        session = RemoteSession(self, answer.json())
        session.restored = answer.status == 200
        if session.restored:
            await session.refresh()
        return session

    def _check_owner(self, owner: str | None) -> None:
        name = self.me.get("name")
        if self._link is not None and owner not in (None, name):
            raise Refused(
                "denied",
                f"The server knows you as '{name}', not '{owner}'",
                f"leave owner out, or use a key of {owner}",
            )

    async def sessions(
        self, owner: str | None = None, *, limit: int = 100, before: Listed | None = None
    ) -> list[Listed]:
        """Sessions, the last used first; `before`, the last of a page, pages on. Others' are for who looks after all.

        Raises:
            Refused: `invalid_arguments`, `before` is not the last of a page.
        """
        listed: list[Listed] = []
        place = None if before is None else before.next
        if before is not None and place is None:
            raise Refused("invalid_arguments", f"No page ends with session '{before.id}'", "give the last of a page")
        while place != END and len(listed) < limit:
            query = {"owner": owner, "limit": min(PAGE, limit - len(listed)), "after": place}
            page = (await self.link.ask("GET", "/sessions", query=query)).json()
            place = page.get("next", END)
            listed += [codec.listed(one) for one in page["items"]]
        return [*listed[:-1], *(last._replace(next=place) for last in listed[-1:])]

    async def export_session(self, id: str) -> AsyncIterator[bytes]:
        """A session as lines of JSON, with its log, large values and cursors and a checksum; it is not changed.

        Raises:
            Refused: `not_found`.
        """
        answer = await self.link.ask("GET", f"/sessions/{quote(id, safe='')}/export")
        for line in answer.body.splitlines(keepends=True):
            yield line

    async def import_session(
        self, lines: Iterable[bytes], *, id: str | None = None, owner: str | None = None
    ) -> Listed:
        """Makes a session of what was exported; for who looks after the server.

        Raises:
            Refused: `invalid_arguments`, it is damaged; `conflict`, there is a session of that id; `denied`.
        """
        query = {"id": id, "owner": owner}
        return codec.listed((await self.link.ask("POST", "/imports", b"".join(lines), query=query)).json())

    async def delete_session(self, id: str, *, force: bool = False) -> SessionDeleted:
        """Deletes a session with all that is its, and leaves a tombstone; with `force` what runs in it is stopped.

        Raises:
            Refused: `not_found`; `conflict`, calls run in it.
        """
        path = f"/sessions/{quote(id, safe='')}"
        answer = await self.link.ask("DELETE", path, query={"force": "true"} if force else None)
        return msgspec.json.decode(answer.body, type=SessionDeleted)

    async def deleted_sessions(self) -> list[SessionDeleted]:
        """What is left of the sessions that were deleted: one's own, or all for who looks after the server."""
        return msgspec.convert((await self.link.ask("GET", "/tombstones")).json()["items"], list[SessionDeleted])

    async def tool(self, id: str) -> RemoteTool:
        """All of one tool, with its schemas.

        Raises:
            Refused: `not_found`.
        """
        return codec.tool((await self.link.ask("GET", f"/tools/{quote(id, safe='')}")).json())

    # Scheduled calls

    async def schedule(
        self, session: str, tool: str, args: Any = None, **times: Unpack[ScheduleKeywords]
    ) -> ScheduleEntry:
        """Makes a call later in a session, as `Session.schedule` does.

        Raises:
            Refused: as there.
        """
        after, at = times.get("after"), times.get("at")
        settings: dict[str, Any] = {name: value for name, value in times.items() if value is not None}
        settings |= {} if not isinstance(after, timedelta) else {"after": after.total_seconds()}
        settings |= {} if not isinstance(at, datetime) else {"at": at.timestamp()}
        settings.setdefault("key", secrets.token_hex(16))  # so that it is made once, however often it has to be sent
        body = encode({"session": session, "tool": tool, "args": {} if args is None else args, **settings})
        return codec.schedule((await self.link.ask("POST", "/schedules", body)).json())

    async def schedules(self, owner: str | None = None) -> list[ScheduleEntry]:
        """The calls that wait for their time: one's own, or all for who looks after the server."""
        items = (await self.link.ask("GET", "/schedules", query={"owner": owner})).json()["items"]
        return [codec.schedule(one) for one in items]

    async def cancel_schedule(self, id: str) -> bool:
        """Ends a schedule: it makes no more calls. False where it was over.

        Raises:
            Refused: `not_found`.
        """
        answer = await self.link.ask("DELETE", f"/schedules/{quote(id, safe='')}")
        return bool(answer.json()["cancelled"])

    # Questions

    async def questions(self, owner: str | None = None) -> list[Question]:
        """What is open in all sessions and may be answered by who asks, the oldest first."""
        questions, place = list[Question](), None
        while True:
            page = (await self.link.ask("GET", "/questions", query={"owner": owner, "after": place})).json()
            questions += map(codec.question, page["items"])
            place = page.get("next")
            if place is None:
                return sorted(questions, key=lambda one: one.asked_at)

    async def answer(self, question: Question, action: str, value: Any = None, **more: Any) -> Answer:
        """Answers a question of any session, as `RemoteSession.answer` does; of others' where it is put to you.

        Raises:
            Refused: as there.
        """
        whose = RemoteSession(self, {"id": question.session, "owner": ""})
        return await whose.answer(question.id, action, value, **more)

    async def watch_questions(self) -> AsyncIterator[Inbox]:
        """First what is open, then what comes up and goes, each once; follows for as long as somebody reads.

        What came and went while the connection was lost is told in one.
        """
        known: set[str] = set()
        past: set[str] = set()  # of what went while nobody was connected, a stream may tell once more
        async with aclosing(streams.follow(self.link, "/questions/events", dict)) as frames:
            async for frame in frames:
                if frame is streams.OPENED:
                    gone = known - {one.id for one in await self.questions()} if known else set()
                    known, past = known - gone, past | gone
                    for id in gone:
                        yield Inbox("gone", id)
                    continue
                data = msgspec.json.decode(frame.data)
                id = data["id"]
                if frame.kind == "gone" and id in known:
                    known.discard(id)
                    yield Inbox("gone", id)
                elif frame.kind == "asked" and id not in known | past:
                    known.add(id)
                    yield Inbox("asked", id, codec.question(data))


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise Refused("invalid_arguments", "That is no address of a server", "write http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise Refused("invalid_arguments", "An address holds no password", "give the key as `key`")
    return url.rstrip("/").removesuffix("/v1")
