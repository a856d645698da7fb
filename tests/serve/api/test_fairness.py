"""With keys, one owner takes nothing away from the others, whatever they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from toolcrib import Context, Crib, CribLimits, tool
from toolcrib._call.owner_turns import LoopTurns
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.limits import RequestLimiter, ServeLimits
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Guard, Principal
from toolcrib.serve.start_token import StartToken


def keys_of(*names: str) -> tuple[Guard, dict[str, str]]:
    keys = {name: new_key() for name in names}
    guard = ApiKeys({kept: Principal(name, auth="key") for name, (_, kept) in keys.items()})
    return guard, {name: key for name, (key, _) in keys.items()}


@asynccontextmanager
async def desks(*tools: Any, **options: Any) -> AsyncIterator[dict[str, Desk]]:
    guard, keys = keys_of("ada", "bob")
    async with desk(Crib(tools, **options), guard=guard) as made:
        yield {name: made.as_(key) for name, key in keys.items()}


@requirement("security.fair.1")
async def test_who_fills_a_server_with_calls_leaves_seats_for_others() -> None:
    gate = asyncio.Event()

    @tool(read_only=True)
    async def slow() -> int:
        """Take a while."""
        await gate.wait()
        return 1

    @tool(read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 1

    async with desks(slow, quick, limits=CribLimits(per_crib=32)) as of:
        for _ in range(4):
            session = await of["ada"].open()
            for _ in range(16):
                await of["ada"].post(f"/sessions/{session}/calls", tool="slow", wait=False)
        assert (await of["bob"].call(await of["bob"].open(), "quick"))["ok"]
        gate.set()


@requirement("security.fair.1")
@pytest.mark.parametrize("guard", [None, StartToken("s" * 32)], ids=["nobody", "token"])
async def test_a_server_for_one_person_has_nothing_to_share(guard: Guard | None) -> None:
    async with desk(Crib(), guard=guard) as alone:
        assert not alone.site.api.crib.pipeline.scheduler.shared


@requirement("security.fair.3")
async def test_lists_of_one_owner_read_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(requires_confirmation=True)
    async def careful() -> int:
        """Be confirmed first."""
        return 1

    async with desks(careful) as of:
        sessions = {}
        for name, number in (("ada", 50), ("bob", 2)):
            session = sessions[name] = await of[name].open()
            for _ in range(number):
                await of[name].post(f"/sessions/{session}/calls", tool="careful", wait=False)
        store = of["bob"].api.crib.store

        async def nothing(*_: Any, **__: Any) -> Any:
            raise AssertionError("what is everybody's was listed")

        listed = store.calls
        monkeypatch.setattr(
            store, "calls", lambda session=None, *a, **k: (listed if session else nothing)(session, *a, **k)
        )
        (seen,) = (await of["bob"].get("/sessions"))["items"]
        assert (seen["id"], seen["waiting"]) == (sessions["bob"], 2)
        assert len((await of["bob"].get("/questions"))["items"]) == 2
        assert len((await of["bob"].get("/calls", state="waiting"))["items"]) == 2


@requirement("security.fair.4")
async def test_requests_begin_in_turns_of_those_who_sent_them() -> None:
    turns, order = LoopTurns({"eve": 2}), list[str]()

    async def request(name: str) -> None:
        if (turn := turns.take(name)) is not None:
            await turn
        order.append(name)

    await request("bob")
    sent = [asyncio.ensure_future(request("ada")) for _ in range(9)]
    sent += [asyncio.ensure_future(request(name)) for name in ("eve", "eve", "eve", "eve", "bob")]
    await asyncio.wait(sent)
    assert order[1:5] == ["ada", "eve", "eve", "bob"]
    assert order[5:8] == ["ada", "eve", "eve"]
    assert order[8:] == ["ada"] * 7


@requirement("security.fair.4")
async def test_who_is_alone_is_not_held_back() -> None:
    turns = LoopTurns({})
    assert [turns.take("ada") for _ in range(50)] == [None] * 50


@requirement("security.fair.4")
async def test_a_request_does_not_wait_for_all_of_somebody_else() -> None:
    starts: list[str] = []

    @tool(read_only=True)
    async def work(ctx: Context) -> int:
        """Work."""
        starts.append(ctx.owner)
        return 1

    async with desks(work) as of:
        sessions = {name: await of[name].open() for name in of}
        for name in of:
            await of[name].call(sessions[name], "work")
        starts.clear()
        site, noisy = of["ada"].site, [posted(of["ada"], sessions["ada"]) for _ in range(100)]
        requests = [asyncio.ensure_future(site(*one)) for one in [*noisy, posted(of["bob"], sessions["bob"])]]
        await asyncio.wait(requests)
        assert len(starts) == 101
        assert starts.index("bob") <= 4


def posted(sender: Desk, session: str) -> tuple[Any, Any, Any]:
    """A call as a server gives it to the application."""
    body = b'{"tool":"work"}'
    key = sender.headers["Authorization"].encode()
    headers = [(b"host", b"127.0.0.1"), (b"authorization", key), (b"content-type", b"application/json")]
    path = f"/v1/sessions/{session}/calls"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200

    return {**scope, "headers": headers}, receive, send


@requirement("security.fair.8")
async def test_no_principal_takes_all_streams() -> None:
    limiter = RequestLimiter(ServeLimits(streams=8))
    limiter.shared = True
    with ExitStack() as opened:

        def open_streams(name: str) -> int:
            number = 0
            with suppress(ApiError):
                while True:
                    limiter.enter(Principal(name))
                    opened.enter_context(limiter.stream(Principal(name)))
                    number += 1
            return number

        assert [open_streams(name) for name in ("ada", "bob", "eve")] == [4, 2, 1]
        with pytest.raises(ApiError, match="4 streams of yours are open, and others need the rest"):
            limiter.spare(Principal("ada"))
