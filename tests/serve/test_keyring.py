"""API keys of a store: what is known of them, when they hold, and how servers over one store learn of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolcrib.errors import Refused, StoreError
from toolcrib.events import KeyRevoked
from toolcrib.serve.keyring import LOG, USED_S, ApiKey, Keyring, keyring
from toolcrib.serve.keys import ApiKeys
from toolcrib.serve.principal import Guards, NotAdmitted
from toolcrib.store import OWNER, Store, Write, draft, open_store

SOON_S = 60


class Shop:
    """A store, and the time there."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.time = 1000.0

    def keyring(self) -> Keyring:
        return Keyring(lambda: self.store, lambda: self.time)

    async def log(self) -> list[tuple[str, str]]:
        return [(event.kind, event.fields["id"]) for event in await self.store.read(LOG, 0)]

    async def logged(self, count: int) -> list[tuple[str, str]]:
        """The log when it has so many lines."""
        async with asyncio.timeout(SOON_S):
            while len(lines := await self.log()) < count:
                await self.store.wait(LOG, len(lines))
        return lines


@asynccontextmanager
async def opened() -> AsyncIterator[Shop]:
    store = open_store("memory:")
    await store.start("w")
    yield Shop(store)
    await store.close()


async def admitted(keys: Keyring, key: str) -> str | None:
    """Who a key stands for, if it opens anything."""
    try:
        return (await keys.admit({b"authorization": f"Bearer {key}".encode()})).name
    except NotAdmitted as error:
        return None if error.message == "The API key is not known" else error.message


async def test_a_key_holds_until_the_very_moment_at_which_it_expires() -> None:
    async with opened() as shop:
        keys = shop.keyring()
        key, known = await keys.add("ada", by="root", expires_at=1010.0)
        shop.time = 1009.9
        assert known.holds(shop.time)
        assert await admitted(keys, key) == "ada"
        shop.time = 1010.0
        assert not known.holds(shop.time)
        assert await admitted(keys, key) is None


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({}, True),
        ({"expires_at": 11.0}, True),
        ({"expires_at": 10.0}, False),
        ({"revoked_at": 9.0}, False),
        ({"revoked_at": 9.0, "expires_at": 11.0}, False),
    ],
)
def test_a_key_opens_something_unless_it_was_revoked_or_has_expired(fields: dict[str, Any], holds: bool) -> None:
    assert ApiKey("k-1", "laptop", "ada", 1.0, "root", **fields).holds(10.0) is holds


async def test_no_key_and_an_unknown_one_are_told_apart() -> None:
    async with opened() as shop:
        with pytest.raises(NotAdmitted, match="Send an API key as a bearer token"):
            await shop.keyring().admit({})
        assert await admitted(shop.keyring(), "tc_other") is None


async def test_what_is_known_of_a_key_is_what_it_was_made_with() -> None:
    async with opened() as shop:
        keys = shop.keyring()
        key, known = await keys.add(
            "ada", by="root", name="laptop", scopes=["read", "call", "read"], namespaces=["shop"], expires_at=2000.0
        )
        assert (known.name, known.owner, known.by, known.created_at) == ("laptop", "ada", "root", 1000.0)
        assert (known.scopes, known.namespaces, known.expires_at) == (("read", "call"), ("shop",), 2000.0)
        assert (known.last_used, known.revoked_at) == (None, None)
        principal = await keys.admit({b"authorization": f"Bearer {key}".encode()})
        assert (principal.name, principal.namespaces, principal.auth) == ("ada", ("shop",), "key")
        assert principal.scopes == {"read", "call"}
        _, plain = await keys.add("bob", by="root")
        assert (plain.name, plain.scopes, plain.namespaces, plain.expires_at) == ("bob", (), None, None)
        assert keys.keys == [known, plain]
        await keys.stop()


