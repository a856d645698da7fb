"""Whatever is answered, in whatever order, however often: nothing runs that nobody approved as it ran."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib import Context, Crib, Refused, Session, tool
from toolcrib.store.memory import MemoryStore

ACTIONS = ("accept", "decline", "cancel", "fail", "forge", "edit", "session", "restart", "submit")
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=14)

PEOPLE = ("ada", "ann", "bob", "sam", "zed", "scout", "finance")
GROUPS = {"finance": ["ann", "bob", "scout"], "security": ["sam", "bob"]}
RULES = [
    {"ask": 'pay(order = "o0")', "approvers": "finance", "quorum": 2},
    {"ask": 'pay(order = "o1")', "approvers": ["security", "ann"]},
    {"ask": 'pay(order = "o2")', "quorum": 3},
]
NEEDED = {"o0": (2, {"ann", "bob"}), "o1": (1, {"ann", "bob", "sam"}), "o2": (3, {"ada", "ann", "bob", "sam"})}
DEMANDING = {"groups": GROUPS, "approvers": ["finance", "security"], "rules": RULES}
SAID = ("accept", "accept", "accept", "accept", "decline", "edit", "session", "restart", "both", "submit")
DEMANDED = st.lists(
    st.tuples(st.sampled_from(SAID), st.integers(0, 5), st.integers(0, 2), st.sampled_from(PEOPLE)),
    min_size=1,
    max_size=20,
)


class Place:
    """A crib over a store that outlives it, and what its tool really did."""

    def __init__(self, **options: Any) -> None:
        self.store = MemoryStore()
        self.options = options
        self.ran: list[tuple[str, str]] = []

        @tool(namespace="n", requires_confirmation=True)
        async def pay(ctx: Context, order: str) -> str:
            """Pay an order."""
            self.ran.append((ctx.id, order))
            return order

        self.tools = [pay]

    async def open(self) -> tuple[Crib, Session]:
        crib = Crib(self.tools, store=self.store, **self.options)
        await crib.start()
        return crib, await crib.open("s", owner="ada", namespaces=["n"])


async def _answer(session: Session, what: str, question: str, order: str, actor: str = "bob") -> None:
    if what == "forge":
        question = f"{question.rpartition('-')[0]}-9"
    more: dict[str, Any] = {"key": order} if what == "fail" else {}
    if what == "edit":
        more["arguments"] = {"order": order}
    if what == "session":
        more["scope"] = "session"
    action = what if what in ("accept", "decline", "cancel", "fail") else "accept"
    try:
        await session.answer(question, action, actor=actor, **more)
    except Refused:
        pass


async def _play(steps: list[tuple[str, int, int]]) -> None:
    place = Place()
    crib, session = await place.open()
    asked: list[str] = []
    for what, which, order in steps:
        if what == "submit" or not asked:
            call = await session.submit("pay", {"order": f"o{order}"})
            asked += [question.id for question in await session.questions() if question.call == call.id]
        elif what == "restart":
            await crib.stop()
            crib, session = await place.open()
        else:
            await _answer(session, what, asked[which % len(asked)], f"o{order}")
    await crib.stop()
    await _check(place)


async def _check(place: Place) -> None:
    events = await place.store.read("s", limit=10_000)
    for call, order in place.ran:
        lines = [event for event in events if event.call == call]
        (yes,) = [event for event in lines if event.kind == "answered"]
        (begun,) = [event for event in lines if event.kind == "started"]
        assert yes.fields["action"] == "accept"
        assert yes.seq < begun.seq
        approved = yes.fields.get("args") or lines[0].fields["args"]
        assert approved == {"order": order} == begun.fields["args"]
    assert len({call for call, _ in place.ran}) == len(place.ran)


@requirement("policy.approve.1", "policy.approve.2")
@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_no_sequence_of_answers_runs_a_call_without_a_matching_approval(steps: list[tuple[str, int, int]]) -> None:
    asyncio.run(_play(steps))


async def test_a_call_that_was_approved_does_run() -> None:
    place = Place()
    crib, session = await place.open()
    call = await session.submit("pay", {"order": "o1"})
    (question,) = await session.questions()
    await session.answer(question.id, "accept", actor="bob", arguments={"order": "o2"})
    assert (await session.result(call.id)).data == "o2"
    assert place.ran == [(call.id, "o2")]
    await crib.stop()
    await _check(place)


async def _play_together(steps: list[tuple[str, int, int, str]]) -> int:
    """The same with rules that demand people; how many calls ran."""
    place = Place(policy=DEMANDING)
    crib, session = await place.open()
    asked: list[str] = []
    for what, which, order, actor in steps:
        question = asked[which % len(asked)] if asked else ""
        if what == "submit" or not asked:
            call = await session.submit("pay", {"order": f"o{order}"}, by=("agent", "scout"))
            asked += [one.id for one in await session.questions() if one.call == call.id]
        elif what == "restart":
            await crib.stop()
            crib, session = await place.open()
        elif what == "both":
            others = (actor, PEOPLE[order])
            await asyncio.gather(*(_answer(session, "accept", question, "", other) for other in others))
        else:
            await _answer(session, what, question, f"o{order}", actor)
    await crib.stop()
    await _check(place)
    events = await place.store.read("s", limit=10_000)
    for id, name in place.ran:
        agreed = [event for event in events if event.call == id and event.kind in ("endorsed", "answered")]
        who, (quorum, able) = {event.fields["actor"] for event in agreed}, NEEDED[name]
        assert len(who & able) >= quorum
        assert who <= {"ada", "ann", "bob", "sam"}
        if quorum > 1:
            assert not any("args" in event.fields for event in agreed)
    return len(place.ran)


@requirement("policy.approve.5", "policy.approve.2")
@settings(max_examples=200, deadline=None)
@given(DEMANDED)
def test_no_sequence_of_answers_runs_a_call_without_all_who_have_to_agree(
    steps: list[tuple[str, int, int, str]],
) -> None:
    asyncio.run(_play_together(steps))


def test_calls_to_which_all_agreed_do_run() -> None:
    one = [("submit", 0, 0, ""), ("accept", 0, 0, "ann"), ("restart", 0, 0, ""), ("accept", 0, 0, "bob")]
    two = [("submit", 0, 2, ""), ("both", 1, 0, "ann"), ("accept", 1, 0, "sam")]
    assert asyncio.run(_play_together([*one, *two])) == 2
