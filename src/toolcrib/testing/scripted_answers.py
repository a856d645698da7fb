"""Scripted answers: somebody who sits at a session and answers what its calls ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from toolcrib._call.history import question_of
from toolcrib.errors import Refused
from toolcrib.keywords import AnswerKeywords
from toolcrib.session import Session
from toolcrib.testing.script import Reply, Script
from toolcrib.types import Answer, Question


class Answers:
    """Answers the questions of a session while it is entered, those that were open before too.

    A question is looked up by its key, its prompt, the id and the name of its tool, and its kind, in this order. One
    that the script does not know is cancelled, so that no test waits for ever, or left alone with `rest="leave"`;
    either way leaving the block fails and names it. `given` and `unscripted` can be looked at at any time.
    """

    def __init__(
        self, session: Session, script: Mapping[str, Any], *, rest: Literal["cancel", "leave"] = "cancel"
    ) -> None:
        self.given: list[Answer] = []
        self.unscripted: list[Question] = []
        self.refused: list[str] = []
        self._session = session
        self._script = Script(script)
        self._rest = rest
        self._seen: set[str] = set()
        # An answer that has begun is brought to its end, or the call would be left between two states.
        self._busy = asyncio.Lock()

    async def __aenter__(self) -> Answers:
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        async with self._busy:
            self._following.cancel()
        (ended,) = await asyncio.gather(self._following, return_exceptions=True)
        if error is not None:
            return
        if isinstance(ended, Exception):
            raise ended
        if not self._session.crib.ending:
            for question in await self._session.questions():
                await self._take(question)
        self._report()

    async def _follow(self) -> None:
        async for event in self._session.events():
            if event.kind == "waiting":
                async with self._busy:
                    await self._take(question_of(event))

    async def _take(self, question: Question) -> None:
        if question.id in self._seen or question.id not in {one.id for one in await self._session.questions()}:
            return
        self._seen.add(question.id)
        names = (question.key, question.prompt, question.tool, question.tool.partition(".")[2], question.kind)
        reply = self._script.reply(*names)
        if reply is not None:
            await self._answer(question, reply)
            return
        self.unscripted.append(question)
        if self._rest == "cancel":
            await self._answer(question, Reply("cancel", reason=f"Nobody scripted an answer to: {question.prompt}"))

    async def _answer(self, question: Question, reply: Reply) -> None:
        more: AnswerKeywords = {"arguments": reply.arguments, "reason": reply.reason, "actor": reply.actor}
        try:
            self.given.append(await self._session.answer(question.id, reply.action, reply.value, **more))
        except Refused as error:
            if error.code in ("already_answered", "expired"):
                return
            self.refused.append(f"{question.prompt!r}: {error}")
            await self._session.answer(question.id, "cancel", reason=f"The scripted answer was refused: {error}")

    def _report(self) -> None:
        lines = [f"nobody scripted {one.prompt!r} of {one.tool} ({one.kind}, key {one.key})" for one in self.unscripted]
        lines += [f"refused was the answer to {one}" for one in self.refused]
        if lines:
            raise AssertionError("; ".join([*lines, f"scripted: {self._script!r}"]))


def answers(session: Session, script: Mapping[str, Any], *, rest: Literal["cancel", "leave"] = "cancel") -> Answers:
    """Somebody who answers by this script: `async with answers(session, {"shop.refund": "accept"}):`."""
    return Answers(session, script, rest=rest)
