"""Judges what a coding agent is about to do: each act is a call of a client tool, in a session of the conversation."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import Any

from toolcrib.adapters.calls import WaitingCall, follow
from toolcrib.crib import Crib
from toolcrib.errors import Refused
from toolcrib.guard.hook import AgentAct, HookEvent, Judgement, strictest
from toolcrib.session import Session
from toolcrib.sources.coding_agents import TOOLS
from toolcrib.store.shared import SharedStore
from toolcrib.types import By, Question, Result

_ODD = re.compile(r"[^A-Za-z0-9._:-]")
_NAMES = {str(tool["name"]) for tool in TOOLS}


class GuardCrib(Crib):
    """A crib that judges and records, and has no tool of its own: calls that others left are left to others."""

    async def _begin(self) -> None:
        await self.registry.start(self.pipeline.aside, self.patience, at_once=True)
        self.store.own_changed = self._session_table.changed_elsewhere
        if isinstance(self.store, SharedStore):
            self.store.in_use = lambda session: self._session_table.at_hand(session) is not None


class Judge:
    """Answers the hooks of all conversations of one owner.

    `waits` is for how many seconds an act that asks waits for an answer in the inbox before the hook is answered.
    """

    def __init__(self, crib: Crib, owner: str) -> None:
        self._crib, self._owner = crib, owner

    async def answer(self, event: HookEvent, waits: float = 0.0) -> Judgement:
        """Return the judgement on a hook; what is told of the past is logged.

        Raises:
            ToolcribError: the store cannot be used.
        """
        session = await self._session(event)
        if event.phase in ("before", "permission"):
            return await self._judged(session, event, waits)
        if event.phase == "after":
            for act in event.acts:
                await self._settle(session, event, act)
            await session.notice(f"{event.client} ran {event.tool}", **_details(event))
        elif event.phase == "end":
            for question in await session.questions():
                await session.cancel(question.call)
        return Judgement("defer")

    async def _session(self, event: HookEvent) -> Session:
        id = f"guard.{event.client}.{_ODD.sub('-', event.session)[:200] or 'none'}"
        session = await self._crib.open(id, owner=self._owner, namespaces=())
        if not {tool.name for tool in session.client_tools} >= _NAMES:
            await session.offer(TOOLS)
        return session

    async def _judged(self, session: Session, event: HookEvent, waits: float) -> Judgement:
        if not event.acts:
            await session.notice(f"{event.tool} is left to {event.client}", **_details(event))
            return Judgement("defer", f"{event.tool} is left to {event.client}")
        return strictest([await self._act(session, event, act, waits) for act in event.acts])

    async def _act(self, session: Session, event: HookEvent, act: AgentAct, waits: float) -> Judgement:
        pending = await self._pending(session, act)
        if pending is None:
            call = await session.submit(
                f"client.{act.tool}",
                act.arguments,
                by=By("agent", event.client),
                agent=event.client,
                provider_id=event.id,
            )
            outcome = await follow(session, call.id)
            if isinstance(outcome, Result):
                return _refused(outcome)
            pending = outcome.question
        if pending.kind == "client":
            return await self._let(session, event, pending)
        if waits > 0:
            return await self._waited(session, event, pending, waits)
        return _ask(pending)

    async def _pending(self, session: Session, act: AgentAct) -> Question | None:
        """Return the open question about the same act, or the approval that nobody used yet.

        An approval is worth nothing where the policy denies the act by now.
        """
        for question in await session.questions():
            if question.tool == f"client.{act.tool}" and dict(question.arguments) == act.arguments:
                if session.why(question.tool, act.arguments).verdict.effect == "deny":
                    await session.cancel(question.call)
                    continue
                return question
        return None

    async def _let(self, session: Session, event: HookEvent, question: Question) -> Judgement:
        """Record that the client runs it now; of several hooks that find one approval, one uses it."""
        value = {"decision": "allow", "hook": event.id or secrets.token_hex(4)}
        try:
            await session.answer(question.id, "accept", value, actor=session.owner, reason=f"{event.client} runs it")
        except Refused:
            return Judgement("deny", "Another call used this approval; make the call again.")
        await session.result(question.call)
        return Judgement("allow", "the policy of the crib allows it")

    async def _waited(self, session: Session, event: HookEvent, question: Question, seconds: float) -> Judgement:
        """Wait until somebody answers in the inbox, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                async for seen in session.events(call=question.call):
                    if seen.kind in ("answered", "done", "waiting"):
                        outcome = await _now(session, question)
                        if isinstance(outcome, Result):
                            return _refused(outcome)
                        if outcome is not None:
                            return await self._let(session, event, outcome.question)
        except TimeoutError:
            pass
        return _ask(question)

    async def _settle(self, session: Session, event: HookEvent, act: AgentAct) -> None:
        """Record that a person said yes in the client itself; where others have to agree, the question stays."""
        pending = await self._pending(session, act)
        try:
            if pending is not None and pending.kind == "confirm":
                reason = f"approved in {event.client}"
                await session.answer(pending.id, "accept", actor=session.owner, reason=reason)
                outcome = await _now(session, pending)
                pending = outcome.question if isinstance(outcome, WaitingCall) else None
        except Refused:
            return
        if pending is not None and pending.kind == "client":
            await self._let(session, event, pending)


async def _now(session: Session, question: Question) -> Result | WaitingCall | None:
    """What became of a call whose question was answered; None while it is open."""
    if any(one.id == question.id for one in await session.questions()):
        return None
    return await follow(session, question.call)


def _refused(result: Result) -> Judgement:
    failure = result.failure
    if failure is None:
        return Judgement("allow", "it was approved")
    return Judgement("deny", " ".join(filter(None, (failure.message, failure.hint))))


def _ask(question: Question) -> Judgement:
    """Ask; where certain people have to agree, the person at the client alone is not enough."""
    how = f"Answer in the console, or by: toolcrib answer {question.id} accept. Then the same call may be made again."
    if question.demands:
        return Judgement("deny", f"{question.prompt} Others have to agree first. {how}", question.id)
    return Judgement("ask", f"{question.prompt} {how}", question.id)


def _details(event: HookEvent) -> Mapping[str, Any]:
    return {"hook": event.name, "id": event.id, **event.details}
