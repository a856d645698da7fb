"""Holds what is left of a round against the witness and the ledgers: nothing lost, twice or stuck, and no gaps."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from threading import Lock
from typing import Any, NamedTuple

from tests import ready
from tests.faults import tools
from tests.faults.witness import Effect, Witness, lines
from tests.shared import ROOT
from toolcrib import Event
from toolcrib.store import open_store

PAGE = 1000
RAN = ("ok", "unknown")
STOPPED = ("cancelled", "timeout")
"""How a body may end that was stopped on purpose."""

AFTER_DONE = ("settled",)
_one_at_a_time = Lock()
CHILDREN = ("reserve", "settle")


class Violation(NamedTuple):
    """Something that may not happen: under which column it counts, and what it was."""

    column: str
    text: str


class Call:
    """One call as its events tell it."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.events: list[Event] = []

    @property
    def accepted(self) -> dict[str, Any]:
        """What it was accepted as; nothing where that is missing."""
        first = self.events[0]
        return first.fields if first.kind == "accepted" else {}

    @property
    def tool(self) -> str:
        """Its tool without a namespace."""
        return str(self.accepted.get("tool", "")).rpartition(".")[2]

    @property
    def n(self) -> str:
        """The number that the workload gave it."""
        return str((self.accepted.get("args") or {}).get("n", ""))

    @property
    def code(self) -> str:
        """How it ended: `ok`, the code of its failure, or `open`."""
        ends = [event.fields for event in self.events if event.kind in ("done", "settled")]
        if not ends:
            return "open"
        return "ok" if ends[-1]["ok"] else str(ends[-1]["failure"]["code"])

    @property
    def retracted(self) -> bool:
        """Whether it was refused, and ended without having begun, which leaves its key to another."""
        return any((event.fields.get("metadata") or {}).get("retracted") for event in self.of("done"))

    @property
    def may_have_run(self) -> bool:
        """Whether its caller was told that it may have run."""
        return any((event.fields.get("failure") or {}).get("code") == "unknown" for event in self.of("done"))

    def of(self, kind: str) -> list[Event]:
        """Its events of one kind."""
        return [event for event in self.events if event.kind == kind]


