"""Tools that the client runs: a call of one waits at the server for what comes out of it here."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.client import codec
from toolcrib.errors import Refused
from toolcrib.types import Question

if TYPE_CHECKING:
    from toolcrib.client.session import RemoteSession

log = logging.getLogger("toolcrib.client")

Bodies = Mapping[str, Callable[..., Any]]


async def serve(session: RemoteSession, bodies: Bodies) -> None:
    """Runs the body of each call that waits for one, and answers with what it gives."""
    begun: set[str] = set()
    seq = (await session.crib.link.ask("GET", f"/sessions/{session.id}")).json()["seq"]
    running: set[asyncio.Task[None]] = set()

    def begin(question: Question) -> None:
        body = bodies.get(question.tool) or bodies.get(question.tool.rpartition(".")[2])
        if question.kind == "client" and body is not None and question.id not in begun:
            begun.add(question.id)
            task = asyncio.ensure_future(_run(session, question, body))
            running.add(task)
            task.add_done_callback(running.discard)

    try:
        for question in await session.questions():
            begin(question)
        async for event in session.events(after=seq):
            if event.kind == "waiting":
                begin(codec.question(event.fields["question"]))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _run(session: RemoteSession, question: Question, body: Callable[..., Any]) -> None:
    try:
        value = body(**question.arguments)
        value = await value if inspect.isawaitable(value) else value
    except Exception as error:  # noqa: BLE001 - what a body raises fails its call
        data: dict[str, Any] = {"action": "fail", "reason": f"{type(error).__name__}: {error}"}
    else:
        data = {"action": "accept", "value": value}
    try:
        await session.answer(question.id, **data, key=f"client:{question.id}")
    except Refused as refused:  # it was cancelled meanwhile, or somebody else has answered
        log.warning("call %s of %s was not answered: %s", question.call, question.tool, refused)
