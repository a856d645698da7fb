"""Whether a call may run: find, authorize, validate, decide, rate. The order is fixed, because it is security.

`Admission.admit` is the only place that puts the stages in order. New calls, calls made by calls, calls that go on
after an answer or a crash, `session.why` and `testing.run` all go through it; only what a plain call established is not
asked again of those like it (`clearances`). What a tool or a policy raises here is traced and ends this call alone.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from pydantic_core import ValidationError, to_json

from toolcrib._call.clearances import clear
from toolcrib._call.confirmation import changed_since_approved
from toolcrib._call.failures import failure_of, masked, traced, unexpected
from toolcrib._call.ports import AgentScope
from toolcrib._call.request import PLAIN, TOP, Admitted, CallRequest, Recalled, Rejected, ToolBound, hidden, undressed
from toolcrib._call.scheduler import Clock, SystemClock
from toolcrib.catalog import Catalog
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.policy import DefaultPolicy, Policy, UnfitArgument, Verdict
from toolcrib.schema import BadArguments, ParsedArguments, nearest
from toolcrib.schema.problems import ArgumentProblem
from toolcrib.schema.redaction import suspect
from toolcrib.store import Store
from toolcrib.store.codec import decode, encode, whole
from toolcrib.store.vault import SealedValue
from toolcrib.tool import Tool, digest_of
from toolcrib.types import CribLimits, Failure, pace

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib.policy.presets import Preset

MakeContext = Callable[[CallRequest, Tool, float, list[str]], Context]
"""Makes the context of a tool's own checks, with so many seconds, and a list that takes the secrets that they learn."""


def _bound(request: CallRequest, tool: Tool) -> ToolBound:
    """Return what holds back the calls of a tool; one that another call of it made has that call's seat already."""
    if tool.id in request.origin.ancestors:
        return ToolBound(None, False, tool.upstream)
    return ToolBound(tool.limits.concurrency, tool.serial, tool.upstream)


class _Refusal(Exception):
    """Ends the admission of a call."""

    def __init__(
        self,
        failure: Failure,
        verdict: Verdict | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        closed: Tool | None = None,
        fault: BaseException | None = None,
    ) -> None:
        self.failure, self.verdict, self.metadata = failure, verdict, metadata
        self.closed, self.fault = closed, fault


