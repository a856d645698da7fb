"""The first four stages of a call, in their fixed order: find, authorize, validate, decide; and the rates after them.

Each gives a `Failure` or nothing. What a tool or a policy raises here is noted in the trace and ends this call alone.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import secrets
import traceback
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from toolcrib._call import records
from toolcrib._call.live_call import LiveCall
from toolcrib._call.scheduler import Clock, SystemClock
from toolcrib.catalog import Catalog
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.policy import Policy, UnfitArgument, Verdict, rules_of
from toolcrib.schema import BadArguments, nearest
from toolcrib.schema.redaction import suspect
from toolcrib.store import Store
from toolcrib.store.codec import decode, encode, whole
from toolcrib.tool import Tool, digest_of
from toolcrib.types import CribLimits, Failure, pace

if TYPE_CHECKING:
    from toolcrib.policy.presets import Preset

trace = logging.getLogger("toolcrib.trace")


class AgentSubject(NamedTuple):
    """A session as a policy sees it when an agent calls."""

    id: str
    owner: str
    namespaces: tuple[str, ...]
    folders: Any
    agent: str


def asker(live: LiveCall) -> Any:
    """Who asks: the session, or an agent in it."""
    session = live.session
    if live.agent is None:
        return session
    return AgentSubject(session.id, session.owner, session.namespaces, session.folders, live.agent)


def confirm(live: LiveCall) -> dict[str, Any]:
    """What the policy wants to be asked, with what "allow for this session" would add."""
    rules, tool = rules_of(live.policy), live.tool
    assert tool is not None
    offer = None if rules is None else rules.offer(asker(live), tool, live.normalised)
    return {**records.confirm(live), "offer": offer}


class Checks:
    """What is asked of a call before it runs."""

    catalog: Catalog
    policy: Policy
    limits: CribLimits
    store: Store
    clock: Clock

    @cached_property
    def preset(self) -> Preset | None:
        """The preset that the policy begins with, for its limits."""
        name = getattr(self.policy, "preset", None)
        if name in (None, "developer"):
            return None
        from toolcrib.policy.presets import PRESETS

        return PRESETS[name]

    @property
    def _per_turn(self) -> int:
        """Calls of one model turn."""
        most = None if self.preset is None else self.preset.calls_per_turn
        return self.limits.per_turn if most is None else min(most, self.limits.per_turn)

    # 1. find

    def find(self, live: LiveCall) -> Failure | None:
        """The tool of that name, among those the session may see."""
        tool = live.session.tool(live.name) if live.run is None else live.named()
        if tool is not None and tool.renew is not None:
            tool.renew()  # its source tells the catalog at once, which knows more of a tool than its source does
            tool = live.named()
        if tool is None:
            return self.missing(live)
        live.tool = tool
        live.tool_id = tool.id
        limits = tool.limits
        most = limits.timeout_s or self.limits.timeout_s
        if self.preset is not None and self.preset.max_runtime_s is not None:
            most = min(most, self.preset.max_runtime_s)
        live.timeout_s = min(live.timeout_s, most) if live.timeout_s else most
        if (tool.serial or limits.concurrency is not None) and not live.within(tool):
            live.concurrency, live.serial = limits.concurrency, tool.serial
        if tool.background and not live.foreground and not live.background:
            live.to_background()
        return None

    def missing(self, live: LiveCall) -> Failure:
        """Why the session has no such tool: the name is ambiguous, its namespace is closed, or nobody knows it."""
        view = live.session.view
        live.name = whole(live.name)
        if live.name in view.ambiguous:
            names = ", ".join(view.ambiguous[live.name])
            return live.failure("invalid_arguments", f"'{live.name}' is ambiguous; say which: {names}")
        closed = self.catalog.some(live.name)
        hidden = live.desk is not None and closed is not None and closed.namespace == "builtin"
        if closed is not None and not hidden and not live.session.sees(closed):
            live.tool_id = closed.id
            if closed.hidden is not None:
                live.hide(closed)
            return self._closed_namespace(live, closed.namespace)
        close = nearest(live.name, list(view.names) if live.desk is None else live.desk.names())
        return live.failure(
            "not_found", f"Unknown tool: {live.name}", hint=f"similar: {', '.join(close)}" if close else None
        )

    # 2. authorize

    def authorize(self, live: LiveCall) -> Failure | None:
        """The session's namespaces are checked here again, whoever found the tool; then depth and turn."""
        assert live.tool is not None
        if live.tool.hidden is not None:
            live.hide(live.tool)
        desk = None if live.run is None else live.desk
        if not (live.session if desk is None else desk).sees(live.tool):
            return self._closed_namespace(live, live.tool.namespace)
        if live.tool.capabilities and (refusal := self._ungranted(live, live.tool)) is not None:
            return refusal
        if live.depth > self.limits.depth:
            return live.failure("denied", f"Calls may be at most {self.limits.depth} deep")
        if live.turn is not None and live.session.calls_in_turn(live.turn) > (most := self._per_turn):
            return live.failure("rate_limited", f"Too many calls in one turn (limit {most})")
        return None

    def _ungranted(self, live: LiveCall, tool: Tool) -> Failure | None:
        """A refusal where nothing of the kind that the tool needs is granted, before its arguments are looked at."""
        authorize = getattr(live.policy, "authorize", None)
        verdict: Verdict | None = None if authorize is None else authorize(asker(live), tool)
        if verdict is None:
            return None
        live.verdict = verdict
        return live.failure("denied", verdict.message)

    def _closed_namespace(self, live: LiveCall, namespace: str) -> Failure:
        opened = ", ".join(live.session.namespaces)
        message = f"Namespace '{namespace}' is not open in this session (open: {opened})"
        live.verdict = Verdict("deny", "namespace", message)
        return live.failure("denied", message)

    # 3. validate

    async def validate_whole(self, live: LiveCall) -> Failure | None:
        """The same where code of the tool has a part in it: it shapes the arguments before, and looks at them after."""
        assert live.tool is not None
        failure = None if live.tool.prepare is None else await self.prepare(live)
        failure = failure or self.validate(live)
        return await self.business(live) if failure is None and live.tool.validate is not None else failure

    async def prepare(self, live: LiveCall) -> Failure | None:
        """The tool shapes the arguments; what it makes of them is what is checked, decided on and logged."""
        tool = live.tool
        assert tool is not None and tool.prepare is not None
        if live.broken is not None or len(live.given) > self.limits.arguments_bytes:
            return None
        if live.by.kind == "agent":
            live.given, live.label = records.undressed(tool, live.given, live.label)
        try:
            values = decode(live.given)
        except (ValueError, RecursionError):
            return None

        live.hide_keys()

        def take(shaped: Any) -> None:
            if shaped != values:
                live.extra = {**(live.extra or {}), "given": digest_of(values)}
            live.given = encode(shaped)

        shape = tool.prepare
        return await self._said(live, lambda: shape(Context(live), values), take) if isinstance(values, dict) else None

    def validate(self, live: LiveCall) -> Failure | None:
        """The arguments against the tool's schema and types."""
        tool, most = live.tool, self.limits.arguments_bytes
        assert tool is not None
        if len(live.given) > most:
            return live.failure("too_large", f"The arguments have {len(live.given)} bytes, the limit is {most}")
        if live.broken is not None:
            return live.failure("invalid_arguments", str(live.broken))
        if live.by.kind == "agent":
            live.given, live.label = records.undressed(tool, live.given, live.label)
        try:
            live.parsed = tool.parse(live.given)
        except BadArguments as error:
            live.hide_keys()
            found = {"findings": [{"path": one.path, "code": one.kind, "message": one.text} for one in error.problems]}
            live.stop_metadata = None if tool.knowledge.hint is None else found
            return live.failure("invalid_arguments", str(error), metadata=found)
        except BaseException as error:  # noqa: BLE001 - a type of the tool may check itself, and raise whatever it likes
            live.hide_keys()
            return self.unexpected(live, error)
        if tool.hidden is not None or (tool.keyed and suspect(live.parsed.json)):
            live.hide(tool)
        return None

    async def business(self, live: LiveCall) -> Failure | None:
        """The tool's own check of arguments that fit its schema."""
        assert live.tool is not None and live.tool.validate is not None and live.parsed is not None
        check, values = live.tool.validate, live.parsed.values
        return await self._said(live, lambda: check(Context(live), values))

    async def _said(
        self, live: LiveCall, ask: Callable[[], Any], take: Callable[[Any], None] | None = None
    ) -> Failure | None:
        """What code of the tool says of arguments before the call runs: whatever it raises ends this call alone."""
        try:
            said = ask()
            if inspect.isawaitable(said):
                async with asyncio.timeout(live.timeout_s):  # in this task: `SystemExit` in another would end the loop
                    said = await said
            if take is not None:
                take(said)
        except TimeoutError:
            return live.failure("timeout", f"The check of the arguments timed out after {live.timeout_s:g} s")
        except ValueError as error:
            said = str(error) or "The arguments were refused"
        except ToolFailure as error:
            live.stop_metadata = decode(to_json(error.metadata, fallback=str))
            return live.failure(
                error.code, error.message, retryable=error.retryable, hint=error.hint, metadata=error.metadata
            )
        except asyncio.CancelledError as error:
            if (caller := asyncio.current_task()) is not None and caller.cancelling():
                raise  # whoever called went away before anything was accepted
            return self.unexpected(live, error)
        except BaseException as error:  # noqa: BLE001 - nothing that a check raises may break the session
            return self.unexpected(live, error)
        finally:
            live.forget_facts()
        return live.failure("invalid_arguments", said) if isinstance(said, str) and said else None

    # 4. decide

    def decide(self, live: LiveCall) -> Failure | None:
        """The policy, once, on the parsed arguments."""
        tool, session = live.tool, live.session
        assert tool is not None
        try:
            who = session if live.agent is None else asker(live)
            policy = (session.judge or session.policy) if live.run is None else live.policy
            verdict = policy.decide(who, tool, live.normalised)
        except UnfitArgument as error:
            return live.failure("invalid_arguments", str(error))
        except Exception as error:  # noqa: BLE001 - a policy that raises is a deny
            self.note(live, error)
            verdict = Verdict("deny", "default", "The policy could not decide")
        if session.failing:
            verdict = session.breaker(live) or verdict
        live.verdict = verdict
        return live.failure("denied", verdict.message or "Not allowed") if verdict.effect == "deny" else None

    @cached_property
    def rated(self) -> bool:
        """Whether every call of this crib has a rate, whatever its tool says."""
        return self.limits.session_rate is not None or self.limits.owner_rate is not None

    async def rate(self, live: LiveCall) -> Failure | None:
        """Takes one from the rates of its tool, session and owner, or refuses it and takes nothing."""
        session, tool = live.session, live.tool
        assert tool is not None
        ours = (
            (f"tool:{tool.id}", "", tool.limits.rate),
            (f"session:{session.id}", "session ", self.limits.session_rate),
            (f"owner:{session.owner}", "owner ", self.limits.owner_rate),
        )
        rates = [(key, whose, rate) for key, whose, rate in ours if rate is not None]
        # A crib with a clock of its own lives by it; in all others the store's own clock is the one that all share.
        now = None if isinstance(self.clock, SystemClock) else self.clock.now()
        wait = await self.store.spend([(key, *pace(rate)) for key, _, rate in rates], now)
        if wait <= 0:
            return None
        said = ", ".join(f"{whose}{rate}" for _, whose, rate in rates)
        live.stop_metadata = {"retry_after_s": math.ceil(wait * 1000) / 1000}
        return live.failure("rate_limited", f"Too many calls of {tool.name} ({said}); try again in {math.ceil(wait)} s")

    # Faults

    def unexpected(self, live: LiveCall, error: BaseException) -> Failure:
        """An exception that nobody meant: its text goes to the trace alone."""
        name = live.name if live.tool is None else live.tool.name
        return Failure("internal", f"Tool '{name}' failed unexpectedly (trace {self.note(live, error)})")

    def note(self, live: LiveCall, error: BaseException) -> str:
        """Writes what went wrong to the trace; the id under which it is found."""
        id = secrets.token_hex(6)
        where = ("trace %s: tool %s, call %s", id, live.tool_id or live.name, live.id)
        if live.secrets:
            told = live.masked("".join(traceback.format_exception(error)))
            trace.error(f"{where[0]}\n%s", *where[1:], told)
        else:
            trace.error(*where, exc_info=error)
        return id