@pytest.mark.parametrize(
    ("owner", "fields", "message"),
    [
        ("ada", {"scopes": ["read", "odd"]}, "There is no scope 'odd'"),
        (" ", {}, "' ' can own nothing"),
        (OWNER, {}, f"'{OWNER}' can own nothing"),
        ("ada", {"expires_at": 1000.0}, "The key would have expired already"),
        ("ada", {"expires_at": 999.0}, "The key would have expired already"),
    ],
)
async def test_a_key_that_can_open_nothing_is_not_made(owner: str, fields: dict[str, Any], message: str) -> None:
    async with opened() as shop:
        with pytest.raises(Refused) as refused:
            await shop.keyring().add(owner, by="root", **fields)
        assert (refused.value.code, refused.value.message) == ("invalid_arguments", message)
        assert await shop.store.session(LOG) is None


async def test_the_use_of_a_key_is_written_down_once_an_hour() -> None:
    async with opened() as shop:
        keys = shop.keyring()
        key, known = await keys.add("ada", by="root")
        for time in (1001.0, 1002.0, 1001.0 + USED_S):
            shop.time = time
            assert await admitted(keys, key) == "ada"
        assert await shop.logged(2) == [("key_added", known.id), ("key_used", known.id)]
        assert known.last_used == 1001.0
        shop.time = 1001.1 + USED_S
        assert await admitted(keys, key) == "ada"
        assert await shop.logged(3) == [("key_added", known.id), *[("key_used", known.id)] * 2]
        later = shop.keyring()
        await later.load()
        assert [one.last_used for one in later.keys] == [1001.1 + USED_S]
        await keys.stop()


async def test_a_key_is_revoked_once_and_stays_so() -> None:
    async with opened() as shop:
        keys, other = shop.keyring(), shop.keyring()
        key, known = await keys.add("ada", by="root")
        shop.time = 1001.0
        assert (await other.revoke(known.id, by="bob")).revoked_at == 1001.0
        shop.time = 1002.0
        assert (await keys.revoke(known.id, by="eve")).revoked_at == 1001.0
        assert await admitted(keys, key) is None
        assert await shop.log() == [("key_added", known.id), ("key_revoked", known.id)]
        with pytest.raises(Refused, match="There is no key 'k-none'") as refused:
            await keys.revoke("k-none", by="eve")
        assert refused.value.code == "not_found"
        await shop.store.commit(Write(LOG, [draft(1003.0, None, KeyRevoked(known.id, "eve"))]))
        later = shop.keyring()
        await later.load()
        assert [one.revoked_at for one in later.keys] == [1001.0]


async def test_a_server_that_runs_learns_of_keys_that_others_make_and_revoke() -> None:
    async with opened() as shop:
        here, elsewhere = shop.keyring(), shop.keyring()
        await here.start()
        key, known = await elsewhere.add("ada", by="root")
        await comes(here, key, "ada")
        await elsewhere.revoke(known.id, by="root")
        await comes(here, key, None)
        await here.stop()
        other, _ = await elsewhere.add("bob", by="root")
        await asyncio.sleep(0)
        assert await admitted(here, other) is None, "it follows no more"


async def comes(keys: Keyring, key: str, owner: str | None) -> None:
    """Returns when a key stands for that owner; nobody tells when what others did has come here."""
    async with asyncio.timeout(SOON_S):
        while await admitted(keys, key) != owner:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def test_nothing_is_under_way_when_a_keyring_has_stopped() -> None:
    async with opened() as shop:
        keys = shop.keyring()
        key, _ = await keys.add("ada", by="root")
        await keys.start()
        before = asyncio.all_tasks()
        assert await admitted(keys, key) == "ada"
        assert len(asyncio.all_tasks() - before) == 1, "the use is being written down"
        await keys.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_session_of_somebody_with_the_name_of_the_log_holds_no_keys() -> None:
    async with opened() as shop:
        await shop.store.open(LOG, "eve", 1.0)
        with pytest.raises(StoreError, match="belongs to 'eve'"):
            await shop.keyring().start()


def test_the_keys_of_the_store_are_found_among_guards() -> None:
    keys, others = Keyring(lambda: open_store("memory:"), lambda: 0.0), ApiKeys({})
    assert keyring(keys) is keys
    assert keyring(Guards([others, keys])) is keys
    assert keyring(others) is None
    assert keyring(Guards([others])) is None