class Admission:
    """What is asked of every call of a crib before it runs."""

    def __init__(self, catalog: Catalog, store: Store, policy: Policy, limits: CribLimits, clock: Clock) -> None:
        self._catalog = catalog
        self._store = store
        self._policy = policy
        self._limits = limits
        self._clock = clock

    async def admit(
        self,
        request: CallRequest,
        context: MakeContext | None = None,
        *,
        new: bool = False,
        history: History | None = None,
    ) -> Admitted | Rejected:
        """Take a request through all stages, in their fixed order.

        Without `context` the tool's own checks are left out: nothing is run to explain a verdict. A call that is `new`
        has its arguments prepared by its tool, and is charged to the rates; one that goes on had both done when it was
        new. Approvals in the `history` of a call that goes on hold only for what was approved.
        """
        options = request.options
        look = _Look(request, request.arguments, options.label)
        try:
            tool, scope = self._find(request)
            look.tool, look.timeout_s = tool, tool.limits.timeout_s or self._limits.timeout_s
            if options.timeout_s is not None or self.preset is not None:
                look.timeout_s = self.timeout_s(request, tool)
            self._authorize(request, tool, scope)
            if history is not None and request.problem is None:
                self._check_approvals(request, tool, history)
            if request.problem is not None or len(request.arguments) > self._limits.arguments_bytes:
                self._refuse_unread(look)
            if options.by.kind == "agent":
                look.undress(tool)
            if context is not None and tool.prepare is not None and new:
                await self._prepare(look, tool, context)
            look.parsed = parsed = self._validate(look, tool)
            settled = options.agent is None or tool in (request.session if scope is None else scope).policy.constant
            if context is not None and (tool.validate is not None or not settled):
                await self._look_further(look, tool, parsed, context, scope)
            verdict = self._decide(request, tool, parsed, scope)
            repeats = request.session.loops is not None and options.by.kind != "agent"
            if new and (repeats or tool.limits.rate is not None or self._rated):
                await self._charge(request, tool, parsed)
        except _Refusal as refusal:
            return look.rejected(refusal)
        shown, secrets = look.shown, look.secrets
        background = tool.background if options.background is None else options.background
        light = shown is None and options.key is None and not (background or secrets or look.label or options.label)
        plain = light and options is PLAIN and request.origin is TOP and not look.prepared_from
        bounded = tool.serial or tool.upstream is not None or tool.limits.concurrency is not None
        bound, how = _bound(request, tool) if bounded else None, (look.timeout_s, background, look.label)
        call = Admitted(request, tool, parsed, verdict, *how, shown, secrets, look.prepared_from, plain, light, bound)
        return clear(call) if plain and new and not self._rated else call

    async def charge(self, request: CallRequest, tool: Tool) -> Rejected | None:
        """Charge a call that was accepted without it to the rates; return why it may not run, if it may not."""
        if tool.limits.rate is None and not self._rated:
            return None
        try:
            await self._rate(request, tool)
        except _Refusal as refusal:
            return _Look(request, request.arguments, request.options.label, tool).rejected(refusal)
        return None

    def explain(self, request: CallRequest) -> Admitted | Rejected:
        """Return the same without running any code of the tool, and so at once."""
        work = self.admit(request)
        try:
            work.send(None)
        except StopIteration as done:
            admission: Admitted | Rejected = done.value
            return admission
        raise AssertionError("only the code of a tool and the rates are awaited")

    def permit(self, request: CallRequest) -> Rejected | None:
        """Return why a call may not go on at all: the first two stages alone, for one whose work was done elsewhere."""
        look = _Look(request, request.arguments, request.options.label)
        try:
            look.tool, scope = self._find(request)
            self._authorize(request, look.tool, scope)
        except _Refusal as refusal:
            return look.rejected(refusal)
        return None

    # 1. find

    def _find(self, request: CallRequest) -> tuple[Tool, AgentScope | None]:
        """Return the tool of that name, among those the session may see; and what the run of an agent gives."""
        agents = None if request.options.run is None else request.session.crib.agents
        scope = None if agents is None else agents.scope(request)
        tool = request.session.tool(request.name) if scope is None else scope.tool(request)
        if tool is not None and tool.renew is not None:
            tool = self.lookup(request, scope)
        return self._missing(request, scope) if tool is None else tool, scope

    def lookup(self, request: CallRequest, scope: AgentScope | None) -> Tool | None:
        """Return the tool that a name means to whoever calls."""
        tool = request.session.tool(request.name) if scope is None else scope.tool(request)
        if tool is not None and tool.renew is not None:
            tool.renew()  # its source tells the catalog at once, which knows more of a tool than its source does
            tool = request.session.tool(request.name) if scope is None else scope.tool(request)
        return tool

    def recall(self, request: CallRequest) -> Recalled:
        """Return a call of the log with the tool of now, which may have secrets."""
        tool = self.lookup(request, request.scope())
        if tool is None:
            return Recalled(request, None, request.name)
        shown, secrets = None, tuple[str, ...]()
        if tool.hidden is not None or (tool.keyed and suspect(request.arguments)):
            shown, secrets = hidden(tool, request.arguments)
        return Recalled(request, tool, request.name, self.timeout_s(request, tool), shown, secrets)

    def missing(self, request: CallRequest) -> Failure:
        """Return why the session does not have a tool."""
        try:
            self._missing(request, request.scope())
        except _Refusal as refusal:
            return refusal.failure

    def _missing(self, request: CallRequest, scope: AgentScope | None) -> NoReturn:
        """The name is ambiguous, its namespace is closed, or nobody knows it."""
        view, name = request.session._view, whole(request.name)
        if name in view.ambiguous:
            names = ", ".join(view.ambiguous[name])
            raise _Refusal(failure_of(None, "invalid_arguments", f"'{name}' is ambiguous; say which: {names}"))
        closed = self._catalog.some(name, request.session.owner)
        hidden = scope is not None and closed is not None and closed.namespace == "builtin"
        if closed is not None and not hidden and not request.session._sees(closed):
            self._refuse_namespace(request, None, closed)
        close = nearest(name, list(view.names) if scope is None else scope.names())
        hint = f"similar: {', '.join(close)}" if close else None
        raise _Refusal(failure_of(None, "not_found", f"Unknown tool: {name}", hint=hint))

    def timeout_s(self, request: CallRequest, tool: Tool) -> float:
        """Return how long a call may run."""
        most = tool.limits.timeout_s or self._limits.timeout_s
        if self.preset is not None and self.preset.max_runtime_s is not None:
            most = min(most, self.preset.max_runtime_s)
        wanted = request.options.timeout_s
        return min(wanted, most) if wanted else most

    # 2. authorize

    def _authorize(self, request: CallRequest, tool: Tool, scope: AgentScope | None) -> None:
        """Check the session's namespaces again, whoever found the tool; then grants, depth and turn."""
        session, turn = request.session, request.options.turn
        if not (session.opened.get(tool.id) is tool if scope is None else scope.sees(tool)):
            self._refuse_namespace(request, tool, tool)
        if tool.capabilities:
            self._check_grants(request, tool, session.policy if scope is None else scope.policy)
        if request.origin.depth > self._limits.depth:
            raise _Refusal(failure_of(tool, "denied", f"Calls may be at most {self._limits.depth} deep"))
        if turn is not None and session._calls_in_turn(turn) > (most := self._per_turn):
            raise _Refusal(failure_of(tool, "rate_limited", f"Too many calls in one turn (limit {most})"))

    def _check_grants(self, request: CallRequest, tool: Tool, policy: Policy) -> None:
        """Refuse where nothing of the kind that the tool needs is granted, before its arguments are looked at."""
        verdict = policy.authorize(request.subject(), tool)
        if verdict is not None:
            raise _Refusal(failure_of(tool, "denied", verdict.message), verdict)

    def _check_approvals(self, request: CallRequest, tool: Tool, history: History) -> None:
        """Refuse a tool that changed since it was approved."""
        if changed_since_approved(request, tool, history):
            raise _Refusal(failure_of(tool, "denied", "The tool or its arguments changed after the approval"))

    def _refuse_namespace(self, request: CallRequest, tool: Tool | None, closed: Tool) -> NoReturn:
        opened = ", ".join(request.session.namespaces)
        message = f"Namespace '{closed.namespace}' is not open in this session (open: {opened})"
        raise _Refusal(failure_of(tool, "denied", message), Verdict("deny", "namespace", message), closed=closed)

    @cached_property
    def preset(self) -> Preset | None:
        """The preset that the policy begins with, for its limits."""
        name = self._policy.preset
        if name in (None, "guarded", "developer"):
            return None
        from toolcrib.policy.presets import PRESETS

        return PRESETS[name]

    @cached_property
    def _per_turn(self) -> int:
        """Calls of one model turn."""
        most = None if self.preset is None else self.preset.calls_per_turn
        return self._limits.per_turn if most is None else min(most, self._limits.per_turn)

    # 3. validate

    def _refuse_unread(self, look: _Look) -> NoReturn:
        size, most, problem = len(look.arguments), self._limits.arguments_bytes, look.request.problem
        if size > most:
            raise _Refusal(failure_of(look.tool, "too_large", f"The arguments have {size} bytes, the limit is {most}"))
        if isinstance(problem, SealedValue):
            raise _Refusal(failure_of(look.tool, "unavailable", str(problem), retryable=False))
        raise _Refusal(failure_of(look.tool, "invalid_arguments", str(problem)))

    async def _prepare(self, look: _Look, tool: Tool, context: MakeContext) -> None:
        """Let the tool shape the arguments; what it makes of them is what is checked, decided on and logged."""
        try:
            values = decode(look.arguments)
        except (ValueError, RecursionError):
            return
        if not isinstance(values, dict):
            return
        look.hide_given()
        learned: list[str] = []
        shape, made = tool.prepare, context(look.request, tool, look.timeout_s, learned)
        assert shape is not None

        def take(shaped: Any) -> None:
            if shaped != values:
                look.prepared_from = digest_of(values)
            look.arguments = encode(shaped)

        await self._run(look, tool, lambda: shape(made, values), learned, take)
        if len(look.arguments) > self._limits.arguments_bytes:
            self._refuse_unread(look)

    def _validate(self, look: _Look, tool: Tool) -> ParsedArguments:
        """Parse the arguments by the tool's schema and types."""
        try:
            parsed = _parsed(tool, look.arguments)
        except BadArguments as error:
            self._refuse_arguments(look, tool, error)
        except BaseException as error:  # noqa: BLE001 - a type of the tool may check itself, and raise whatever it likes
            look.hide_given()
            raise look.fault(tool, error) from None
        if tool.hidden is not None or (tool.keyed and suspect(parsed.json)):
            look.hide_parsed(tool, parsed.json)
        return parsed

    def _refuse_arguments(self, look: _Look, tool: Tool, error: BadArguments) -> NoReturn:
        if tool.hidden is not None:
            look.hide(tool, look.arguments, error.problems)
        details = {"findings": [{"path": one.path, "code": one.kind, "message": one.text} for one in error.problems]}
        failure = failure_of(tool, "invalid_arguments", str(error), metadata=details)
        raise _Refusal(failure, metadata=None if tool.knowledge.hint is None else details) from None

    async def _check(self, look: _Look, tool: Tool, parsed: ParsedArguments, context: MakeContext) -> None:
        """Let the tool check arguments that fit its schema."""
        learned: list[str] = []
        check, made = tool.validate, context(look.request, tool, look.timeout_s, learned)
        assert check is not None
        await self._run(look, tool, lambda: check(made, parsed.values), learned)

    async def _run(
        self,
        look: _Look,
        tool: Tool,
        check: Callable[[], Any],
        learned: list[str],
        take: Callable[[Any], None] | None = None,
    ) -> None:
        """Run code of the tool before the call itself runs: whatever it raises ends this call alone."""
        try:
            value = check()
            if inspect.isawaitable(value):
                async with asyncio.timeout(look.timeout_s):  # in this task: `SystemExit` in another would end the loop
                    value = await value
            if take is not None:
                take(value)
        except TimeoutError:
            message = f"The check of the arguments timed out after {look.timeout_s:g} s"
            raise _Refusal(failure_of(tool, "timeout", message)) from None
        except ValueError as error:
            value = str(error) or "The arguments were refused"
        except ToolFailure as error:
            failure = failure_of(
                tool,
                error.code,
                error.message,
                retryable=error.retryable,
                hint=error.hint,
                metadata=error.metadata,
                reason=error.reason,
            )
            raise _Refusal(failure, metadata=decode(to_json(error.metadata, fallback=str))) from None
        except asyncio.CancelledError as error:
            if (caller := asyncio.current_task()) is not None and caller.cancelling():
                raise  # whoever called went away before anything was accepted
            raise look.fault(tool, error) from None
        except BaseException as error:  # noqa: BLE001 - nothing that a check raises may break the session
            raise look.fault(tool, error) from None
        finally:
            look.secrets = (*look.secrets, *learned)
        if isinstance(value, str) and value:
            raise _Refusal(failure_of(tool, "invalid_arguments", value))

    async def _look_further(
        self, look: _Look, tool: Tool, parsed: ParsedArguments, context: MakeContext, scope: AgentScope | None
    ) -> None:
        """Let the tool check the arguments, and find out where those of an agent come from."""
        if tool.validate is not None:
            await self._check(look, tool, parsed, context)
        session, in_run = look.request.session, look.request.options.run is not None
        policy = session.policy if scope is None else scope.policy
        if look.request.agent is None or not policy.needs_origins(tool, in_run):
            return
        instructions = None if scope is None else scope.instructions
        if session.origin_log is None or not session.origin_log.refresh(instructions):
            await session._trace_origins(instructions)

    # 4. decide

    def _decide(self, request: CallRequest, tool: Tool, parsed: ParsedArguments, scope: AgentScope | None) -> Verdict:
        """Ask the policy, once, about the parsed arguments."""
        session, parser = request.session, tool.parser
        assert parser is not None
        try:
            policy = (session.judge or session.policy) if scope is None else scope.policy
            by_agent = request.options.agent is not None
            # Another policy may say more, and so may origins.
            known = policy.settled if type(policy) is DefaultPolicy and not by_agent else policy.constant
            verdict = known.get(tool)
            if verdict is None:
                verdict = policy.decide(request.subject(), tool, partial(parser.normalised, parsed))
        except UnfitArgument as error:
            raise _Refusal(failure_of(tool, "invalid_arguments", str(error))) from None
        except Exception as error:  # noqa: BLE001 - a policy that raises is a deny
            traced(error, tool.id, request.id)
            verdict = Verdict("deny", "default", "The policy could not decide")
        if session.loops is not None:
            verdict = session.loops.verdict(request, tool, parsed.json) or verdict
            if request.options.by.kind != "agent" and (wait := session.loops.wait(request, tool, parsed.json)) > 0:
                _refuse_for_now(tool, verdict, wait)
        if verdict.effect == "deny":
            raise _Refusal(failure_of(tool, "denied", verdict.message or "Not allowed"), verdict)
        return verdict

    # 5. rate

    @cached_property
    def _rated(self) -> bool:
        """True if every call of this crib has a rate, whatever its tool says."""
        return self._limits.session_rate is not None or self._limits.owner_rate is not None

    async def _charge(self, request: CallRequest, tool: Tool, parsed: ParsedArguments) -> None:
        """Count a call that may run: as the one that the breaker lets through, and for the rates."""
        if request.session.loops is not None and request.options.by.kind != "agent":
            request.session.loops.begin(request, tool, parsed.json)
        if tool.limits.rate is not None or self._rated:
            await self._rate(request, tool)

    async def _rate(self, request: CallRequest, tool: Tool) -> None:
        """Take one from the rates of its tool, session and owner, or refuse it and take nothing."""
        session = request.session
        ours = (
            (f"tool:{tool.id}", "", tool.limits.rate),
            (f"session:{session.id}", "session ", self._limits.session_rate),
            (f"owner:{session.owner}", "owner ", self._limits.owner_rate),
        )
        rates = [(key, whose, rate) for key, whose, rate in ours if rate is not None]
        # A crib with a clock of its own lives by it; in all others the store's own clock is the one that all share.
        now = None if isinstance(self._clock, SystemClock) else self._clock.now()
        wait = await self._store.spend([(key, *pace(rate)) for key, _, rate in rates], now)
        if wait > 0:
            limits = ", ".join(f"{whose}{rate}" for _, whose, rate in rates)
            message = f"Too many calls of {tool.name} ({limits}); try again in {math.ceil(wait)} s"
            metadata = {"retry_after_s": math.ceil(wait * 1000) / 1000}
            raise _Refusal(failure_of(tool, "rate_limited", message), metadata=metadata)


