"""Sessions driven at random against a model of the log.

Calls of every kind, answers right and wrong, cancels, logouts, crashes and restarts come in any order. Whatever came,
the log keeps its promises at every moment, and in the end each accepted call has exactly one `done`.

`TOOLCRIB_EXPLORE=1` tries other and longer stories than the ones that every run tries.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.requirements import requirement
from toolcrib import Context, Crib, CribLimits, Event, Refused, Result, Session, Tool, ToolFailure, tool
from toolcrib._call.history import History, fold, result
from toolcrib._call.lifecycle import Life
from toolcrib.cli.verify import differences
from toolcrib.store import Store
from toolcrib.store.memory import MemoryStore
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.types import Effect

EXPLORE = bool(os.environ.get("TOOLCRIB_EXPLORE"))
TIME_S = 60
LISTS = ("unresolved", "ongoing", "completed")


class World:
    """What calls do to the outside: counted by call, kept through every crash."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.mailed: Counter[str] = Counter()
        self.gate = asyncio.Event()


def tools(world: World) -> list[Tool]:  # noqa: C901, PLR0915 - one small function for each kind
    """Calls of every kind; each counts its start under its own id."""

    def made(effect: Effect, name: str, **fields: Any) -> Any:
        return tool(effect=effect, name=name, repeat=None, **fields)

    async def returns(ctx: Context, n: int) -> int:
        """Return at once."""
        world.ran[ctx.id] += 1
        return n

    async def pauses(ctx: Context, n: int) -> int:
        """Pause, report, return."""
        world.ran[ctx.id] += 1
        await asyncio.sleep(0)
        ctx.progress("half", 0.5)
        ctx.output("text")
        await asyncio.sleep(0)
        return n

    async def holds(ctx: Context, n: int) -> int:
        """Hold until let go."""
        world.ran[ctx.id] += 1
        await world.gate.wait()
        return n

    async def fails(ctx: Context, n: int) -> int:
        """Fail on purpose or by accident."""
        world.ran[ctx.id] += 1
        if n % 2:
            raise RuntimeError("by accident")
        raise ToolFailure("failed", "on purpose")

    async def streams(ctx: Context, n: int) -> AsyncIterator[int]:
        """Stream some values."""
        world.ran[ctx.id] += 1
        for value in range(3):
            yield value
            await asyncio.sleep(0)

    async def asks(ctx: Context, n: int) -> str:
        """Ask, mail in a step, ask again."""
        name = (await ctx.ask("Name?", schema={"type": "string"})).value
        await ctx.step("mail", lambda: world.mailed.update([ctx.id]))
        again = await ctx.ask("Sure?", kind="confirm", resume="pass")
        return f"{name} {again.action}"

    async def nests(ctx: Context, n: int, inner: str = "once_pauses") -> Any:
        """Call another tool."""
        await ctx.step("first", lambda: n)
        inside = await ctx.call(inner, {"n": n})
        if n % 3 == 0:
            await ctx.ask("On?")
        both = await asyncio.gather(*(ctx.call("once_returns", {"n": n}) for _ in range(2)))
        return [inside.data, *(one.data for one in both)]

    found = [made("once", "asks")(asks), made("once", "confirmed", destructive=True)(returns)]
    found += [made(effect, f"{effect}_nests")(nests) for effect in ("once", "idempotent")]
    found += [made("once", "background", background=True)(pauses)]
    for effect in ("read", "idempotent", "once"):
        found += [made(effect, f"{effect}_{body.__name__}")(body) for body in (returns, pauses, holds, fails, streams)]
    return found


NAMES = [found.name for found in tools(World())]


