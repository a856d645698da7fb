"""Lanes: the queues that calls come by. A tool with a limit of its own has its own lane; all others share one.

A lane is a durable pull consumer. Its `max_ack_pending` bounds how many of its calls run at once on all machines. Each
worker asks for exactly as many messages as it has free slots, and for more whenever a slot is free again; nothing is
held back, and nothing is taken that cannot start.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.tool import Tool

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

DEFAULT = "default"
LEAVE_S = 1.0
"""How long a lane that becomes quiet waits for what was sent to earlier requests."""

ASK_S = 20.0
"""How long a request for messages stands; asking again in time shows that the consumer is still there."""


def lane_of(tool: Tool | None) -> str:
    """The lane of a tool's calls."""
    if tool is None or tool.limits.concurrency is None:
        return DEFAULT
    return "tool_" + re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}", tool.id)


class Lane:
    """One lane as a worker sees it: what it holds, and what it has requested."""

    def __init__(
        self,
        name: str,
        got: Callable[[Lane, Msg], None],
        lost: Callable[[], None],
        give_back: Callable[[Msg], None],
    ) -> None:
        self.name = name
        self.slots = 0
        self.held = 0
        self._got = got
        self._lost = lost
        self._give_back = give_back
        self._requested = 0
        self._heard = 0.0
        self._inbox = ""
        self._next = ""
        self._client: Client | None = None
        self._answers: Subscription | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._asking = False
        self._quiet = False

    async def open(self, client: Client, stream: str) -> None:
        """Starts to ask for messages; after a reconnection, anew, under another name.

        Earlier requests may still be open at the server, which drops them when nobody listens for the answer. What it
        has sent by then still comes, and is given back at once: the slots are asked for anew.
        """
        answers, self._answers, self._requested = self._answers, None, 0
        if answers is not None:
            leaving = asyncio.get_running_loop().create_task(_drain(answers))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        self._client = client
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{self.name}"
        self._inbox = inbox = client.new_inbox()
        self._answers = await client.subscribe(
            inbox, cb=partial(self._message, inbox), pending_msgs_limit=0, pending_bytes_limit=0
        )
        self.ask()

    async def quiet(self) -> None:
        """Request no more, and withdraw open requests: the server drops those that nobody listens to.

        What the server has sent by then still comes, and is given back at once; it would stay with this worker for the
        time of a lease.
        """
        self._quiet = True
        answers, self._answers, self._requested = self._answers, None, 0
        if answers is not None:
            await _drain(answers)
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=LEAVE_S)

    def free(self) -> None:
        """One of its calls is over here."""
        self.held -= 1
        self.ask()

    def ask(self) -> None:
        """Asks for as many messages as there are free slots, once for all of this round of the loop."""
        if not self._asking and not self._quiet and self._client is not None:
            self._asking = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._asking = False
        wanted = self.slots - self.held - self._requested
        if wanted <= 0 or self._quiet or self._client is None or not self._client.is_connected:
            return
        self._requested += wanted
        self._heard = asyncio.get_running_loop().time()
        asyncio.get_running_loop().create_task(self._request(self._client, wanted))

    async def _request(self, client: Client, wanted: int) -> None:
        body = json.dumps({"batch": wanted, "expires": int(ASK_S * 1e9)}).encode()
        try:
            await client.publish(self._next, body, reply=self._inbox)
        except Exception:  # noqa: BLE001 - not connected now; it is asked again when it is
            self._requested = max(0, self._requested - wanted)

    async def _message(self, inbox: str, msg: Msg) -> None:
        status = msg.headers.get("Status") if msg.headers else None
        if inbox != self._inbox:
            if status is None:
                self._give_back(msg)
            return
        self._heard = asyncio.get_running_loop().time()
        if status is None:
            self._requested = max(0, self._requested - 1)
            self.held += 1
            self._got(self, msg)
            return
        left = int((msg.headers or {}).get("Nats-Pending-Messages", 0))
        self._requested = max(0, self._requested - left) if left else 0
        if status in ("404", "408"):
            self.ask()  # that request's time is over
        else:  # there is no such consumer any more, or the server is about to go
            self._lost()

    def silent(self) -> bool:
        """True if its requests should have been answered long ago."""
        return self._requested > 0 and asyncio.get_running_loop().time() - self._heard > 1.5 * ASK_S


async def _drain(answers: Subscription) -> None:
    """Has the server send no more to a subscription, and returns when all that it has sent was taken."""
    try:
        await answers.drain()  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - not connected, so the server has forgotten it too
        pass
