"""The first four stages of a call, in their fixed order: find, authorize, validate, decide.

Each gives a `Failure` or nothing. What a tool or a policy raises here is noted in the trace and ends this call alone.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import traceback

from toolcrib.calls import records
from toolcrib.calls.live import LiveCall
from toolcrib.catalog import Catalog
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.policy import Policy, Verdict
from toolcrib.schema import BadArguments, nearest
from toolcrib.store.codec import whole
from toolcrib.types import CribLimits, Failure

trace = logging.getLogger("toolcrib.trace")


class Checks:
    """What is asked of a call before it runs."""

    catalog: Catalog
    policy: Policy
    limits: CribLimits

    # 1. find

    def find(self, live: LiveCall) -> Failure | None:
        """The tool of that name, among those the session may see."""
        tool = live.session.tool(live.name)
        if tool is None:
            return self.missing(live)
        live.tool = tool
        live.tool_id = tool.id
        limits = tool.limits
        most = limits.timeout_s or self.limits.timeout_s
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
        if closed is not None and not live.session.sees(closed):
            live.tool_id = closed.id
            if closed.hidden is not None:
                live.hide(closed)
            return self._closed_namespace(live, closed.namespace)
        close = nearest(live.name, list(view.names))
        return live.failure(
            "not_found", f"Unknown tool: {live.name}", hint=f"similar: {', '.join(close)}" if close else None
        )

    # 2. authorize

    def authorize(self, live: LiveCall) -> Failure | None:
        """The session's namespaces are checked here again, whoever found the tool; then depth and turn."""
        assert live.tool is not None
        if live.tool.hidden is not None:
            live.hide(live.tool)
        if not live.session.sees(live.tool):
            return self._closed_namespace(live, live.tool.namespace)
        if live.depth > self.limits.depth:
            return live.failure("denied", f"Calls may be at most {self.limits.depth} deep")
        if live.turn is not None and live.session.calls_in_turn(live.turn) > self.limits.per_turn:
            return live.failure("rate_limited", f"Too many calls in one turn (limit {self.limits.per_turn})")
        return None

    def _closed_namespace(self, live: LiveCall, namespace: str) -> Failure:
        opened = ", ".join(live.session.namespaces)
        message = f"Namespace '{namespace}' is not open in this session (open: {opened})"
        live.verdict = Verdict("deny", "namespace", message)
        return live.failure("denied", message)

    # 3. validate

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
            return live.failure("invalid_arguments", str(error))
        except BaseException as error:  # noqa: BLE001 - a type of the tool may check itself, and raise whatever it likes
            return self.unexpected(live, error)
        if tool.hidden is not None:
            live.hide(tool)
        return None

    async def business(self, live: LiveCall) -> Failure | None:
        """The tool's own check of arguments that fit its schema."""
        tool = live.tool
        assert tool is not None and tool.validate is not None and live.parsed is not None
        try:
            said = tool.validate(Context(live), live.parsed.values)
            if inspect.isawaitable(said):
                async with asyncio.timeout(live.timeout_s):  # in this task: `SystemExit` in another would end the loop
                    said = await said
        except TimeoutError:
            return live.failure("timeout", f"The check of the arguments timed out after {live.timeout_s:g} s")
        except ValueError as error:
            said = str(error) or "The arguments were refused"
        except ToolFailure as error:
            return live.failure(error.code, error.message, retryable=error.retryable, hint=error.hint)
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
            verdict = self.policy.decide(session, tool, live.normalised)
        except Exception as error:  # noqa: BLE001 - a policy that raises is a deny
            self.note(live, error)
            verdict = Verdict("deny", "default", "The policy could not decide")
        if session.failing:
            verdict = session.breaker(live) or verdict
        live.verdict = verdict
        return live.failure("denied", verdict.message or "Not allowed") if verdict.effect == "deny" else None

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
