"""The workload of one node: clients that call, answer, cancel, log out and send messages, and keep a ledger.

The ledger holds JSON lines: `try` before anything is asked for, `ack` when a call is known to be accepted, `result`
when its outcome is, `gave up` when it was refused and is not asked for again, `left in doubt` the same where nobody
knew whether it was accepted, `sent` with the run that took a message, `closed` when a logout is over.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.witness import append
from toolcrib import Crib, EngineUnavailable, Refused, Result, Session, StoreError, StoreUnavailable

T = TypeVar("T")
SESSIONS = 3
CHATS = 2
SLOT_S = 1.5
"""Two nodes that send the message of one slot send it at about the same time."""

WEIGHTS = {
    "charge": 18,
    "mail": 8,
    "index": 10,
    "peek": 4,
    "order": 16,
    "ship": 12,
    "greet": 8,
    "chore": 4,
    "tally": 10,
    "mark": 4,
    "cancel": 4,
    "logout": 2,
}
RETRIED = ("unavailable", "rate_limited")
GIVE_UP = 0.5
"""How often a client that was refused does not ask again: what it asked for must not happen then."""


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Does it until the store is there."""
    while True:
        try:
            return await ask()
        except (StoreError, EngineUnavailable, OSError):
            await asyncio.sleep(0.2)
        except Refused as error:
            if error.code not in RETRIED:
                raise
            await asyncio.sleep(0.2)


class Client:
    """Everything that one node asks for."""

    def __init__(self, crib: Crib, folder: Path, life: str, seed: int, kinds: list[str]) -> None:
        self._crib = crib
        self._ledger = folder / f"ledger-{life.partition('.')[0]}.jsonl"
        self._life = life
        self._chance = random.Random(f"{seed} {life}")
        self._weights = {kind: weight for kind, weight in WEIGHTS.items() if kind in kinds}
        self._kinds = kinds
        self._count = 0
        self.busy: dict[str, str] = {}
        self.quiet = asyncio.Event()

    def note(self, *words: Any) -> None:
        append(self._ledger, *words)

    async def open(self, id: str) -> Session:
        return await again(lambda: self._crib.open(id, owner="ada"))

    async def run(self, clients: int) -> None:
        """Works until it is told to be quiet, and ends when all that it began has ended."""
        work = [asyncio.ensure_future(self._calls()) for _ in range(clients)]
        if "send" in self._kinds:
            work.append(asyncio.ensure_future(self._messages()))
        await asyncio.gather(*work)

    async def _calls(self) -> None:
        own = self._chance.random() < 0.5  # a session that nobody else opens is nobody's to take up but the store's
        session = await self.open(f"own-{self._life}" if own else f"s{self._chance.randrange(SESSIONS)}")
        while not self.quiet.is_set():
            kind = self._chance.choices(list(self._weights), list(self._weights.values()))[0]
            self._count += 1
            n = f"{self._life}.{self._count}"
            self.busy[n] = kind
            try:
                await self._one(session, kind, n)
            except Refused as error:
                self.note("refused", n, kind, error.code, str(error))
            self.busy.pop(n, None)
            await asyncio.sleep(self._chance.random() * 0.1)

    async def _one(self, session: Session, kind: str, n: str) -> None:
        if kind == "cancel":
            await self._cancel(session, n)
        elif kind == "logout":
            await self._logout(n)
        elif kind in ("charge", "index", "peek") and self._chance.random() < 0.3:
            await self._direct(session, kind, n)
        else:
            target = await self.open("state") if kind in ("tally", "mark") else session
            await self._submit(target, kind, n)

    async def _submit(self, session: Session, tool: str, n: str) -> None:
        self.note("try", n, tool, session.id)
        try:
            call = await session.submit(tool, {"n": n}, key=f"k-{n}")
        except StoreUnavailable as error:
            if self._chance.random() < GIVE_UP:
                self.note("left in doubt" if error.in_doubt else "gave up", n, tool)
                return
            call = await again(lambda: session.submit(tool, {"n": n}, key=f"k-{n}"))
        self.note("ack", n, call.id)
        result = await again(lambda: session.result(call.id))
        self.note("result", n, call.id, *_outcome(result))

    async def _direct(self, session: Session, tool: str, n: str) -> None:
        """One that is told of its outcome and of nothing before."""
        self.note("try", n, tool, session.id)
        while True:
            result = await again(lambda: session.call(tool, {"n": n}, key=f"k-{n}"))
            if result.failure is None or result.failure.code not in RETRIED:
                break
            refused = result.failure.code == "unavailable" and tool != "peek"  # one that only reads may have run
            if refused and self._chance.random() < GIVE_UP:
                self.note("left in doubt" if result.metadata.get("in_doubt") else "gave up", n, tool)
                return
            await asyncio.sleep(0.2)
        self.note("result", n, None, *_outcome(result))

    async def _cancel(self, session: Session, n: str) -> None:
        self.note("try", n, "linger", session.id)
        call = await again(lambda: session.submit("linger", {"n": n}, key=f"k-{n}"))
        self.note("ack", n, call.id)
        await asyncio.sleep(self._chance.random() * 0.5)
        await again(lambda: session.cancel(call.id))
        result = await again(lambda: session.result(call.id))
        self.note("result", n, call.id, *_outcome(result))

    async def _logout(self, n: str) -> None:
        session = await self.open(f"bye-{n}")
        for number, tool in enumerate(("linger", "charge", "linger")):
            name = f"{n}.{number}"
            self.note("try", name, tool, session.id)
            call = await again(lambda tool=tool, name=name: session.submit(tool, {"n": name}, key=f"k-{name}"))  # type: ignore[misc]
            self.note("ack", name, call.id)
        await again(lambda: session.close(timeout=0.5))
        self.note("closed", session.id, time.monotonic())

    async def _messages(self) -> None:
        """Sends the message of each slot, as the other nodes do."""
        chats = [await self.open(f"chat{number}") for number in range(CHATS)]
        sending: set[asyncio.Task[None]] = set()
        while not self.quiet.is_set():
            slot = int(time.monotonic() / SLOT_S)
            text = f"{'pass on' if slot % 3 == 0 else 'write down'} m{slot}"
            task = asyncio.ensure_future(self._send(chats[slot % CHATS], f"m{slot}", text))
            sending.add(task)
            task.add_done_callback(sending.discard)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.quiet.wait(), max(0.0, (slot + 1) * SLOT_S - time.monotonic()))
        await asyncio.gather(*sending)

    async def _send(self, session: Session, key: str, text: str) -> None:
        self.busy[f"{key}@{self._life}"] = "send"
        self.note("say", key, session.id)
        try:
            outcome = await again(lambda: session.send(text, agent="front", key=key))
            self.note("sent", key, outcome.run, outcome.status, outcome.reason)
        except Refused as error:
            self.note("refused", key, "send", error.code, str(error))
        self.busy.pop(f"{key}@{self._life}", None)

    async def answer(self) -> None:
        """Answers what is open, whoever asked; for as long as there is somebody to ask."""
        while True:
            with suppress(StoreError, Refused, OSError):
                for question in await self._crib.questions():
                    session = await self._crib.open(question.session, owner="ada")
                    await session.answer(question.id, "accept", "yes", actor=self._life)
            await asyncio.sleep(0.3)


def _outcome(result: Result) -> tuple[str, Any]:
    if result.failure is None:
        return "ok", result.data
    return result.failure.code, result.failure.message
