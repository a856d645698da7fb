"""`Context`: what a running tool sees and may do. It holds nothing itself; the call behind it does the work.

In an async tool `ask`, `step` and `call` are awaited. A plain function gets a `ThreadContext`, where the same three
return their value directly, since it runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args

import msgspec
from pydantic_core import to_json

from toolcrib.errors import Refused, ToolFailure
from toolcrib.reports import Misuse, check_patch, check_progress
from toolcrib.schema import SchemaError, output_check
from toolcrib.state import Snapshot
from toolcrib.types import Answer, Change, Kind, Result, Resume, Schedule, SideEffect

if TYPE_CHECKING:
    from toolcrib.agent.run_scope import RunView
    from toolcrib.policy import CallPermissions
    from toolcrib.session import Session

T = TypeVar("T")


class Parked(BaseException):
    """Ends the pass of a body that has to wait. Not an `Exception`, so that no tool swallows it by accident."""


class Stopped(BaseException):
    """Raised by `ctx.check()` in a call that was stopped, and by all of a context whose call is another process's.

    Not an `Exception`, so that no tool swallows it by accident.
    """


class MissingDependency(AttributeError, Misuse):
    """A tool wants what the crib was not made with."""


class Deps:
    """What the crib was made with, by type or by name."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._named = dict(values or {})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all dependencies."""
        return tuple(self._named)

    def __getitem__(self, key: type[T] | str) -> Any:
        if isinstance(key, str):
            if key in self._named:
                return self._named[key]
            raise Refused("not_found", f"No dependency named '{key}'", f"known: {', '.join(self._named) or 'none'}")
        matches = [value for value in self._named.values() if isinstance(value, key)]
        if len(matches) == 1:
            return matches[0]
        raise Refused(
            "not_found", f"{len(matches)} dependencies of type {key.__name__}", "pass it to Crib(deps={'name': value})"
        )

    def __contains__(self, key: object) -> bool:
        return key in self._named

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except Refused as error:
            raise MissingDependency(str(error)) from None


class Host(Protocol):
    """The call behind a context."""

    @property
    def stopping(self) -> str | None:
        """Why the call was asked to stop, if it was."""

    @property
    def fenced(self) -> bool:
        """True if another process has the call."""

    @property
    def facts(self) -> dict[str, Any]:
        """The call, its session, owner and agent."""

    @property
    def deps(self) -> Deps:
        """What the crib was made with."""

    def snapshot(self) -> Snapshot:
        """The state when the call started."""

    def heed(self) -> None:
        """End the body here if another process has the call by now, or it is over."""

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Report something that the tool says to whoever follows the call."""

    async def ask(self, question: dict[str, Any]) -> Answer:
        """Return the recorded answer, or end this pass."""

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """Return the recorded value, or a new one after it was recorded."""

    async def child(self, tool: str, args: Any) -> Result:
        """Call another tool, through the whole pipeline."""

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Make a call later; return the id of the schedule."""

    async def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> str:
        """Return the owner's credential of that name."""

    async def authorization(self, name: str, method: str, url: str, refused: str | None = None) -> dict[str, str]:
        """Return the headers of one request for the owner of the session."""

    async def stopped(self) -> None:
        """Wait until the call is asked to stop."""

    @property
    def this_session(self) -> Any:
        """The session of the call."""

    @property
    def permissions(self) -> CallPermissions | None:
        """The permissions of the call."""

    def now(self) -> float:
        """Return the time by the crib's clock."""

    def has_step(self, key: str) -> bool:
        """True if an earlier pass recorded that step."""

    def attach(self, id: str, data: bytes) -> None:
        """Keep bytes beside the log, written with the result."""

    async def drain(self) -> None:
        """Wait while too much of the output is unwritten."""


