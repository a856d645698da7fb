"""The loop of one run: a turn asks the model, runs the calls that it makes, and looks whether to go on.

What comes next is read from the log each time, so that any process can take up a run at any point.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib._call.call_facts import Caller
from toolcrib._call.history import result
from toolcrib._call.lifecycle import waits_for_children
from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import TOP, CallOptions, CallRequest
from toolcrib._call.suspension import look_after
from toolcrib.agent import context_window, handovers, prompt_record, secret_arguments
from toolcrib.agent.conversation import AgentRun, QueuedMessage
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import CompletionRequest, Message, ModelCall, ModelError
from toolcrib.agent.replies import ModelReply, ReplyStream, replied
from toolcrib.agent.stop_conditions import stopped
from toolcrib.agent.transcript import CallNote, TranscriptItem, harmless, passed_within, rendered, size
from toolcrib.errors import Refused, StoreError, ToolcribError, ToolFailure
from toolcrib.events import (
    CallRequestRecord,
    Compacted,
    EventData,
    MessageAdded,
    ModelRequestRecord,
    RunFinished,
    RunResumed,
    RunWaiting,
    TurnFinished,
    TurnStarted,
)
from toolcrib.schema.redaction import SHORTEST, suspect
from toolcrib.store import Row
from toolcrib.tool import Tool
from toolcrib.types import By, Handover

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver

MOST_CUT = 2
"""So often a reply that was cut off is continued."""

SUMMARISE = "Summarise this conversation for a colleague who takes over. Leave out nothing that is needed to go on."

FEW = 2000
"""No model takes less than that: of a shorter conversation nobody asks what its model takes."""

log = logging.getLogger("toolcrib.agent")


class Loop:
    """Goes on with a run until it is over, or waits for somebody. `parent` is the call that a child run belongs to."""

    def __init__(self, driver: Driver, run: AgentRun, parent: LiveCall | None = None) -> None:
        self.driver = driver
        self.log = driver.log
        self.run = run
        self.parent = parent
        self._requests = 0
        self._stream: ReplyStream | None = None

    async def go(self) -> None:
        """Return when the run is over, or waits for somebody in the foreground. Whoever calls it has read the log."""
        run, registry = self.run, self.driver.registry(self.run)
        while run.finished is None:
            if run.interrupted:
                await self.cancelled()
                continue
            agent = registry.get(run.agent) or self.driver.agent(run.agent, run)
            if not run.turn_at:
                await self._turn(agent)
            elif run.reply is None:
                await self._ask(agent)
            elif (came := await self._calls(agent)) == "waiting":
                return
            elif came == "done":
                await self._conclude(agent)

    async def waits(self) -> bool:
        """True if all that it waits for still waits for somebody: then nobody need go on with it."""
        if self.run.waiting_since is None or self.run.interrupted:
            return False
        await self._look()
        return await self._asked() is not None

    async def _asked(self) -> list[str] | None:
        """What it waits for, with all that is below it; None where something of it goes on."""
        questions = self.driver.conversation.questions(self.run)
        for question in questions or ():
            row = await self.log.store.call(question.rpartition("-")[0])
            if row is None or row.question != question or row.state != "waiting":
                return None  # whoever runs it below has not seen it yet
        return questions

    async def _write(self, *events: EventData, read: bool = False) -> None:
        """Appends events of the run, as long as this process has its lease, or the call that it belongs to."""
        await self.log.write(*events, run=self.run, read=read, maker=self.parent)

    # A turn

    async def _turn(self, agent: Agent) -> None:
        """Takes what was said meanwhile, and starts the next turn."""
        run, driver = self.run, self.driver
        if self.parent is None and (driver.session.closing or driver.session.shut):
            raise asyncio.CancelledError  # what is left to do is done when the session is opened again
        if "window" in agent.model_settings or size(run.line.view) > FEW:
            await self._compact(agent)
        events: list[EventData] = [*await driver.late(run)] if driver.conversation.noted or driver.session.live else []
        if driver.conversation.queue:
            events += [one.taken_by(run.id) for one in waiting_for(driver, run)]
        model = agent.model if isinstance(agent.model, str) else None
        started = TurnStarted(run.id, run.turn + 1, run.agent, model, run.last_words)
        await self._write(*events, started, read=run.parent is None)

    async def _ask(self, agent: Agent) -> None:
        """Has the model reply, and commits what it said with the calls that it makes."""
        driver, run = self.driver, self.run
        self._stream = stream = ReplyStream(self.log, run, run.turn, driver.conversation.seen, self.parent)
        try:
            request = driver.request(run, agent)
            if any(message.parts for message in request.messages):
                stream.files, request = await driver.fitted(request, agent, run)
            work = self._replied(stream, request, agent)
            reply = await (driver.foreground_reply(run, work) if self.parent is None else work)
        except asyncio.CancelledError:
            if self.parent is not None or not driver.halted(run):
                raise
            await self.log.catch_up()  # the log says by now that the run is interrupted
        except (ToolcribError, OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
            await self._not_replied(error, agent)
        else:
            await self._said(reply, stream, agent)

    async def _not_replied(self, error: Exception, agent: Agent) -> None:
        """Ends the run, unless the model could not read so much: then it is asked again, with less."""
        run = self.run
        if isinstance(error, ModelError):
            if error.code == "too_large" and await self._compact(agent, size(run.line.view) // 2):
                return
            await self._end("failed", code=error.code, detail=error.message, **await self._unanswered())
            return
        log.error("the model of agent %s failed", run.agent, exc_info=error)
        code = error.code if isinstance(error, Refused) else "internal"
        await self._end("failed", code=code, detail=str(error) or type(error).__name__, **await self._unanswered())

    def _since(self, thought: int) -> int | None:
        """How often the model was asked since the log was told last, unless that is what a reader thinks anyway."""
        requests, self._requests = self._requests, 0
        return None if requests == thought else requests

    async def _replied(self, stream: ReplyStream, request: CompletionRequest, agent: Agent) -> ModelReply:
        """What the model replies; how often it was asked is counted, whatever came of it."""
        try:
            return await replied(stream, self.driver.model(agent, self.run), request, agent)
        finally:
            self._requests += stream.requests

    async def _said(self, reply: ModelReply, stream: ReplyStream, agent: Agent) -> None:
        run, driver = self.run, self.driver
        calls: list[CallRequestRecord] | None = None
        requests, request = self._since(1), await self._recorded()
        if reply.calls and not run.last_words:
            tools = driver.toolset(run, agent).callable
            calls = [await self._declared(call, tools.get(call.name)) for call in reply.calls]
        message = MessageAdded(
            role="assistant",
            content=reply.text,
            run=run.id,
            turn=run.turn,
            agent=run.agent,
            usage=reply.usage.data(),
            finish=reply.finish,
            asked=requests,
            kept=reply.kept,
            calls=calls,
            request=request,
        )
        await self._write(*stream.rest(), message)

    async def _unanswered(self) -> dict[str, Any]:
        """What the end of a run says of a model that did not reply."""
        return {"asked": self._since(0), "request": await self._recorded()}

    async def _recorded(self) -> ModelRequestRecord | None:
        """What the log keeps of the last request, so that it can be shown as the model saw it."""
        stream = self._stream
        if stream is None or stream.request is None:
            return None
        request, known = stream.request, self.driver.prompts.get(stream.request.agent)
        if known is None or known[:2] != (request.messages[0].text, request.tools):
            known = self.driver.prompts[request.agent] = await prompt_record.kept(self.log, request)
        if stream.files is not None:
            return prompt_record.with_files(stream, known)
        messages = hashlib.sha256(msgspec.json.encode(request.messages[1:])).hexdigest()[: prompt_record.DIGITS]
        return ModelRequestRecord(stream.seq, *known[2:], messages, stream.at)

    async def _declared(self, call: ModelCall, tool: Tool | None) -> CallRequestRecord:
        """A call as the message tells it. What nobody may see is kept beside the log."""
        id = self.driver.session.pipeline.new_id()
        arguments = call.args.encode("utf-8", "replace")
        if (tool is None or tool.hidden is None) and (len(arguments) < SHORTEST or not suspect(arguments)):
            return CallRequestRecord(id, call.name, call.args, call.id)
        return await secret_arguments.declared(self.driver.session, id, call, tool)

    # Its calls

    async def _calls(self, agent: Agent) -> Literal["done", "waiting", "again"]:
        """Starts what has not started, in order, transfers last, and returns when all are done or wait for somebody."""
        run = self.run
        tools = self.driver.toolset(run, agent).callable
        for note in run.notes:
            if note.state == "new" and note.builtin != "transfer_to_agent":  # which runs last, after all beside it
                await self._start(note, tools.get(note.named))
        if run.waiting_since is None and not run.interrupted and all(note.answered for note in run.notes):
            return "done"
        return await self._ended(tools)

    async def _ended(self, tools: Mapping[str, Tool]) -> Literal["done", "waiting", "again"]:
        """Waits for calls that go on after they were started, in other processes or until somebody answers."""
        run = self.run
        while not run.interrupted:
            changes = self.log.changes
            outside = await self._look()
            if all(note.answered or note.state == "new" for note in run.notes):
                held = next((note for note in run.notes if note.state == "new"), None)
                if held is None:
                    await self._resumed()
                    return "done"
                await self._start(held, tools.get(held.named))
                continue
            questions = await self._asked()
            if questions is None:
                await self._resumed()
            elif run.waiting_since is None:
                await self._write(RunWaiting(run.id, questions))
                changes = self.log.changes
            if questions is not None and self.parent is None:
                return "waiting"
            await self._wait(changes, outside, questions is not None)
        return "again"

    async def _wait(self, changes: int, outside: bool, patient: bool) -> None:
        """Until something happens. A child whose own calls wait for people is left alone when the crib stops."""
        if patient and self.parent is not None:
            self.driver.agents.be_patient(self.parent)
        try:
            await self.log.changed(changes, outside=outside and not patient)
        finally:
            if self.parent is not None:
                self.driver.agents.patient.discard(self.parent)
        await self.log.catch_up()

    async def _resumed(self) -> None:
        if self.run.waiting_since is not None:
            await self._write(RunResumed(self.run.id))

    async def _start(self, note: CallNote, tool: Tool | None) -> None:
        """Hands one call to the pipeline, under the id that the log has given it."""
        run, session, by = self.run, self.driver.session, By("agent", self.run.agent)
        turn, background = f"{run.id}:{run.turn}", tool is not None and tool.background
        options = CallOptions(by, provider_id=note.provider_id, turn=turn, run=run.id, agent=run.agent)
        if note.builtin == "call_agent" and note.mode == "background":
            background, options = True, msgspec.structs.replace(options, background=True, wake="wake")
        origin, caller = TOP, Caller(awaited=True, maker=self.log.lease)
        if self.parent is not None:
            await self.parent.meet()
            caller = Caller(awaited=True, maker=self.parent, parent=None if background else self.parent)
            origin = TOP if background else self.parent.origin()
        if note.secret or not note.args.isascii():
            args = await secret_arguments.given(session, note) if note.secret else note.args
            request = session._request(note.tool, args, options, id=note.id, origin=origin)
        else:
            arguments = note.args.encode().strip() or b"{}"
            request = CallRequest(session, note.id, note.tool, arguments, self.log.clock.now(), options, origin)
        note.state = "open"
        live = await session._accept(request, caller)
        if self.parent is not None or self.log.lease.row is None:
            (self.parent or self.log.lease).heed()
        note.tool = live.tool_id or note.tool if live.admission.tool is None else live.admission.tool.id
        if live.result is not None:
            self.driver.conversation.ended(note, live.result)
        elif live.background:
            self.driver.conversation.to_background(note)

    async def _look(self) -> bool:
        """Look up the calls that this process does not run; return True if others run some."""
        session, outside = self.driver.session, False
        for note in self.run.notes:
            if note.state in ("new", "done") or note.background:
                continue
            if note.id in session.live:
                note.state = "open"
                continue
            row = await self.log.store.call(note.id)
            if row is None:
                note.state = "new"
            elif row.state == "waiting":
                note.question, note.below = row.question, await self._below(row)
                note.state = "waiting" if row.question or note.below else "open"
                if note.state == "open":
                    outside = True
                    await look_after(session, row)
            elif row.state != "done":
                note.state, outside = "open", True
            else:
                done = (await session._history(row)).done
                if done is not None:
                    self.driver.conversation.ended(note, result(done), done.wake)
        return outside

    async def _below(self, row: Row) -> list[str]:
        """What the calls wait for that a paused call made; nothing where one of them goes on or has ended."""
        questions: list[str] = []
        for id in (await self.driver.session._history(row)).paused or () if waits_for_children(row) else ():
            child = await self.driver.session._row(id)
            inner = [child.question] if child.question else await self._below(child)
            if child.state != "waiting" or not inner:
                return []
            questions += inner
        return questions

    # Its end

    async def _conclude(self, agent: Agent) -> None:
        """All calls are done: the run goes on, with this agent or another, or ends."""
        run, reply, now = self.run, self.run.reply, self.log.clock.now()
        if reply is None:
            await self._give_up()
            return
        took, model = round((now - run.turn_at) * 1000, 3), agent.model if isinstance(agent.model, str) else None
        turn = TurnFinished(run.id, run.turn, run.agent, model, run.turn_usage.data(), reply.finish, took)
        if not reply.calls and (reply.finish == "length" or run.last_words or self.driver.conversation.queue):
            await self._answered(agent, reply, turn)
        elif not reply.calls:
            await self._end("answered", turn, answer=run.answer())
        elif any(note.steers for note in reply.calls):
            await self._steered(agent, turn)
        elif agent.stop or run.turns[run.agent] >= (agent.max_turns or math.inf):
            await self._limited(agent, turn, now)
        else:
            await self._write(turn)

    async def _give_up(self) -> None:
        """Another process has gone on with the run, and asks the model itself."""
        holder = self.parent or self.log.lease
        await holder.make_sure()
        holder.heed()

    async def _limited(self, agent: Agent, turn: TurnFinished, now: float) -> None:
        """Ends the run, or has it answer, where a limit of its agent is reached."""
        stop = stopped(agent.stop, self.run.course_now(now), agent.max_turns)
        if stop is None:
            await self._write(turn)
        elif agent.on_limit == "answer":
            self.run.last_words = True
            await self._write(turn)
        else:
            await self._end("stopped", turn, code=stop[0], detail=stop[1])

    async def _steered(self, agent: Agent, turn: TurnFinished) -> None:
        """A tool has handed the conversation over, or ended the run with an answer."""
        run = self.run
        note = next((note for note in run.notes if note.transfer is not None), None)
        transfer = None if note is None else note.transfer
        if transfer is not None and (refused := self._refused(transfer)) is not None:
            await self._write(MessageAdded(role="note", content=harmless(refused), run=run.id), turn)
            return
        results = [note.result for note in run.notes if note.result is not None]
        finish = next((one.metadata["finish"] for one in results if "finish" in one.metadata), None)
        if note is None or transfer is None or finish is not None:
            await self._end("answered", turn, answer=None if finish is None else finish["answer"])
            return
        stop = stopped(agent.stop, run.course_now(self.log.clock.now()))
        handed = await self._handed(agent, note.id, transfer)
        if stop is None:
            await self._write(*handed, turn)
        else:
            await self._end("stopped", *handed, turn, code=stop[0], detail=stop[1])

    def _refused(self, handover: Handover) -> str | None:
        """Why a handover that the log holds may not be; whoever ran the tool may not have looked."""
        try:
            handovers.gate(self.driver.scope(self.run, self.run.agent), str(handover.to))
        except ToolFailure as error:
            return error.message
        return None

    async def _handed(self, agent: Agent, call: str, handover: Handover) -> list[EventData]:
        scope = self.driver.scope(self.run, self.run.agent)
        summary, request = None, None
        if handovers.policy_of(scope.agent, handover.to) == "summary":
            text = await self._summary(agent)
            request = None if text is None else await self._recorded()
            summary = text or "Nobody could summarise what was said before."
            summary = context_window.with_placeholders(summary, self.run.line.view)
        requests = self._since(int(summary is not None))
        handed = handovers.event(scope, handover, call, summary, requests)
        return [msgspec.structs.replace(handed, request=request)]

    async def _summary(self, agent: Agent, view: Sequence[TranscriptItem] | None = None) -> str | None:
        """What the model of the agent says of the conversation, or of a part of it; None where it says nothing."""
        request = self.driver.request(self.run, agent)
        messages = request.messages if view is None else (request.messages[0], *rendered(view))
        request = replace(request, messages=(*messages, Message("user", SUMMARISE)), tools=())
        seen = self.driver.conversation.seen
        self._stream = stream = ReplyStream(self.log, self.run, self.run.turn, seen, self.parent, True)
        stream.at = stream.now()
        try:
            if any(message.parts for message in request.messages):
                stream.files, request = await self.driver.fitted(request, agent, self.run)
            reply = await self._replied(stream, request, agent)
        except ToolcribError as error:
            log.warning("agent %s could not summarise: %s", self.run.agent, error)
            return None
        return harmless(reply.text) or None

    async def _compact(self, agent: Agent, within: int | None = None) -> bool:
        """Where the history has outgrown the window of the model, a summary takes the place of its oldest part.

        With `within` it has to: then what cannot be summarised is left out.
        """
        view = self.run.line.view
        most = within or await self._window(agent)
        if most is None or size(view) <= most:
            return False
        kept = passed_within(view, most // 2)
        old = view[: len(view) - len(kept)]
        summary = await self._summary(agent, old) if len(old) > 1 else None
        request = None if summary is None else await self._recorded()
        if summary is None and within is not None and any(item.role != "note" for item in old):
            summary = context_window.left_out(old)
        if summary is None:
            return False
        summary = context_window.with_placeholders(summary, old)
        first, last, requests = old[0].seq, old[-1].seq, self._since(1)
        await self._write(Compacted(self.run.id, self.run.agent, first, last, summary, requests, request))
        return True

    async def _window(self, agent: Agent) -> int | None:
        try:
            return await context_window.allowed(self.driver.model(agent, self.run), agent)
        except Exception as error:  # noqa: BLE001 - a model may be anybody's; one that cannot be had says so in its reply
            log.warning("agent %s: what its model takes is not known: %s", self.run.agent, error)
            return None

    async def _answered(self, agent: Agent, reply: TranscriptItem, turn: TurnFinished) -> None:
        """The text may be no answer: it was cut off, or somebody has said something meanwhile."""
        run = self.run
        if reply.finish == "length" and run.cut < MOST_CUT:
            await self._write(turn)
        elif run.last_words:
            code, detail = _limit(run, agent, self.log.clock.now())
            await self._end("stopped", turn, code=code, detail=detail, answer=run.answer())
        elif self.driver.conversation.queue and waiting_for(self.driver, run):
            await self._write(turn)
        else:
            await self._end("answered", turn, answer=run.answer())

    async def _end(self, reason: str, *before: EventData, **fields: Any) -> None:
        """Writes the one `run_finished` of the run, behind what ends with it."""
        run, driver = self.run, self.driver
        back: list[EventData] = []
        if reason == "answered" and run.back is not None and run.back in driver.registry(run):
            back.append(handovers.switch(run.agent, run.back, "returned", run.id))
        usage = run.usage.data()
        ended = RunFinished(run=run.id, agent=run.agent, reason=reason, turns=run.turn, usage=usage, **fields)
        await self._write(*before, *back, ended, read=run.parent is None)
        driver.forget(run)
        if driver.session.state.scoped:
            await driver.session.end_run(run.id)

    async def cancelled(self) -> None:
        """Ends what the run waits for, and then the run."""
        for note in self.run.notes:
            if note.state in ("open", "waiting") and not note.background:
                with suppress(Refused, StoreError):
                    await self.driver.session.cancel(note.id)
        await self._look()
        if self.run.finished is None:
            await self._end("cancelled")


def _limit(run: AgentRun, agent: Agent, now: float) -> tuple[str, str]:
    course = run.course_now(now)
    return stopped(agent.stop, course._replace(turns=course.turns[:-1]), agent.max_turns) or ("max_rounds", "")


def waiting_for(driver: Driver, run: AgentRun) -> list[QueuedMessage]:
    """The messages that the next turn of a run takes."""
    if run.parent is not None:
        return [one for one in driver.conversation.queue if one.run == run.id]
    return [
        one
        for one in driver.conversation.queue
        if one.run is None and one.mode in ("steer", "collect") and not one.alone
    ]
