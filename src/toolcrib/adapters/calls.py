"""Calls as a framework makes them: looked up by the framework's own ids, followed to a result or a question."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from toolcrib._call.request import CallOptions, CallRequest
from toolcrib.adapters.alarm import alarm_of
from toolcrib.adapters.feed import Feed, following
from toolcrib.events import Event
from toolcrib.origins.passages import origins_of
from toolcrib.policy.default_policy import never_asks
from toolcrib.session import Session
from toolcrib.types import By, Question, Result

SessionChoice = Session | Callable[[str], Session | Awaitable[Session]]
"""A session, or what gives the session of a conversation by the framework's id of it."""

Watch = Callable[[Event], None]
"""What is shown the progress and the output of a call while it is followed."""

_SHOWN = ("progress", "output")

_canonical = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str).encode


def call_key(framework: str, *ids: object, tool: str, arguments: Any) -> str:
    """Return the key of a call: what the framework calls it, bound to its tool and the digest of its arguments.

    The same call of the same conversation has the same key after a restart; another call, or the same with other
    arguments, never has.
    """
    text = _canonical([framework, [None if id is None else str(id) for id in ids], tool, arguments])
    return f"{framework}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def new_key() -> str:
    """Return a key of its own, for a call that nothing names."""
    return secrets.token_hex(16)


async def session_for(choice: SessionChoice, conversation: str | None) -> Session:
    """Return the session of a conversation.

    Raises:
        ValueError: sessions are told apart by conversations, and this one has no id.
    """
    if not callable(choice):
        return choice
    if not conversation:
        raise ValueError("The conversation has no id, so its session cannot be told. Give it one, or one session.")
    session = choice(conversation)
    return await session if inspect.isawaitable(session) else session


@dataclass(frozen=True, slots=True)
class FrameworkCall:
    """One call that a framework makes: the ids that name it there, and who makes it.

    `turn` is the reply of the model that it stands in, and `run` what came of one message to the agent.
    """

    framework: str
    tool: str
    arguments: Any
    ids: tuple[object, ...]
    agent: str | None = None
    turn: str | None = None
    provider_id: str | None = None
    run: str | None = None

    @property
    def key(self) -> str:
        """The key that finds the call again."""
        return call_key(self.framework, *self.ids, tool=self.tool, arguments=self.arguments)


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for somebody, and goes on by itself when the question is answered."""

    call: str
    question: Question

    def __str__(self) -> str:
        return (
            f"The call waits, id {self.call}: {self.question.prompt} It goes on when question {self.question.id} is "
            f"answered, in the console or by `toolcrib answer {self.question.id} accept`. Do not make the call again."
        )

    def payload(self) -> dict[str, Any]:
        """Return what a framework hands to whoever decides. An answer is given to the crib, by the question's id."""
        question = self.question
        origins = origins_of(question.data)
        return {
            **({"origins": origins} if origins else {}),
            "call": self.call,
            "question": question.id,
            "tool": question.tool,
            "kind": question.kind,
            "prompt": question.prompt,
            "arguments": dict(question.arguments),
            "digest": question.digest,
            "expires_at": question.expires_at,
        }


async def make(
    session: Session, wanted: FrameworkCall, key: str | None = None, watch: Watch | None = None
) -> Result | WaitingCall:
    """Make a call, or find it where it was made before, and return its result or what it waits for.

    Whoever cancels this stops the call.
    """
    live = await session._submit(_request(session, wanted, key or wanted.key))
    call = live.id if live.row is None else live.row.id
    try:
        if call == live.id:
            if live.result is None:
                await live.ended(alarm_of(session).waiter())
            if live.result is not None:
                if watch is not None and live.has_output:
                    await _replay(session, call, watch)
                return live.result
        return await follow(session, call, watch)
    except asyncio.CancelledError:
        await asyncio.shield(session.cancel(call))
        raise


def asks(session: Session, wanted: FrameworkCall) -> bool:
    """Return whether the policy asks somebody about a call that is not made yet."""
    tool = session.tool(wanted.tool)
    if tool is not None and tool.renew is None and never_asks(session.policy, tool):
        return False
    admission = session.pipeline.admission.explain(_request(session, wanted, wanted.key))
    return admission.verdict is not None and admission.verdict.effect == "ask"


def _request(session: Session, wanted: FrameworkCall, key: str) -> CallRequest:
    """The call as the session takes it; one of which no run is known is a run of its own."""
    agent = wanted.agent or wanted.framework
    options = CallOptions(
        by=By("agent", agent),
        provider_id=wanted.provider_id,
        key=key,
        turn=wanted.turn,
        foreign_run=wanted.run or key,
        agent=agent,
    )
    return session._request(wanted.tool, wanted.arguments, options)


async def follow(session: Session, call: str, watch: Watch | None = None) -> Result | WaitingCall:
    """Return the result of a call when it is there, or its open question, or that of a call that it made."""
    if call not in session.live and (outcome := await _present(session, call)) is not None:
        return outcome
    async with following(session) as feed:
        try:
            return await _follow(session, call, feed, watch)
        finally:
            feed.forget(call)


async def _follow(session: Session, call: str, feed: Feed, watch: Watch | None) -> Result | WaitingCall:
    events = feed.events(call)
    shown = 0 if watch is None else await _replay(session, call, watch)
    if (outcome := await _present(session, call)) is not None:  # it came to that before the feed began
        return outcome
    while (event := await events.get()) is not None:
        if event.kind == "waiting" and (waiting := await _open_question(session, call)) is not None:
            return waiting
        if event.kind == "done" and event.call == call:
            break
        if watch is not None and event.kind in _SHOWN and event.call == call and event.seq > shown:
            watch(event)
    return await session.result(call)


async def _replay(session: Session, call: str, watch: Watch) -> int:
    """Show what has come of a call so far, and return how far its log was read.

    The store alone looks for its lines: in a turn with many calls, each would read those of all others.
    """
    store = session.crib.store
    await store.flush()
    row = await store.call(call)
    seq = 0 if row is None else row.accepted_seq - 1
    while page := await store.read(session.id, seq, call=call):
        for event in page:
            seq = event.seq
            if event.kind in _SHOWN:
                watch(event)
    return seq


async def _present(session: Session, call: str) -> Result | WaitingCall | None:
    """What has already come of a call."""
    row = await session.crib.store.call(call)
    if row is not None and row.state == "done":
        return await session.result(call)
    return await _open_question(session, call)


async def _open_question(session: Session, call: str) -> WaitingCall | None:
    """The question of a call, or of one that it made, that is open now; what was answered since is not asked again."""
    for question in await session.questions():
        asking: str | None = question.call
        while asking is not None and asking != call:
            row = await session.crib.store.call(asking)
            asking = None if row is None else row.parent
        if asking == call:
            return WaitingCall(call, question)
    return None