class OutsideCrib:
    """What a call that no crib runs says of all that only a crib has."""

    this_session: Any = None
    permissions: CallPermissions | None = None

    def now(self) -> float:
        """Return the time of this machine."""
        return time.time()

    def has_step(self, key: str) -> bool:
        """Return False: no earlier pass recorded anything."""
        return False

    async def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> str:
        """Raise, since nobody owns the call."""
        raise ToolFailure("denied", f"There is no credential '{name}': nobody owns this call")

    async def authorization(self, name: str, method: str, url: str, refused: str | None = None) -> dict[str, str]:
        """The credential of that name, as a bearer token."""
        return {"Authorization": f"Bearer {await self.credential(name, refused)}"}

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Raise, since nobody would make the call."""
        raise Refused("unavailable", "No crib runs this tool, so that nobody would make the call")

    def attach(self, id: str, data: bytes) -> None:
        """Drop the bytes, since nobody will read them."""

    async def drain(self) -> None:
        """Return at once, since nothing is written."""


def _fact(name: str, what: str) -> Any:
    def get(self: Context) -> Any:
        return self._host.facts.get(name)

    return property(get, doc=what)


class Context:
    """What a running tool sees: who it runs for, how to report, ask, remember a step, and stop."""

    __slots__ = ("_host",)

    def __init__(self, host: Host) -> None:
        self._host = host

    id: str = _fact("call", "The call's id, the same in every attempt.")
    session: str = _fact("session", "The session's id.")
    owner: str = _fact("owner", "Who the session belongs to.")
    user: Mapping[str, Any] = _fact("user", "What the client said of its user; never a basis for rights.")
    tool: str = _fact("tool", "This tool's id.")
    namespace: str = _fact("namespace", "This tool's namespace.")
    namespaces: tuple[str, ...] = _fact("namespaces", "What is open in the session.")
    agent: str | None = _fact("agent", "The agent that called, if one did.")
    turn: str | None = _fact("turn", "The model turn, if there is one.")
    key: str | None = _fact("key", "The key by which its caller finds the call again, if there is one.")
    parent: str | None = _fact("parent", "The call that made this one, if one did.")
    attempt: int = _fact("attempt", "1, and more after a crash or an answer.")
    deadline: float = _fact("deadline", "When the time is up, in seconds since 1970.")
    run_id: str | None = _fact("run_id", "The run that the call belongs to, if its caller named one.")
    run: RunView | None = _fact("run", "The agent's run, if the call is one of a run.")

    def progress(
        self,
        message: str | None = None,
        progress: float | None = None,
        *,
        loaded: float | None = None,
        total: float | None = None,
        status: str = "running",
    ) -> None:
        """Report how far the tool is; the newest report always arrives, at most ten a second do.

        Raises:
            Misuse: the progress is not from 0 to 1, or there is no such status.
        """
        check_progress(progress, status)
        if progress is None and isinstance(loaded, int | float) and isinstance(total, int | float) and total:
            progress = min(max(loaded / total, 0.0), 1.0)
        fields = {"status": status, "progress": progress, "loaded": loaded, "total": total, "message": message}
        self._host.told("progress", {name: value for name, value in fields.items() if value is not None})

    def output(self, piece: Any) -> None:
        """Stream a piece of output: text is joined with its neighbours, other JSON stands for itself."""
        self._host.told("output", {"delta": piece} if isinstance(piece, str) else {"value": piece})

    def activity(self, type: str, content: Any) -> None:
        """Show an activity in place of what was shown of that type."""
        self._host.told("activity", {"type": type, "content": content})

    def activity_delta(self, type: str, patch: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
        """Change the shown activity by one JSON Patch operation or a list of them.

        Raises:
            Misuse: it is none.
        """
        operations = patch if isinstance(patch, list) else [patch]
        check_patch(operations)
        self._host.told("activity", {"type": type, "patch": operations})

    @property
    def state(self) -> Snapshot:
        """The session's state as it was when the call started; return `changes` to change it."""
        return self._host.snapshot()

    @property
    def deps(self) -> Deps:
        """What the crib was made with."""
        return self._host.deps

    @property
    def cancelled(self) -> bool:
        """True if the call was asked to stop, or another process has it by now."""
        return self._host.stopping is not None or self._host.fenced

    async def wait_cancelled(self) -> None:
        """Wait until the call is asked to stop; return at once if it was."""
        await self._host.stopped()

    def check(self) -> None:
        """End the tool here if the call was asked to stop; for loops in plain functions."""
        self._host.heed()
        if self._host.stopping is not None:
            raise Stopped

    def ask(  # noqa: PLR0913 - the fields of a question
        self,
        prompt: str,
        *,
        kind: Kind = "input",
        schema: Mapping[str, Any] | None = None,
        resume: Resume | None = None,
        data: Any = None,
        key: str | None = None,
        expires_s: float | None = None,
        changes: Sequence[Change | Mapping[str, Any]] = (),
        effects: Sequence[SideEffect | Mapping[str, Any]] = (),
        schedules: Sequence[Schedule | Mapping[str, Any]] = (),
    ) -> Awaitable[Answer]:
        """Asks a person or a client, and waits, for days if need be. The tool then runs again from its start, and this
        returns the recorded answer.

        A decline or cancel ends the call, unless `resume` is `pass_any`: then the tool gets it like any other answer.
        State changes, effects and calls to be made later are written with the question, in one commit, and so once.

        Raises:
            DuplicateQuestion: the same was asked before in this pass.
        """
        beside = {"changes": changes, "effects": effects, "schedules": schedules}
        return self._host.ask(
            {
                "prompt": prompt,
                "kind": kind,
                "schema": schema,
                "resume": resume,
                "data": data,
                "key": key,
                "expires_s": expires_s,
                **{name: list(value) for name, value in beside.items() if value},
            }
        )

    def step(self, key: str, do: Callable[[], Any]) -> Awaitable[Any]:
        """Runs `do` and records its value before returning it; every later pass of this call gets the recorded value.

        Raises:
            DuplicateStep: the key was used before in this pass.
        """
        return self._host.step(key, do)

    def credential(self, name: str, *, refused: str | None = None, scope: str | None = None) -> Awaitable[str]:
        """A key or token of the session's owner, from the crib's `accounts` or `credentials`; the log never shows it.

        An owner who has not connected that account is asked to, and the call waits for it; the tool then runs again
        from its start. `refused` is a token that the service did not take: it is renewed, or the owner is asked to
        connect anew. `scope` names rights that are needed.

        Raises:
            ToolFailure: `denied`, the owner has none of that name.
        """
        return self._host.credential(name, refused, scope)

    def authorization(
        self, name: str, url: str, method: str = "GET", *, refused: str | None = None
    ) -> Awaitable[dict[str, str]]:
        """The headers of one request to a service, for the owner of the session: a bearer token, or one with a proof.

        Raises:
            ToolFailure: `denied`, the owner has no such account.
        """
        return self._host.authorization(name, method, url, refused)

    def call(self, tool: str, args: Any = None) -> Awaitable[Result]:
        """Run another tool of the session, through the whole pipeline, as a child of this call."""
        return self._host.child(tool, args)

    def schedule(self, key: str, schedule: Schedule) -> Awaitable[str]:
        """Make a call of the session later, and return the id of the schedule; `key` names it within this call.

        It is written at once. A later pass of this call with the same key finds it, and has nothing made twice. What is
        to be made only if this call succeeds is returned in `Result(schedules=[...])` instead.

        Raises:
            Refused: it may not be made, or there is no such time or call.
        """
        return self._host.schedule(schedule, key)

    # For toolkits that work on the session itself

    @property
    def this_session(self) -> Session | None:
        """The session as an object, to look at its tools, calls and questions; None where no crib runs the tool."""
        session: Session | None = self._host.this_session
        return session

    @property
    def permissions(self) -> CallPermissions | None:
        """What the policy says of this call, for a tool that finds out on the way where the call leads; None where no
        crib runs the tool.
        """
        return self._host.permissions

    def now(self) -> float:
        """The time in seconds since 1970, by the clock that deadlines and questions go by."""
        return self._host.now()

    def has_step(self, key: str) -> bool:
        """True if an earlier pass of this call recorded that step."""
        return self._host.has_step(key)

    def attach(self, data: bytes) -> str:
        """Keep bytes beside the log and return their id, by which `read_output` and `session.output` read them.

        They are written with the result of the call.
        """
        id = hashlib.sha256(data).hexdigest()
        self._host.attach(id, data)
        return id

    def drain(self) -> Awaitable[None]:
        """Wait while more output is unwritten than the crib's limits allow; for tools that stream a lot."""
        return self._host.drain()