class Mortal:
    """A store whose process can die: from then on nothing that it is told is written, and nobody gets an answer."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._dead = False
        self.over = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return found if not self._dead or not callable(found) else self._silence(name)

    def _silence(self, name: str) -> Any:
        async def never(*args: Any, **more: Any) -> Any:
            raise asyncio.CancelledError

        return never if name != "put" else lambda write: None

    async def close(self) -> None:
        """It ends in peace."""
        await self._store.close()
        self.over = True

    def die(self, worker: str) -> None:
        """What is still in memory is gone; what was handed to the operating system is not."""
        if self.over:
            return
        self._dead = self.over = True
        if isinstance(self._store, MemoryStore):
            self._store._workers.discard(worker)
            return
        writer = self._store._writer
        writer._behind.clear()
        if writer._timer is not None:
            writer._timer.cancel()
        writer._queue.put([])
        writer._thread.join()
        self._store._readers.shutdown()
        self._store._reading.close()
        self._store._writing.close()
        self._store._workers.leave()


class Machine(RuleBasedStateMachine):
    """One session of one crib after the other over one store."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.count = 0
        self.submitted: set[str] = set()
        self.waiting_for: dict[int, asyncio.Task[Result]] = {}
        self.told: dict[int, Result] = {}
        self.answers: dict[str, tuple[str, Any, str]] = {}
        self.logged: list[Event] = []
        self.world = World()

    def new_store(self) -> Any:
        raise NotImplementedError

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, TIME_S))

    @initialize()
    def begin(self) -> None:
        self.do(self._begin())

    async def _begin(self) -> None:
        self.world.gate = asyncio.Event()
        self.store = Mortal(self.new_store())
        limits = CribLimits(attempts=50, per_session=4, cleanup_s=1)
        self.crib = Crib(tools(self.world), store=cast(Store, self.store), limits=limits)
        await self.crib.start()
        self.session: Session = await self.crib.open("s", owner="ada")

    # What happens to it

    @rule(name=st.sampled_from(NAMES), turns=st.integers(0, 4))
    def calls(self, name: str, turns: int) -> None:
        self.count += 1
        work = self.session.call(name, {"n": self.count})
        self.waiting_for[self.count] = self.loop.create_task(work)
        self.do(self._turns(turns))

    @rule(name=st.sampled_from(NAMES), keyed=st.booleans())
    def submits(self, name: str, keyed: bool) -> None:
        self.count += 1
        key = f"k{self.count}" if keyed else None
        call = self.do(self.session.submit(name, {"n": self.count}, key=key))
        self.submitted.add(call.id)
        if key is not None:
            assert self.do(self.session.submit(name, {"n": self.count}, key=key)).id == call.id

    @rule(name=st.sampled_from(["once_returns", "once_pauses", "asks"]), turns=st.integers(0, 3))
    def nests(self, name: str, turns: int) -> None:
        self.count += 1
        work = self.session.call("once_nests", {"n": self.count, "inner": name})
        self.waiting_for[self.count] = self.loop.create_task(work)
        self.do(self._turns(turns))

    @rule(name=st.sampled_from(["nobody", "asks"]))
    def is_wrong(self, name: str) -> None:
        outcome = self.do(self.session.call(name, {"m": 1}))
        assert outcome.failure.code in ("not_found", "invalid_arguments")

    @rule(turns=st.integers(1, 10))
    def goes_on(self, turns: int) -> None:
        self.do(self._turns(turns))

    async def _turns(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    @rule()
    def comes_to_rest(self) -> None:
        self.do(self._rest())

    async def _rest(self) -> None:
        for _ in range(10):
            await self.crib.store.flush()
            await asyncio.sleep(0)

    @rule()
    def lets_go(self) -> None:
        self.world.gate.set()
        self.do(self._rest())
        self.world.gate = asyncio.Event()

    @rule(which=st.integers(0), action=st.sampled_from(["accept", "accept", "decline", "cancel"]), right=st.booleans())
    def answers_something(self, which: int, action: str, right: bool) -> None:
        questions = self.do(self.session.questions())
        if not questions:
            return
        asked = questions[which % len(questions)]
        value: Any = "bob" if right or asked.schema is None else 5
        key = f"{asked.id}:me"
        if value == 5 and action == "accept":
            with pytest.raises(Refused, match="does not fit"):
                self.do(self.session.answer(asked.id, action, value, key=key))
            return
        self.do(self.session.answer(asked.id, action, value, key=key))
        self.answers[asked.id] = (action, value, key)

    @rule(which=st.integers(0), same=st.booleans())
    def answers_again(self, which: int, same: bool) -> None:
        if not self.answers:  # no precondition: whether there are some is a matter of time, and a story has to be fixed
            return
        question = sorted(self.answers)[which % len(self.answers)]
        action, value, key = self.answers[question]
        if same:
            assert self.do(self.session.answer(question, action, value, key=key)).key == key
            return
        with pytest.raises(Refused) as caught:
            self.do(self.session.answer(question, action, value, key="somebody else"))
        assert caught.value.code == "already_answered"

    @rule(which=st.integers(0))
    def cancels_something(self, which: int) -> None:
        rows = self.do(self.crib.store.calls("s", ("queued", "waiting", "running")))
        if rows:
            id = rows[which % len(rows)].id
            self.do(self.session.cancel(id))
            assert self.do(self.session._row(id)).state == "done"

    @rule()
    def logs_out_and_in(self) -> None:
        self.do(self.session.close(timeout=0))
        self.session = self.do(self.crib.open("s", owner="ada"))

    @rule()
    def restarts(self) -> None:
        self.do(self.crib.stop(grace=0))
        self._left_alone()
        self.begin()

    @rule(turns=st.integers(0, 3))
    def crashes(self, turns: int) -> None:
        self.do(self._turns(turns))
        self._crash()
        self._left_alone()
        self.begin()

    def _crash(self) -> None:
        self.store.die(self.crib.pipeline.worker)
        self.crib.pipeline.scheduler.stop()
        self.crib.pipeline.starter.close()
        assert self.crib.pipeline.threads is not None
        self.crib.pipeline.threads.shutdown()

    def _left_alone(self) -> None:
        """Whoever waited is gone with the process; what they had been told before counts. One cancel is enough."""
        self._listen()
        assert self._cancel(TIME_S) == set()
        self._listen()
        self.waiting_for.clear()

    def _cancel(self, time_s: float) -> set[asyncio.Task[Any]]:
        """Cancels all tasks, as a loop does that is shut down; those that went on nevertheless."""
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        return self.loop.run_until_complete(asyncio.wait(pending, timeout=time_s))[1] if pending else set()

    def _listen(self) -> None:
        for n, task in list(self.waiting_for.items()):
            if task.done() and not task.cancelled() and task.exception() is None:
                self.told[n] = task.result()
                del self.waiting_for[n]

    # What always holds

    @invariant()
    def the_log_keeps_its_promises(self) -> None:
        if not hasattr(self, "session"):
            return
        self._listen()
        self.do(self._check())

    async def _check(self) -> None:
        events = [event async for event in self.session.events(follow=False)]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[: len(self.logged)] == self.logged, "what was seen once has changed"
        self.logged = events
        check_lives(events)
        calls = fold("s", events)
        assert self.submitted <= calls.keys()
        await self._compare()
        self._check_effects(calls)
        for at in {self.count % (len(events) + 1), len(events)}:
            assert await self._lists(at) == listed(events[:at])

    async def _compare(self) -> None:
        """Log and index are read one after the other while calls go on, so what differs is looked at again."""
        found = await differences(self.crib.store, "s")
        for _ in range(10):
            if not found:
                return
            await self._rest()
            found = await differences(self.crib.store, "s")
        assert found == []

    def _check_effects(self, calls: dict[str, History]) -> None:
        for id, call in calls.items():
            if call.accepted.effect == "once" and not call.accepted.tool.endswith("asks"):
                assert self.world.ran[id] <= 1
            assert self.world.mailed[id] <= 1
            if call.done is not None and call.done.ok and id in self.world.ran:
                assert self.world.ran[id] >= 1

    async def _lists(self, at: int | None) -> dict[str, str]:
        found = {name: await getattr(self.session, name)(at=at) for name in LISTS}
        entries = [(entry.id, name) for name, listed in found.items() for entry in listed]
        assert len(dict(entries)) == len(entries), "a call is in two lists"
        return dict(entries)

    # How it ends

    def teardown(self) -> None:
        """Whatever fails, nothing of it is left behind for other tests to stumble over."""
        with ExitStack() as left:
            left.callback(self.folder.cleanup)
            left.callback(self.loop.close)
            left.callback(self._let_go)
            if hasattr(self, "crib"):
                left.callback(self._crash)
            if hasattr(self, "session") and not self.store.over:
                self.do(self._end())
                self.do(self.crib.stop(grace=0))
                self._left_alone()

    def _let_go(self) -> None:
        for _ in range(TIME_S):
            if asyncio.all_tasks(self.loop):
                self._cancel(1)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())

    async def _end(self) -> None:
        """Everything is let go, answered or cancelled; then each accepted call has its one end."""
        self.world.gate.set()
        while await self.crib.store.calls("s", ("queued", "waiting", "running")):
            for question in await self.session.questions():
                await self.session.answer(question.id, "accept", "bob")
            await self._rest()
        if self.waiting_for:
            await asyncio.wait(self.waiting_for.values())
        self._listen()
        assert self.waiting_for == {}
        events = [event async for event in self.session.events(follow=False)]
        check_lives(events)
        calls = fold("s", events)
        assert all(call.done is not None for call in calls.values())
        assert await self._lists(None) == dict.fromkeys(calls, "completed")
        self._check_effects(calls)
        self._check_told(calls)
        made = Counter(call.accepted.parent for call in calls.values() if call.accepted.parent is not None)
        assert all(count <= 3 for count in made.values()), "a body that ran again called its children again"

    def _check_told(self, calls: dict[str, History]) -> None:
        """Whoever was told a result finds the same in the log, but for reads that a crash took with it."""
        logged = {
            call.accepted.args["n"]: call
            for call in calls.values()
            if isinstance(call.accepted.args, dict) and "n" in call.accepted.args and call.accepted.parent is None
        }
        for n, outcome in self.told.items():
            if n not in logged:
                assert outcome.failure is None or outcome.failure.code != "internal"
                continue
            done = logged[n].done
            assert done is not None
            if logged[n].accepted.background:
                assert outcome.data["id"] == logged[n].id
            else:
                assert outcome == result(done)