def _parsed(tool: Tool, arguments: bytes) -> ParsedArguments:
    """Return arguments as the tool takes them; most are right as they stand."""
    if tool.exact is None:
        parsed: ParsedArguments = tool.parse(arguments)
        return parsed
    try:
        return ParsedArguments(arguments, tool.exact(arguments, strict=True))
    except ValidationError:
        assert tool.parser is not None
        return tool.parser.mend(arguments)


def _refuse_for_now(tool: Tool, verdict: Verdict, wait: float) -> NoReturn:
    """Refuse a call that failed too often, and say when it may be tried again."""
    hint = f"It may be tried again in {math.ceil(wait)} s, or with other arguments."
    metadata = {"retry_after_s": math.ceil(wait * 1000) / 1000}
    raise _Refusal(failure_of(tool, "unavailable", verdict.message, hint=hint), verdict, metadata=metadata)


class _Look(msgspec.Struct, gc=False):
    """What the stages have found out so far about one request. It does not leave this module."""

    request: CallRequest
    arguments: bytes
    label: str
    tool: Tool | None = None
    parsed: ParsedArguments | None = None
    timeout_s: float = 0.0
    shown: Any = None
    secrets: tuple[str, ...] = ()
    prepared_from: str | None = None

    def undress(self, tool: Tool) -> None:
        """Take off what only a model's view of the schema asked for: a topic, and nulls."""
        if b"topic" in self.arguments or b"null" in self.arguments or b"\\u" in self.arguments:
            self.arguments, self.label = undressed(tool, self.arguments, self.label)

    def hide_given(self) -> None:
        """Hide secrets of arguments that did not pass, or were not checked yet."""
        tool = self.tool
        if self.shown is None and ((tool is not None and tool.hidden is not None) or suspect(self.arguments)):
            self.hide(tool, self.arguments)

    def hide(self, tool: Tool | None, arguments: bytes, problems: Iterable[ArgumentProblem] = ()) -> None:
        """Remember the values that nobody may see, and the arguments as they may be seen."""
        self.shown, self.secrets = hidden(tool, arguments, self.secrets, problems)

    def hide_parsed(self, tool: Tool, arguments: bytes) -> None:
        """Hide secrets of arguments that fit; they are kept apart from the log, which takes a key."""
        self.hide(tool, arguments)
        problem = None if self.shown is None else self.request.session.pipeline.vault.problem()
        if problem is not None:
            raise _Refusal(failure_of(tool, "unavailable", problem, retryable=False))

    def fault(self, tool: Tool, error: BaseException) -> _Refusal:
        """Return the refusal of a call over something that nobody meant."""
        failure = unexpected(error, tool.name, tool.id, self.request.id, self.secrets)
        return _Refusal(failure, fault=error)

    def rejected(self, refusal: _Refusal) -> Rejected:
        """Return the call that may not run."""
        if refusal.closed is not None and self.tool is None and refusal.closed.hidden is not None:
            self.hide(refusal.closed, self.arguments)
        self.hide_given()
        tool, closed = self.tool, refusal.closed
        tool_id = tool.id if tool is not None else "" if closed is None else closed.id
        return Rejected(
            request=self.request,
            failure=masked(refusal.failure, self.secrets),
            arguments=self.arguments if self.parsed is None else self.parsed.json,
            tool=tool,
            tool_id=tool_id,
            parsed=self.parsed,
            verdict=refusal.verdict,
            metadata=refusal.metadata,
            timeout_s=self.timeout_s,
            label=self.label,
            shown=self.shown,
            secrets=self.secrets,
            prepared_from=self.prepared_from,
            fault=refusal.fault,
        )