class ThreadContext(Context):
    """The context of a plain function: what would be awaited is waited for, in the function's own thread."""

    __slots__ = ("_wait",)

    def __init__(self, host: Host, wait: Callable[[Awaitable[Any]], Any]) -> None:
        super().__init__(host)
        self._wait = wait

    def ask(self, prompt: str, **question: Any) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().ask(prompt, **question))

    def step(self, key: str, do: Callable[[], Any]) -> Any:
        """As in an async tool, without `await`; `do` runs in a thread too."""
        return self._wait(super().step(key, lambda: _in_thread(do)))

    def credential(self, name: str, *, refused: str | None = None, scope: str | None = None) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().credential(name, refused=refused, scope=scope))

    def authorization(self, name: str, url: str, method: str = "GET", *, refused: str | None = None) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().authorization(name, url, method, refused=refused))

    def call(self, tool: str, args: Any = None) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().call(tool, args))

    def schedule(self, key: str, schedule: Schedule) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().schedule(key, schedule))

    def drain(self) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(super().drain())

    def wait_cancelled(self) -> Any:
        """As in an async tool, without `await`."""
        return self._wait(self._host.stopped())


async def _in_thread(do: Callable[[], Any]) -> Any:
    """A future would not carry all that a function may raise: a `StopIteration` would be lost on the way."""

    def done() -> tuple[Any, BaseException | None]:
        try:
            return do(), None
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            return None, error

    value, error = await asyncio.to_thread(done)
    await asyncio.sleep(0)  # what the function told is heard first
    if error is not None:
        raise error
    return value


def check_question(question: Mapping[str, Any]) -> None:
    """What cannot be asked is the tool's fault, and is told to it at once."""
    for name, known in (("kind", get_args(Kind)), ("resume", (None, *get_args(Resume)))):
        if question[name] not in known:
            raise Misuse(f"{question[name]!r} is no {name} of a question, one of {', '.join(filter(None, known))}")
    if question["schema"] is not None:
        try:
            output_check(question["schema"])
        except SchemaError as error:
            raise Misuse(f"The schema of a question: {error}") from None
    msgspec.json.encode(msgspec.json.decode(to_json(question["data"])))