class Check:
    """The check of one round. A store that is not `durable` may lose its last acknowledgements in a power cut."""

    def __init__(self, folder: Path, store: str, *, durable: bool) -> None:
        self._store = store
        self._folder = folder / "after"
        self._folder.mkdir(exist_ok=True)
        self._durable = durable
        self._effects = Witness(folder).effects()
        self._ledger = [words for path in sorted(folder.glob("ledger-*.jsonl")) for words in lines(path)]
        self._logs: dict[str, list[Event]] = {}
        self._calls: dict[str, Call] = {}
        self._keys: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.counts: Counter[str] = Counter()

    async def run(self) -> list[Violation]:
        """All that is wrong."""
        await self._read()
        self.counts["calls"] = len(self._calls)
        self.counts["effects"] = len(self._effects)
        self.counts["events"] = sum(map(len, self._logs.values()))
        self.counts.update(f"ended {call.code}" for call in self._calls.values())
        parts = (
            self._gaps,
            self._acknowledged,
            self._refused,
            self._once,
            self._children,
            self._steps,
            self._messages,
            self._logouts,
        )
        violations = [one for part in parts for one in part()]
        return [*violations, *await self._state(), *await self._verified()]

    async def _read(self) -> None:
        store = open_store(self._store)
        await store.start("checker")
        try:
            for row in await store.sessions(limit=100_000):
                after, log = 0, self._logs.setdefault(row.id, [])
                while page := await store.read(row.id, after, limit=PAGE):
                    log += page
                    after = page[-1].seq
        finally:
            await store.close()
        with (self._folder / "log.jsonl").open("w") as copy:  # what a reader of a violation wants to see
            for session, log in self._logs.items():
                copy.writelines(json.dumps([session, event.plain()], default=str) + "\n" for event in log)
        for session, log in self._logs.items():
            for event in log:
                if event.call is not None:
                    self._calls.setdefault(event.call, Call(session)).events.append(event)
        for id, call in self._calls.items():
            if (key := call.accepted.get("key")) and not call.retracted:
                self._keys[call.session, key].append(id)

    def _name(self, id: str) -> str:
        call = self._calls[id]
        return f"{call.tool} {call.n} ({id} in {call.session})"

    # The log

    def _gaps(self) -> Iterator[Violation]:
        """Each log counts without a gap; each call is accepted once, and only what settles it follows its end."""
        for session, log in self._logs.items():
            if [event.seq for event in log] != list(range(1, len(log) + 1)):
                yield Violation("gaps", f"the log of {session} has a gap or a repeat")
        for id, call in self._calls.items():
            kinds = [event.kind for event in call.events]
            if kinds[0] != "accepted" or kinds.count("accepted") > 1:
                yield Violation("gaps", f"{self._name(id)} has the events {kinds}")
            late = (
                [kind for kind in kinds[kinds.index("done") + 1 :] if kind not in AFTER_DONE] if "done" in kinds else []
            )
            if late:
                yield Violation("gaps", f"{self._name(id)} was done, and then {late}")
            attempts = [event.fields["attempt"] for event in call.of("started")]
            if attempts != sorted(set(attempts)):
                yield Violation("gaps", f"{self._name(id)} has the attempts {attempts}")

    # Acknowledgements

    def _acknowledged(self) -> Iterator[Violation]:
        """What clients were told is so: calls that were accepted have one end, and it is the one that was told."""
        for id, call in self._calls.items():
            if (ends := len(call.of("done"))) > 1:
                yield Violation("twice", f"{self._name(id)} was done {ends} times")
            elif not ends:
                yield Violation("stuck", f"{self._name(id)} has not ended: {[event.kind for event in call.events]}")
        for (session, key), ids in self._keys.items():
            if len(ids) > 1:
                yield Violation("twice", f"key {key} of {session} stands for {ids}")
        tried = {words[1]: words[2:] for words in self._ledger if words[0] == "try"}
        for words in self._ledger:
            self.counts[words[0]] += 1
            if words[0] == "ack" and words[2] not in self._calls and self._durable:
                yield Violation("lost", f"{words[1:]} was acknowledged and is not in the log")
            elif words[0] == "result" and self._durable:
                yield from self._result(words, *tried[words[1]])

    def _result(self, words: list[Any], tool: str, session: str) -> Iterator[Violation]:
        _, n, id, code, _ = words
        known = [id] if id is not None else self._keys.get((session, f"k-{n}"), [])
        if not known or known[0] not in self._calls:
            if tool != "peek" and code != "unavailable":
                yield Violation("lost", f"{tool} {n} was told as {code} and is not in the log")
            return
        call = self._calls[known[0]]
        if code == "ok" and call.code != "ok":
            yield Violation("lost", f"{self._name(known[0])} was told as ok and is {call.code}")

    # Bodies

    def _refused(self) -> Iterator[Violation]:
        """Nothing happens of what was refused to a client that did not ask again."""
        happened = {effect.n: effect for effect in self._effects}
        for words in self._ledger:
            if words[0] == "gave up" and words[1] in happened:
                yield Violation("twice", f"{words[2]} {words[1]} was refused and happened: {happened[words[1]]}")

    def _once(self) -> Iterator[Violation]:
        """A body that may run once ran once at most, and is known to have run; what is known to have run has."""
        ran: dict[tuple[str, str], list[Effect]] = defaultdict(list)
        for effect in self._effects:
            ran[effect.kind, effect.n].append(effect)
        for (kind, n), times in ran.items():
            if kind not in tools.ONCE:
                continue
            if len(times) > 1:
                yield Violation("twice", f"{kind} {n} happened {len(times)} times: {times}")
            call = self._calls.get(times[0].call)
            if call is None:
                yield Violation("lost", f"{kind} {n} happened and its call {times[0].call} is not in the log")
            elif call.code not in (*RAN, *STOPPED):
                yield Violation("lost", f"{self._name(times[0].call)} happened and is told as {call.code}")
        for id, call in self._calls.items():
            if call.tool in tools.ONCE and call.code == "ok" and not ran[call.tool, call.n]:
                yield Violation("lost", f"{self._name(id)} is told as ok and never happened")

    def _children(self) -> Iterator[Violation]:
        """A parent has one child of each tool, made before its own end."""
        children: dict[tuple[str, str], list[str]] = defaultdict(list)
        for id, call in self._calls.items():
            if (parent := call.accepted.get("parent")) is not None:
                children[parent, call.tool].append(id)
                yield from self._child(id, call, parent)
        for (parent, tool), ids in children.items():
            if len(ids) > 1:
                yield Violation("twice", f"{self._name(parent)} has {len(ids)} children {tool}: {ids}")
        for id, call in self._calls.items():
            if call.tool == "order" and call.code == "ok":
                results = call.of("done")[0].fields["data"]
                missing = [tool for tool in CHILDREN if not children[id, tool]]
                if missing and "unavailable" not in results:  # a child that was not accepted is told so
                    yield Violation("lost", f"{self._name(id)} is ok and has no child {missing}")

    def _child(self, id: str, call: Call, parent: str) -> Iterator[Violation]:
        ends = self._calls[parent].of("done") if parent in self._calls else []
        own = call.of("done")
        if ends and ends[0].seq < call.events[0].seq:
            yield Violation("twice", f"{self._name(id)} was accepted after its parent {parent} was done")
        elif ends and own and ends[0].seq < own[0].seq:
            yield Violation("gaps", f"{self._name(id)} was done after its parent {parent}")

    def _steps(self) -> Iterator[Violation]:
        """A step is recorded once, and no attempt that began after that has taken it again."""
        taken: dict[tuple[str, str], list[Effect]] = defaultdict(list)
        for effect in self._effects:
            if effect.kind in tools.STEPS:
                taken[effect.call, effect.kind].append(effect)
        for id, call in self._calls.items():
            for key, times in Counter(event.fields["key"] for event in call.of("step")).items():
                if times > 1:
                    yield Violation("twice", f"{self._name(id)} recorded {key} {times} times")
            for event in call.of("step"):
                name, attempt, pid = event.fields["value"]
                effects = taken.pop((id, name), [])
                if not _one_window(effects, attempt, pid):
                    text = f"took the step {name}, recorded by attempt {attempt} in {pid}, in {effects}"
                    yield Violation("twice", f"{self._name(id)} {text}")
        for (id, name), effects in taken.items():
            if id in self._calls and self._calls[id].code == "ok":
                yield Violation("lost", f"{self._name(id)} took the step {name} in {effects} and recorded none")

    # Messages

    def _messages(self) -> Iterator[Violation]:
        """A key is one message and one run; the runs of a session follow each other, and each ends once."""
        chats = {session: log for session, log in self._logs.items() if session.startswith("chat")}
        for session, log in chats.items():
            for key, times in Counter(_entered(log)).items():
                if times > 1:
                    yield Violation("twice", f"message {key} of {session} was taken {times} times")
            yield from self._runs(session, log)
        takers: dict[str, set[str]] = defaultdict(set)
        for words in self._ledger:
            if words[0] == "sent":
                takers[words[1]].add(words[2])
        for key, runs in takers.items():
            if len(runs) > 1 and self._durable:
                yield Violation("twice", f"message {key} was taken by the runs {sorted(runs)}")

    def _runs(self, session: str, log: list[Event]) -> Iterator[Violation]:
        going: list[str] = []
        for event in log:
            run = str(event.fields.get("run"))
            if event.kind == "run_started" and event.fields.get("parent") is None:
                if going:
                    yield Violation("twice", f"run {run} of {session} began while {going} went on")
                going.append(run)
            elif event.kind == "run_finished":
                if run not in going:
                    yield Violation("twice", f"run {run} of {session} ended twice")
                else:
                    going.remove(run)
        yield from (Violation("stuck", f"run {run} of {session} has not ended") for run in going)
        queued = {event.seq for event in log if event.kind == "message_queued"}
        taken = {event.fields.get("queued") for event in log if event.kind == "message"}
        yield from (Violation("lost", f"message {seq} of {session} was taken by no run") for seq in queued - taken)

    def _logouts(self) -> Iterator[Violation]:
        """Nothing runs in a session after its logout, unless a power cut took the logout back.

        A body in a process that was paused goes on when that wakes up: nothing can stop it before it meets the runtime.
        Its call must have ended as one that may have run.
        """
        closed = {words[1]: words[2] for words in self._ledger if words[0] == "closed"}
        if not self._durable:
            kept = {session for session, log in self._logs.items() if any(event.kind == "closed" for event in log)}
            closed = {session: at for session, at in closed.items() if session in kept}
        for effect in self._effects:
            if effect.at > closed.get(effect.session, float("inf")) and not self._calls[effect.call].may_have_run:
                yield Violation("wrong", f"{effect.kind} {effect.n} happened after the logout of {effect.session}")

    # State

    async def _state(self) -> list[Violation]:
        """The state is the fold of the log, and has everything that was acknowledged once."""
        items: list[str] = []
        last: str | None = None
        for event in self._logs.get("state", ()):
            changes = (event.fields.get("state") or {}).get("changes", ()) if event.kind in ("done", "settled") else ()
            for change in changes:
                items += [change["value"]] if change["key"] == "items" else []
                last = change["value"] if change["key"] == "last" else last
        violations = [
            Violation("twice", f"tally {n} was added {times} times") for n, times in Counter(items).items() if times > 1
        ]
        done = {call.n for call in self._calls.values() if call.tool == "tally" and call.code == "ok"}
        violations += [Violation("wrong", f"tally {n} ended well and is not in the state") for n in done - set(items)]
        if self._logs.get("state"):
            async with tools.crib(self._folder, self._store) as crib:
                seen = (await crib.open("state", owner="ada")).state.now
                if (seen.get("total", 0), seen.get("items", []), seen.get("last")) != (len(items), items, last):
                    violations.append(Violation("wrong", f"the state is not what the log says: {dict(seen)}"))
        return violations

    async def _verified(self) -> list[Violation]:
        """`toolcrib store verify` finds nothing."""
        words = ("--crib", "tests.faults.tools:plain", "--store", self._store, "--json")
        ran = await asyncio.to_thread(_toolcrib, "store", "verify", *words)
        if ran.returncode == 0:
            return []
        try:
            differences = json.loads(ran.stdout)["differences"]
        except (ValueError, KeyError):
            differences = [ran.stdout + ran.stderr]
        return [Violation("wrong", f"store verify: {one}") for one in differences]


def _entered(log: list[Event]) -> Iterator[str]:
    """The keys of messages as they came in, queued or not, and the numbers of queued ones as runs took them."""
    for event in log:
        if event.kind == "message" and event.fields.get("queued"):
            yield f"number {event.fields['queued']}"
        elif event.kind in ("message", "message_queued") and event.fields.get("key"):
            yield event.fields["key"]


def _one_window(effects: list[Effect], attempt: int, pid: int) -> bool:
    """Whether a step was taken once by whoever recorded it, and else only before that or by an earlier attempt."""
    recorded = [one for one in effects if (one.attempt, one.pid) == (attempt, pid)]
    return len(recorded) == 1 and all(one.attempt < attempt or one.at <= recorded[0].at for one in effects)


def _toolcrib(*words: str) -> CompletedProcess[str]:
    """Runs the command line to its end."""
    with _one_at_a_time:
        return ready.run("-m", "toolcrib", *words, folder=ROOT)
