"""What stands behind the context of a call in a crib: questions, steps, calls of its own, credentials, output.

There is one for a call, made when its body first wants a context. A body that runs again begins with the same steps.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from toolcrib._call import lifecycle
from toolcrib._call.credentials import connect_question, find_credential, find_token
from toolcrib.context import Context, Deps, Parked, ThreadContext, check_question
from toolcrib.errors import DuplicateQuestion, DuplicateStep, ToolFailure
from toolcrib.events import UNSET, StepFailure, StepTaken
from toolcrib.policy import CallPermissions
from toolcrib.schema.redaction import without
from toolcrib.state import Snapshot
from toolcrib.store import draft
from toolcrib.store.codec import decode, encode
from toolcrib.types import Answer, Result, Schedule

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.ports import SessionPort
    from toolcrib.accounts import Accounts, ServiceToken
    from toolcrib.tool import Tool

ASKED = 5
"""How often the owner of a call is asked to connect one account for it."""


class CallHost:
    """The call behind a context."""

    def __init__(self, live: LiveCall) -> None:
        self.live = live
        self._output = live.output  # made here, in the loop: several threads may tell something at once
        self.excused: Callable[[], Awaitable[bool]] | None = None
        """Says whether the time that passes now counts for its timeout; a child that waits for somebody excuses it."""

        self.behind: Sequence[str] | None = None
        """The calls that it waits for, where it was let go until one of them ends."""

        self._earlier: list[History] | None = None
        self._facts: dict[str, Any] | None = None
        self._asked: set[str] = set()
        self._stepped: set[str] = set()
        self._steps: dict[str, StepTaken] | None = None
        self._stop_waiter: asyncio.Future[None] | None = None

    def context(self, tool: Tool) -> Context:
        """What the body sees."""
        if tool.mode in ("async", "stream"):
            return Context(self)
        return ThreadContext(self, self._wait_in_thread)

    def _wait_in_thread(self, work: Any) -> Any:
        async def waited() -> Any:
            try:
                return True, await work
            except BaseException as signal:  # noqa: BLE001 - handed to the thread; a `SystemExit` here would end the loop
                return False, signal

        ok, value = asyncio.run_coroutine_threadsafe(waited(), self.live.pipeline.loop).result()
        if not ok:
            raise value
        return value

    def again(self) -> None:
        """The body runs from its start once more."""
        self._facts = None
        self._asked.clear()
        self._stepped.clear()

    # Who and where

    @property
    def facts(self) -> dict[str, Any]:
        """Who and where, as the body sees it."""
        if self._facts is None:
            live = self.live
            assert live.tool is not None
            attempt = 1 if live.row is None else max(1, live.row.attempt)
            self._facts = live.request.facts(live.tool, attempt, live.started_at + live.timeout_s)
            if live.scope is not None:
                self._facts["run"] = live.scope.run(live)
        return self._facts

    @property
    def deps(self) -> Deps:
        """What the crib was made with."""
        return self.live.pipeline.deps

    @property
    def this_session(self) -> SessionPort:
        """The session of the call."""
        return self.live.session

    @property
    def permissions(self) -> CallPermissions:
        """What the policy says of the call."""
        live = self.live
        assert live.tool is not None
        return CallPermissions(live.policy, live.request.subject(), live.session.folders, live.tool, live.normalised())

    def snapshot(self) -> Snapshot:
        """The state when this pass started."""
        return self.live.snapshot()

    def now(self) -> float:
        """The time by the crib's clock."""
        return self.live.pipeline.clock.now()

    # What ends it

    @property
    def stopping(self) -> str | None:
        """Why the call was asked to stop, if it was."""
        return self.live.stopping

    @property
    def fenced(self) -> bool:
        """True if another process has the call."""
        return self.live.fenced

    def heed(self) -> None:
        """Ends the body here if its call is another process's by now, or is over."""
        self.live.heed()

    async def stopped(self) -> None:
        """Returns when the call is asked to stop."""
        if self.live.stopping is None and not self.live.fenced:
            if self._stop_waiter is None:
                self._stop_waiter = self.live.pipeline.loop.create_future()
            await asyncio.shield(self._stop_waiter)

    def warn(self) -> None:
        """Lets a body go on that waits to be stopped."""
        if self._stop_waiter is not None and not self._stop_waiter.done():
            self._stop_waiter.set_result(None)

    # What it does

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """The tool has something to tell its readers."""
        self._output.told(kind, data)

    async def drain(self) -> None:
        """Returns when little enough of the output is still unwritten."""
        await self._output.room()

    def attach(self, id: str, data: bytes) -> None:
        """Keeps bytes beside the log, written with the result."""
        self.live.attach(id, data)

    async def ask(self, question: dict[str, Any]) -> Answer:
        """The recorded answer, or the end of this pass."""
        live = self.live
        await live.meet()
        check_question(question)
        key = question["key"]
        if key is None:
            what = [question["kind"], question["prompt"], question["schema"]]
            key = hashlib.sha256(encode(what)).hexdigest()[:32]
            if key in self._asked:
                raise DuplicateQuestion(
                    f"Asked twice in one pass: {question['prompt']!r}. Give each question its own key."
                )
            self._asked.add(key)
        answers = live.history.answers if live.history is not None else {}
        if key in answers:
            return answers[key]
        live.wait_for({**question, "key": key})
        raise Parked

    def has_step(self, key: str) -> bool:
        """True if an earlier pass recorded that step."""
        return self.live.history is not None and key in self.live.history.steps

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """The recorded value, or a new one that is durable before the body sees it."""
        live = self.live
        await live.meet()
        if key in self._stepped:
            raise DuplicateStep(f"Step '{key}' was used twice in one pass. Give each step its own key.")
        self._stepped.add(key)
        if self._steps is None:
            self._steps = {} if live.history is None else live.history.steps
        recorded = self._steps.get(key)
        if recorded is None:
            recorded = self._steps[key] = await self._take_step(key, do)
        if (failure := recorded.failure) is not None:
            more: dict[str, Any] = {"retryable": failure.retryable, "hint": failure.hint, "reason": failure.reason}
            raise ToolFailure(failure.code, failure.message, **more)
        if recorded.kept is not None:
            return decode(await live.pipeline.vault.kept(live.session_id, recorded.kept) or b"null")
        return None if recorded.value is UNSET else recorded.value

    async def _take_step(self, key: str, do: Callable[[], Any]) -> StepTaken:
        live = self.live
        try:
            value = do()
            if inspect.isawaitable(value):
                value = await value
            data = await self._kept_step(key, decode(to_json(value)))
        except ToolFailure as error:
            hint = error.hint and live.masked(error.hint)
            reason = error.reason and live.masked(error.reason)
            failure = StepFailure(error.code, live.masked(error.message), error.retryable, hint, reason)
            data = StepTaken(key, failure=failure)
        live.pipeline.begin_behind(live)
        self._output.flush_text()
        assert live.row is not None
        step = draft(live.pipeline.clock.now(), live.id, data)
        conflict = await live.pipeline.durably(live, lifecycle.report(live.row, [step]))
        if conflict is not None:
            live.refused(conflict)
            live.heed()
        return data

    async def _kept_step(self, key: str, value: Any) -> StepTaken:
        """A value that tells a secret is kept beside the log, which shows it masked."""
        live = self.live
        shown = without(live.secrets, value) if live.secrets else value
        if shown == value:
            return StepTaken(key, value)
        attempt = 1 if live.row is None else live.row.attempt  # what a pass writes that was fenced is not for the next
        return StepTaken(key, shown, await live.keep_secret(f"step:{attempt}:{key}", encode(value)))

    async def child(self, tool: str, args: Any) -> Result:
        """Another tool, through the whole pipeline."""
        await self.live.meet()
        return await self.live.session._call_child(self, tool, args)

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Makes a call later, once for that key."""
        await self.live.meet()
        return await self.live.session._schedule_for(self.live, wanted, key)

    async def earlier_children(self, read: Callable[[], Awaitable[list[History]]]) -> list[History]:
        """The calls that earlier passes made and this one has not made again yet."""
        if self._earlier is None:
            made = await read()
            if self._earlier is None:  # another child may have brought them meanwhile
                self._earlier = made
        return self._earlier

    async def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> str:
        """What the owner of the session brings under that name; where they have to connect it first, they are asked."""
        live = self.live
        await live.meet()
        accounts = live.pipeline.accounts
        if accounts is not None and name in accounts:
            return (await self._account(accounts, name, refused, scope)).value
        value = await find_credential(live.pipeline.credentials, live.session.owner, name)
        live.learn_secret(value)
        return value

    async def authorization(self, name: str, method: str, url: str, refused: str | None = None) -> dict[str, str]:
        """The headers by which one request is made for the owner of the session."""
        live = self.live
        await live.meet()
        accounts = live.pipeline.accounts
        if accounts is None or name not in accounts:
            return {"Authorization": f"Bearer {await self.credential(name)}"}
        headers = (await self._account(accounts, name, refused, None)).headers(method, url)
        for value in headers.values():
            live.learn_secret(value)
        return headers

    async def _account(self, accounts: Accounts, name: str, refused: str | None, scope: str | None) -> ServiceToken:
        live, owner = self.live, self.live.session.owner
        token = await find_token(accounts, owner, name, refused)
        if token is None or (scope is not None and not await accounts.fits(owner, name, scope)):
            answers = live.history.answers if live.history is not None else {}
            times = sum(key.startswith(f"account:{name}:") for key in answers)
            if times >= ASKED:
                raise ToolFailure("denied", f"{name} was connected {times} times, and still lets nobody in")
            await self.ask(connect_question(accounts, name, f"account:{name}:{times + 1}", scope))
            raise Parked
        live.learn_secret(token.value)
        return token
