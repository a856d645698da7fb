"""What these tests look at: the log of a session, its questions, and what must not be found in it."""

import json
from typing import Any

from toolcrib import Event, Question, Refused, Result, Session


async def log(session: Session, kind: str | None = None) -> list[Event]:
    """All that the log holds now, or all of one kind."""
    await session.crib.store.flush()
    return [event async for event in session.events(follow=False) if kind in (None, event.kind)]


async def kinds(session: Session) -> list[str]:
    """The kinds of the events of calls, in order."""
    return [event.kind for event in await log(session) if event.call is not None]


async def only(session: Session, kind: str) -> dict[str, Any]:
    """The data of the one event of that kind."""
    (event,) = await log(session, kind)
    return event.fields


async def parked(session: Session, tool: str, args: Any = None, **options: Any) -> Question:
    """Calls a tool that asks, and gives its question."""
    call = await session.submit(tool, args, **options)
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            break
    return next(question for question in await session.questions() if question.call == call.id)


async def next_question(session: Session, before: Question) -> Question:
    """The question that the same call asks after that one."""
    number = int(before.id.rpartition("-")[2])
    async for event in session.events(call=before.call):
        if event.kind == "waiting" and event.fields["question"]["id"] == f"{before.call}-{number + 1}":
            break
    return next(question for question in await session.questions() if question.call == before.call)


async def refusal(work: Any) -> Refused:
    """The refusal that some work ends with."""
    try:
        await work
    except Refused as refused:
        return refused
    raise AssertionError("it was not refused")


def code(result: Result) -> str | None:
    """The code of its failure."""
    return None if result.failure is None else result.failure.code


def message(result: Result) -> str:
    """The message of its failure."""
    assert result.failure is not None
    return result.failure.message


async def whole(session: Session) -> str:
    """Everything that the log says, as one text."""
    return json.dumps([event.fields for event in await log(session)], ensure_ascii=False)


async def unsaid(session: Session, *parts: str) -> bool:
    """Whether none of these is found anywhere in the log."""
    text = await whole(session)
    return not any(part in text for part in parts)
