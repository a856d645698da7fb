"""Tools whose bodies stay with their framework: the crib decides and records, the framework runs.

A guarded tool stands in the catalog with its name and schema. When a framework makes a call, it holds the body of that
call ready; where the crib comes to run it and the framework is not there, because somebody approved it meanwhile or the
process died, the call waits until the framework makes the same call again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from toolcrib.adapters.calls import FrameworkCall, WaitingCall, Watch, make
from toolcrib.context import Context
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

_RESUME = "toolcrib.framework-"
"""How the keys of questions begin that the framework itself answers by coming back."""

_held: dict[tuple[str, str], Handler] = {}
_current: ContextVar[Context | None] = ContextVar("toolcrib_current_call", default=None)


class Handler:
    """The body of one call, held by its framework while it makes the call.

    `suspends` are the exceptions by which the framework interrupts a body to run it again later.
    """

    __slots__ = ("run", "suspends", "suspension")

    def __init__(
        self, run: Callable[[Mapping[str, Any]], Awaitable[Any]], suspends: tuple[type[BaseException], ...] = ()
    ) -> None:
        self.run = run
        self.suspends = suspends
        self.suspension: BaseException | None = None

    async def perform(self, context: Context, values: Mapping[str, Any]) -> Any:
        """Run the body with the arguments that were judged."""
        token = _current.set(context)
        try:
            return await self.run(values)
        finally:
            _current.reset(token)


def current_call() -> Context | None:
    """Return the call that the running body belongs to, for `step`, `ask` and `progress`; None outside of a crib."""
    return _current.get()


def guarded_tool(name: str, description: str, schema: Mapping[str, Any], framework: str, **fields: Any) -> Tool:
    """Return the tool that stands in the catalog for one that the framework runs.

    Raises:
        BadTool: something about it does not hold.
    """

    async def run(context: Context, values: Mapping[str, Any]) -> Any:
        handler = _held.get((context.session, context.key or ""))
        if handler is not None:
            try:
                return await handler.perform(context, values)
            except handler.suspends as suspension:
                handler.suspension = suspension
        prompt = f"{framework} runs it when it makes the call again."
        return await context.ask(prompt, kind="external", key=f"{_RESUME}{context.attempt}")

    made: Tool = Tool(
        name=name,
        description=description.strip() or f"The tool {name} of {framework}.",
        input_schema=schema,
        run=run,
        source=framework,
        **fields,
    )
    return made


async def pass_through(
    session: Session, wanted: FrameworkCall, handler: Handler, watch: Watch | None = None
) -> Result | WaitingCall:
    """Make a call whose body the framework holds, and return its result or what it waits for.

    Raises:
        BaseException: what the framework suspended its body with.
    """
    key = wanted.key
    place = (session.id, key)
    _held.setdefault(place, handler)
    try:
        while True:
            outcome = await make(session, wanted, key, watch)
            if isinstance(outcome, Result) or not outcome.question.key.startswith(_RESUME):
                return outcome
            if handler.suspension is not None:
                raise handler.suspension
            await session.answer(outcome.question.id, "accept", actor=f"{wanted.framework} adapter")
    finally:
        if _held.get(place) is handler:
            del _held[place]
