"""Who gets at which session, and which sessions stay in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from toolcrib import Crib, tool
from toolcrib.errors import Refused
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.session_cache import TAKEN, SessionCache, bounds
from toolcrib.serve.principal import UNKNOWN, Principal
from toolcrib.store import OWNER, LogPosition, WalkedCall

ADA = Principal("ada", auth="key")
WIDE = Principal("ada", ("forge", "vault"), auth="key")
NARROW = Principal("ada", ("forge",), auth="key")
BOB = Principal("bob", auth="key")
NARROW_BOB = Principal("bob", ("forge",), auth="key")
ROOT = Principal("root", scopes=frozenset({"admin"}), auth="key")
NARROW_ROOT = Principal("root", ("forge",), scopes=frozenset({"admin"}), auth="key")
TOO_WIDE = "More was open in this session than your key opens"


@tool(namespace="forge", read_only=True)
async def build() -> str:
    """Build something."""
    return "built"


@tool(namespace="vault", read_only=True)
async def reveal() -> str:
    """Reveal something."""
    return "word"


@pytest.fixture
async def crib() -> AsyncIterator[Crib]:
    async with Crib([build, reveal], default_namespaces=["forge"]) as made:
        yield made


@pytest.fixture
def cache(crib: Crib) -> SessionCache:
    return SessionCache(crib, None)


async def outcome(coroutine: Any) -> str:
    """The id of a session, or why there is none."""
    try:
        return str((await coroutine).id)
    except ApiError as error:
        return error.detail.message


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (ADA, "s"),
        (WIDE, "s"),
        (NARROW, TOO_WIDE),
        (BOB, "There is no such session"),
        (NARROW_BOB, "There is no such session"),
        (ROOT, "s"),
        (NARROW_ROOT, "s"),
    ],
)
async def test_a_session_is_there_for_its_owner_within_their_key_and_for_administrators(
    crib: Crib, cache: SessionCache, principal: Principal, expected: str, forgotten: bool
) -> None:
    session = await crib.open("s", owner="ada", namespaces=["forge", "vault"])
    if forgotten:
        crib._session_table.forget(session)
    assert await outcome(cache.of("s", principal)) == expected
    assert await outcome(cache.row("s", principal)) == expected
    row = await crib.store.session("s")
    assert row is not None
    assert await cache.sees(row, principal) is (expected == "s")
    assert cache.knows(row, principal) is (expected == "s")


async def test_what_was_never_looked_at_is_not_known_to_a_narrow_key(crib: Crib, cache: SessionCache) -> None:
    await crib.open("s", owner="ada", namespaces=["forge"])
    row = await crib.store.session("s")
    assert row is not None
    assert not cache.knows(row, NARROW)
    assert await cache.sees(row, NARROW)
    assert cache.knows(row, NARROW)
    assert not cache.knows(row, NARROW_BOB)


@pytest.mark.parametrize("id", ["none", "", "a b", "x" * 300])
async def test_a_session_that_never_was_is_missing(cache: SessionCache, id: str) -> None:
    assert await outcome(cache.of(id, ADA)) == "There is no such session"


async def test_what_the_crib_keeps_for_itself_is_there_for_nobody(crib: Crib, cache: SessionCache) -> None:
    await crib.store.open("toolcrib.keys", OWNER, 1.0)
    for principal in (ROOT, Principal(OWNER, auth="key"), UNKNOWN):
        assert await outcome(cache.of("toolcrib.keys", principal)) == "There is no such session"


async def test_only_calls_of_sessions_that_somebody_may_read_are_shown(crib: Crib, cache: SessionCache) -> None:
    wide = await crib.open("wide", owner="ada", namespaces=["forge", "vault"])
    small = await crib.open("small", owner="ada", namespaces=["forge"])
    for session in (wide, small, wide):
        await session.call("forge.build")
    rows = [*await crib.store.calls("wide"), *await crib.store.calls("small")]
    spots = [WalkedCall(row, "ada", LogPosition(0.0, 1, number)) for number, row in enumerate(rows)]
    assert [spot.row.session for spot in await cache.visible(spots, ADA)] == ["wide", "wide", "small"]
    assert [spot.row.session for spot in await cache.visible(spots, NARROW)] == ["small"]
    assert await cache.visible(spots, NARROW_BOB) == []


@pytest.mark.parametrize(
    ("principal", "served", "allowed", "first"),
    [
        (WIDE, None, ("forge", "vault"), ["forge", "vault"]),
        (WIDE, ("forge",), ("forge", "vault"), ["forge", "vault"]),
        (ADA, None, ("forge",), None),
        (ADA, ("vault",), ("vault",), ["vault"]),
        (ADA, (), ("forge",), None),
        (ROOT, ("vault",), ("*",), ["vault"]),
        (NARROW_ROOT, ("vault",), ("forge",), ["forge"]),
        (UNKNOWN, ("vault",), ("vault",), ["vault"]),
        (UNKNOWN, None, ("forge",), None),
    ],
)
async def test_what_somebody_may_open_and_what_is_open_at_first(
    crib: Crib, principal: Principal, served: Any, allowed: tuple[str, ...], first: list[str] | None
) -> None:
    cache = SessionCache(crib, served)
    assert cache.allowed(principal) == allowed
    session, new = await cache.open(None, principal, None, None)
    assert new
    assert list(session.namespaces) == (first or ["forge"])
    again, new = await cache.open(session.id, principal, None, None)
    assert (again.id, new) == (session.id, False)
    assert list(again.namespaces) == (first or ["forge"])


@pytest.mark.parametrize(
    ("principal", "message"),
    [
        (NARROW, TOO_WIDE),
        (BOB, "Session 's' cannot be opened"),
        (NARROW_BOB, "Session 's' cannot be opened"),
        (ROOT, "Session 's' cannot be opened"),
    ],
)
async def test_an_id_that_somebody_has_cannot_be_had(
    crib: Crib, cache: SessionCache, principal: Principal, message: str
) -> None:
    await crib.open("s", owner="ada", namespaces=["forge", "vault"])
    with pytest.raises(ApiError) as error:
        await cache.open("s", principal, None, None)
    assert (error.value.detail.code, error.value.detail.message) == ("denied", message)
    assert (error.value.detail.hint == TAKEN) is (message != TOO_WIDE)


@pytest.mark.parametrize("principal", [ADA, NARROW, Principal("ada", (), auth="jwt")])
async def test_who_asks_for_a_namespace_that_is_closed_to_them_is_refused(
    cache: SessionCache, principal: Principal
) -> None:
    with pytest.raises(Refused) as refused:
        await cache.open("s", principal, ["vault"], None)
    assert (refused.value.code, refused.value.message.startswith("Namespace")) == ("denied", True)


async def test_who_has_no_key_is_told_to_use_one(cache: SessionCache) -> None:
    with pytest.raises(ApiError) as error:
        await cache.open("s", UNKNOWN, ["vault"], None)
    assert (error.value.status, error.value.detail.code) == (401, "unauthorized")
    assert "use a key that opens it" in (error.value.detail.hint or "")


async def test_what_cannot_be_opened_is_told_as_it_is(cache: SessionCache) -> None:
    with pytest.raises(Refused) as refused:
        await cache.open("a b", ADA, None, None)
    assert refused.value.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("principal", "expected"), [(ADA, None), (NARROW, ("forge",)), (ROOT, None), (NARROW_ROOT, None)]
)
def test_a_key_bounds_what_is_there_unless_its_holder_looks_after_all(principal: Principal, expected: Any) -> None:
    assert bounds(principal) == expected


async def gone(crib: Crib, *sessions: str) -> None:
    """Returns when these are in memory no more; they are let go without a word."""
    async with asyncio.timeout(60):
        while any(crib._session_table.at_hand(session) for session in sessions):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def test_what_is_idle_is_let_go_and_what_the_program_opened_stays(crib: Crib) -> None:
    cache = SessionCache(crib, None, idle_s=0.05)
    await cache.open("first", ADA, None, None)
    await crib.open("own", owner="ada", namespaces=["forge"])
    assert cache.known("own", ADA) is not None
    await gone(crib, "first")
    assert crib._session_table.at_hand("own") is not None
    await cache.open("second", ADA, None, None)
    await cache.of("first", ADA)
    await gone(crib, "second")
    assert crib._session_table.at_hand("own") is not None
    cache.close()


async def test_a_session_in_which_something_runs_stays(crib: Crib) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(namespace="forge", read_only=True)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "done"

    crib.add(wait)
    cache = SessionCache(crib, None, idle_s=0.02)
    session, _ = await cache.open("busy", ADA, None, None)
    await cache.open("idle", ADA, None, None)
    call = asyncio.ensure_future(session.call("forge.wait"))
    await begun.wait()
    await gone(crib, "idle")
    await cache.open("idle", ADA, None, None)
    await gone(crib, "idle")
    assert crib._session_table.at_hand("busy") is session
    go.set()
    assert (await call).data == "done"
    await gone(crib, "busy")
    cache.close()


async def test_nothing_is_let_go_after_the_end(crib: Crib) -> None:
    cache = SessionCache(crib, None, idle_s=0.02)
    await cache.open("s", ADA, None, None)
    cache.close()
    other = SessionCache(crib, None, idle_s=0.03)
    await other.open("other", ADA, None, None)
    await gone(crib, "other")
    assert crib._session_table.at_hand("s") is not None
    other.close()
    SessionCache(crib, None).close()
