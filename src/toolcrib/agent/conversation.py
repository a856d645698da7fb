"""What the log of a session says of its agents: a fold, so that whoever reads it can go on with every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib._call.history import result
from toolcrib.agent.definition import NO_OVERRIDES, RunOverrides
from toolcrib.agent.models import NOTHING, Usage
from toolcrib.agent.stop_conditions import RunTotals, Turn
from toolcrib.agent.transcript import CallNote, Transcript, TranscriptItem
from toolcrib.events import (
    Accepted,
    Answered,
    CallRequestRecord,
    Compacted,
    Done,
    ErrorNotice,
    Event,
    HandedOver,
    Interrupted,
    MessageAdded,
    MessageQueued,
    Paused,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TurnFinished,
    TurnStarted,
    Unknown,
    UserState,
    Waiting,
)
from toolcrib.events.runs import TRANSFER
from toolcrib.interop import aomi
from toolcrib.media import Media
from toolcrib.types import Question, Result


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a message: the run that took it, and how that ended or what it waits for."""

    run: str | None
    status: str
    reason: str | None = None
    answer: Any = None
    code: str | None = None
    detail: str | None = None
    turns: int = 0
    usage: Mapping[str, Any] | None = None
    questions: tuple[Question, ...] = ()


@dataclass(slots=True)
class RunHandover:
    """One handover of a run, and whether something new came since."""

    source: str
    target: str
    news: bool = False


@dataclass(slots=True)
class AgentRun:
    """One run as the log tells it. `agent` is who runs it now, `first` who began; `parent` is the call that made it."""

    id: str
    agent: str
    first: str
    origin: str
    line: Transcript
    started_at: float
    parent: str | None = None
    definition: str | None = None
    overrides: RunOverrides = NO_OVERRIDES
    turn: int = 0
    turn_at: float = 0.0
    reply: TranscriptItem | None = None
    usage: Usage = NOTHING
    turn_usage: Usage = NOTHING
    number: int = 0
    turns: Counter[str] = field(default_factory=Counter)
    course: list[Turn] = field(default_factory=list)
    handovers: list[RunHandover] = field(default_factory=list)
    back: str | None = None
    waits: int = 0
    waited: float = 0.0
    waiting_since: float | None = None
    interrupted: bool = False
    last_words: bool = False
    cut: int = 0
    finished: RunFinished | None = None
    trace: str | None = None

    @property
    def status(self) -> str:
        """created, running, waiting or done."""
        if self.finished is not None:
            return "done"
        if self.waiting_since is not None:
            return "waiting"
        return "running" if self.turn else "created"

    @property
    def notes(self) -> tuple[CallNote, ...]:
        """The calls of its turn."""
        return () if self.reply is None else self.reply.calls

    def outcome(self) -> RunOutcome:
        """What came of it, once it is over."""
        end = self.finished
        if end is None:
            return RunOutcome(self.id, "done")
        return RunOutcome(self.id, "done", end.reason, end.answer, end.code, end.detail, end.turns, end.usage)

    def seconds(self, now: float) -> float:
        """How long it has run, without the time that it waited for people."""
        waits = 0.0 if self.waiting_since is None else now - self.waiting_since
        return now - self.started_at - self.waited - waits

    def ended_turn(self) -> Turn:
        """Its turn as stop conditions see it."""
        calls = [(note.tool, note.args, note.background or bool(note.result and note.result.ok)) for note in self.notes]
        return Turn("" if self.reply is None else self.reply.text, calls)

    def course_now(self, now: float) -> RunTotals:
        """How far it has come, with the turn that is about to end."""
        tokens = self.usage.input + self.usage.output
        return RunTotals(self.turns[self.agent], self.seconds(now), tokens, [*self.course, self.ended_turn()])

    def answer(self) -> str:
        """The text of its last turn, with what came before it was cut off."""
        texts = [turn.text for turn in self.course[len(self.course) - self.cut :]] if self.cut else []
        return "".join([*texts, "" if self.reply is None else self.reply.text])