def check_lives(events: list[Event]) -> None:
    """Every call goes through its states in an order that there is; nothing follows `done`."""
    lives: dict[str, Life] = {}
    for event in events:
        if event.call is not None:
            lives.setdefault(event.call, Life()).take(event)
    assert [fault for life in lives.values() for fault in life.faults] == []


def listed(events: list[Event]) -> dict[str, str]:
    """Which list each call is in, as the model has it."""
    return {id: call.list for id, call in fold("s", events).items()}


class OverMemory(Machine):
    """The store is an object that outlives its crib."""

    def new_store(self) -> Any:
        self.memory = getattr(self, "memory", None) or MemoryStore()
        return self.memory


class OverSqlite(Machine):
    """The store is a file."""

    def new_store(self) -> Any:
        return SqliteStore(f"sqlite:///{Path(self.folder.name)}/log.db")


def stories(examples: int) -> settings:
    return settings(
        max_examples=examples * 20 if EXPLORE else examples,
        stateful_step_count=60 if EXPLORE else 30,
        deadline=None,
        derandomize=not EXPLORE,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@requirement("store.2", "aomi.view.1", "aomi.view.2")
class TestOverMemory(OverMemory.TestCase):  # type: ignore[misc, valid-type]
    settings = stories(15)


@requirement("store.2", "aomi.view.1", "aomi.view.2", "engine.1")
class TestOverSqlite(OverSqlite.TestCase):  # type: ignore[misc, valid-type]
    settings = stories(12)
