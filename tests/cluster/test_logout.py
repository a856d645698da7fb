"""Logout in a cluster: it holds at every node, and ends what any worker runs."""

from tests.cluster.place import Place, log, node, submit
from tests.requirements import requirement
from toolcrib import Result


def said(result: Result) -> tuple[str, str] | None:
    return None if result.failure is None else (result.failure.code, result.failure.message)


@requirement("reliability.logout.1", "reliability.logout.2")
async def test_a_logout_ends_what_a_worker_runs_and_holds_at_every_node(place: Place) -> None:
    await place.worker()
    async with place.session() as session, place.session() as other:
        calls = await submit(session, "charge", [1, 2], wait="never")
        await place.happened(2, "charge")
        closed = await other.close(timeout=0.5)
        assert (closed.finished, closed.timed_out) == (0, 2)
        for call in calls.values():
            assert said(await session.result(call)) == ("timeout", "Timed out during logout")
        for tool in ("charge", "index", "peek"):
            assert said(await session.call(tool, {"n": 3})) == ("unavailable", "Session is closed")
            assert said(await session.result((await session.submit(tool, {"n": 3})).id)) is not None
        assert [n for what, n, _ in place.lines() if n == 3] == []
        again = await session.crib.open("s", owner="ada")
        assert (await again.call("index", {"n": 4})).ok
        kinds = [event.kind for event in await log(again)]
    assert kinds.index("closing") < kinds.index("closed")


@requirement("reliability.logout.2")
async def test_a_logout_waits_for_what_a_worker_runs(place: Place) -> None:
    await place.worker()
    async with place.session() as session, place.session() as other:
        calls = await submit(session, "charge", [1], wait="soon")
        await place.happened(1, "charge")
        place.open("soon")
        closed = await other.close(timeout=60)
        assert closed.timed_out == 0
        assert said(await session.result(calls[1])) is None


@requirement("reliability.state.6")
async def test_nodes_tell_how_they_declare_the_keys_of_the_state(place: Place) -> None:
    await place.worker()
    async with place.api() as crib:
        found = await node(crib, lambda one: one.facts.get("role") == "worker")
        assert found.facts["state_keys"] == {}