@dataclass(slots=True)
class QueuedMessage:
    """A message that nobody has looked at yet."""

    seq: int
    text: str
    mode: str
    run: str | None = None
    agent: str | None = None
    key: str | None = None
    id: str | None = None
    parts: list[dict[str, Any]] | None = None
    overrides: RunOverrides = NO_OVERRIDES

    @property
    def alone(self) -> bool:
        """True if it wants a run of its own: by an agent, or with overrides, that were chosen for it."""
        return self.agent is not None or self.overrides != NO_OVERRIDES

    def taken_by(self, run: str) -> MessageAdded:
        """The message as a run takes it."""
        return MessageAdded(role="user", content=self.text, run=run, queued=self.seq, key=self.key, parts=self.parts)


class Conversation:
    """All that a session's log says of agents, up to the event that was read last."""

    def __init__(self) -> None:
        self.seen = 0
        self.line = Transcript()
        self.runs: dict[str, AgentRun] = {}
        self.going: dict[str, AgentRun] = {}
        self._by_call: dict[str, AgentRun] = {}
        self._below: dict[str, str] = {}
        self._behind: dict[str, CallNote] = {}
        self.calls: dict[str, CallNote] = {}
        self.queue: list[QueuedMessage] = []
        self.late: dict[str, tuple[CallNote, str]] = {}
        self.heard: dict[str, int] = {}
        self.requests: Counter[str] = Counter()
        self.keys: dict[str, str | int] = {}
        self.taken: dict[int, str] = {}
        self.foreground_runs = 0
        self.unasked = 0
        self.foreground: AgentRun | None = None
        self.overrides = NO_OVERRIDES
        self.noted = 0
        self._last: dict[str, TranscriptItem] = {}

    def advance(self, event: Event) -> None:
        """Takes the next event."""
        if event.seq > self.seen:
            self.seen = event.seq
            if (take := _TAKES.get(event.kind)) is not None and not isinstance(event.data, Unknown):
                take(self, event, event.data)

    # Runs

    def _run_started(self, event: Event, data: RunStarted) -> None:
        parent = data.call
        line = self.line if parent is None else Transcript()
        run = AgentRun(data.run, data.agent, data.agent, data.origin, line, event.at, parent, trace=data.trace)
        run.definition, run.overrides = data.definition, RunOverrides(data.model, data.max_turns)
        self.runs[run.id] = self.going[run.id] = run
        if parent is not None:
            self._by_call[parent] = run
        line.start(data.agent)
        if parent is None:
            run.number = self.foreground_runs
            self.foreground, self.foreground_runs = run, self.foreground_runs + 1
            self.overrides = run.overrides
            self.unasked = self.unasked + 1 if data.origin == "wake" else 0

    def _turn_started(self, event: Event, data: TurnStarted) -> None:
        run = self.runs[data.run]
        run.turn, run.turn_at, run.reply = data.turn, event.at, None
        run.turns[data.agent] += 1
        run.last_words = data.last

    def _turn_finished(self, event: Event, data: TurnFinished) -> None:
        run = self.runs[data.run]
        run.course.append(run.ended_turn())
        cut = run.reply is not None and run.reply.finish == "length" and not run.notes
        run.cut = run.cut + 1 if cut else 0
        run.reply = None
        run.turn_at = 0.0

    def _run_waiting(self, event: Event, data: RunWaiting) -> None:
        run = self.runs[data.run]
        run.waits, run.waiting_since = run.waits + 1, event.at

    def _run_resumed(self, event: Event, data: RunResumed) -> None:
        run = self.runs[data.run]
        if run.waiting_since is not None:
            run.waited += event.at - run.waiting_since
            run.waiting_since = None

    def _run_finished(self, event: Event, data: RunFinished) -> None:
        run = self.runs[data.run]
        run.finished, run.waiting_since = data, None
        run.course.clear()
        self.going.pop(run.id, None)
        self.requests[run.agent] += data.asked or 0
        if run.parent is not None and (above := self.run_of(run.parent)) is not None:
            above.usage += Usage.read(data.usage)
        if self.foreground is run:
            self.foreground = None

    def _handover(self, event: Event, data: HandedOver) -> None:
        run = self.runs.get(data.run or "")
        summarised = data.history is not None and data.history.summary is not None
        self.requests[data.source] += summarised if data.asked is None else data.asked
        (self.line if run is None else run.line).hand_over(event.seq, data)
        if run is None:
            return
        run.agent = data.to
        if data.reason == "returned":
            run.back = None
            return
        run.handovers.append(RunHandover(data.source, data.to))
        if data.returns and run.back is None:
            run.back = data.source

    def _compacted(self, event: Event, data: Compacted) -> None:
        line = self.runs[data.run].line
        first, last = data.from_seq, data.to_seq
        rest = [item for item in line.views.get(data.agent, []) if not first <= item.seq <= last]
        line.views[data.agent] = [TranscriptItem(first, "note", data.summary), *rest]
        self.requests[data.agent] += 1 if data.asked is None else data.asked

    def _interrupted(self, event: Event, data: Interrupted) -> None:
        if self.foreground is not None:
            self.foreground.interrupted = True
        self._newest(event, "[[SYSTEM]] The user interrupted the turn")

    # What is said

    def _message(self, event: Event, data: MessageAdded) -> None:
        run = self.runs.get(data.run or "")
        line = self.line if run is None else run.line
        if data.role == "assistant":
            assert run is not None
            calls = tuple(self._declared(run, record) for record in data.calls or ())
            item = TranscriptItem(event.seq, "assistant", data.content, data.agent, calls, data.finish or "")
            item.kept = data.kept
            run.reply = item
            run.turn_usage = Usage.read(data.usage)
            run.usage += run.turn_usage
            self.requests[run.agent] += 1 if data.asked is None else data.asked
        else:
            parts = self._parts_of(data) if data.parts is not None or data.results else ()
            item = TranscriptItem(event.seq, data.role, data.content, data.agent, parts=parts)
        line.view.append(item)
        for call in data.results or ():
            self.late.pop(call, None)
            self.heard.pop(call, None)
        self.heard |= data.told or {}
        if data.role == "user":
            self._asked_by_user(run, data)

    def _parts_of(self, data: MessageAdded) -> tuple[str | Media, ...]:
        """The parts of a message with files: those that it was sent with, or those of the results that it tells."""
        if data.parts is not None:
            return Result(content=data.parts).parts
        files = [file for call in data.results or () if call in self.calls for file in self.calls[call].files]
        return (data.content, *files) if files else ()

    def _asked_by_user(self, run: AgentRun | None, data: MessageAdded) -> None:
        if run is not None:
            if run.handovers:
                _news(run)
            if data.key is not None:
                self.keys[data.key] = run.id
            if data.queued is not None:
                self.taken[data.queued] = run.id
        self.queue = [one for one in self.queue if one.seq != data.queued]

    def _declared(self, run: AgentRun, record: CallRequestRecord) -> CallNote:
        note = CallNote(record.id, record.tool, record.args, record.provider_id, run.id, run.turn, secret=record.secret)
        self.calls[note.id] = note
        return note

    def _message_queued(self, event: Event, data: MessageQueued) -> None:
        one = QueuedMessage(event.seq, data.text, data.mode, data.run, data.agent, data.key)
        one.id, one.parts, one.overrides = data.id, data.parts, RunOverrides(data.model, data.max_turns)
        self.queue.append(one)
        if one.key is not None:
            self.keys[one.key] = event.seq

    def _newest(self, event: Event, text: str) -> None:
        """Of several events of a kind in a row the model reads the last."""
        view = self.line.view
        if view and view[-1] is self._last.get(event.kind):
            view.pop()
        self._last[event.kind] = TranscriptItem(event.seq, "note", text)
        view.append(self._last[event.kind])

    def _user_state(self, event: Event, data: UserState) -> None:
        self._newest(event, aomi.user_state_text(data.values))

    def _error(self, event: Event, data: ErrorNotice) -> None:
        text = aomi.model_text({"SystemError": str(data.text or data.more.get("message") or "")})
        self.line.view.append(TranscriptItem(event.seq, "note", text or ""))

    # Calls

    def _accepted(self, event: Event, data: Accepted) -> None:
        id = event.call or ""
        if id not in self.calls:
            if not data.background:
                return
            self.calls[id] = CallNote(id, data.tool, "", data.provider_id, data.run, 0)
        note = self.calls[id]
        note.tool, note.state, note.wake = data.tool, "open", data.wake
        if data.background:
            self.to_background(note)

    def _waiting(self, event: Event, data: Waiting) -> None:
        if event.call in self.calls:
            note = self.calls[event.call]
            note.state, note.question = "waiting", data.question.id
        elif event.call is not None:
            self._below[event.call] = data.question.id

    def _paused(self, event: Event, data: Paused) -> None:
        if event.call in self.calls:
            note = self.calls[event.call]
            note.state, note.question = "waiting", None
            note.below = [self._below[child] for child in data.children if child in self._below]
            self._behind |= dict.fromkeys(data.children, note)

    def _goes_on(self, child: str | None) -> None:
        """A call that another was paused for waits no more."""
        self._below.pop(child or "", None)
        note = self._behind.pop(child or "", None)
        if note is not None and note.state == "waiting":
            note.state, note.below = "open", []

    def _answered(self, event: Event, data: Answered) -> None:
        self._goes_on(event.call)
        if event.call in self.calls:
            note = self.calls[event.call]
            note.state, note.question = "open", None

    def _done(self, event: Event, data: Done) -> None:
        self._goes_on(event.call)
        if event.call in self.calls:
            self.ended(self.calls[event.call], result(data), data.wake)

    def ended(self, note: CallNote, outcome: Result, wake: str | None = None) -> None:
        """A call is over."""
        if note.state == "done":
            return
        note.state, note.question, note.result, note.wake = "done", None, outcome, wake
        self.noted += note.background or "spilled" in outcome.metadata
        run = self.runs.get(note.run or "")
        if run is not None and run.handovers and note.tool != TRANSFER:
            _news(run)
        if note.background and wake in ("wake", "next_turn"):
            self.late[note.id] = (note, wake)

    def to_background(self, note: CallNote) -> None:
        """A call goes on while its model does."""
        self.noted += not note.background
        note.background = True

    # What follows from it

    def run_of(self, call: str | None) -> AgentRun | None:
        """The run that made a call."""
        note = self.calls.get(call or "")
        return None if note is None else self.runs.get(note.run or "")

    def chain(self, run: AgentRun) -> list[AgentRun]:
        """The runs from the top down to this one."""
        runs = [run]
        while (above := self.run_of(runs[0].parent)) is not None:
            runs.insert(0, above)
        return runs

    def child(self, call: str) -> AgentRun | None:
        """The run that a call made."""
        return self._by_call.get(call)

    def visible_calls(self, run: AgentRun) -> Iterator[CallNote]:
        """The calls that a run may see: its own, those of its descendants, and in the foreground those of before."""
        for note in list(self.calls.values()):
            owner = self.runs.get(note.run or "")
            if owner is not None and (run.parent is None or run in self.chain(owner)):
                yield note

    def questions(self, run: AgentRun) -> list[str] | None:
        """What a run waits for, with all that is below it; None where something of it goes on."""
        ids: list[str] = []
        for note in run.notes:
            if note.answered or note.state == "new":
                continue
            if note.state == "waiting":
                ids += note.below if note.question is None else [note.question]
                continue
            below = self.child(note.id)
            if below is None or below.status != "waiting" or (inner := self.questions(below)) is None:
                return None
            ids += inner
        return ids or None


def _news(run: AgentRun) -> None:
    for one in run.handovers:
        one.news = True


_TAKES: dict[str, Callable[[Conversation, Event, Any], None]] = {
    RunStarted.kind: Conversation._run_started,
    TurnStarted.kind: Conversation._turn_started,
    TurnFinished.kind: Conversation._turn_finished,
    RunWaiting.kind: Conversation._run_waiting,
    RunResumed.kind: Conversation._run_resumed,
    RunFinished.kind: Conversation._run_finished,
    HandedOver.kind: Conversation._handover,
    Compacted.kind: Conversation._compacted,
    MessageAdded.kind: Conversation._message,
    MessageQueued.kind: Conversation._message_queued,
    Interrupted.kind: Conversation._interrupted,
    UserState.kind: Conversation._user_state,
    ErrorNotice.kind: Conversation._error,
    Accepted.kind: Conversation._accepted,
    Waiting.kind: Conversation._waiting,
    Paused.kind: Conversation._paused,
    Answered.kind: Conversation._answered,
    Done.kind: Conversation._done,
}
"""What takes the events of each kind that agents have to do with."""
