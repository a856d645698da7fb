"""API keys that are kept in the store, as a log: made, used and revoked, and every server over the store knows at once.

Only digests are kept. The log belongs to the crib; who used a key last is written down once an hour at most.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable

import msgspec

from toolcrib.errors import Refused, StoreError
from toolcrib.events import Event, EventData, KeyAdded, KeyRevoked, KeyUsed
from toolcrib.serve.keys import digest, new_key, no_key, unknown_key
from toolcrib.serve.principal import KNOWN, Guard, Guards, Headers, Principal, bearer
from toolcrib.store import OWNER, Store, Write, draft

LOG = "toolcrib.keys"
AGAIN_S = 1.0
USED_S = 3600.0
log = logging.getLogger("toolcrib.serve")


class ApiKey(msgspec.Struct, omit_defaults=True):
    """What is known of a key; never the key itself. `last_used` may be an hour behind."""

    id: str
    name: str
    owner: str
    created_at: float
    by: str
    scopes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] | None = None
    expires_at: float | None = None
    last_used: float | None = None
    revoked_at: float | None = None

    def principal(self) -> Principal:
        """Who holds it."""
        return Principal(self.owner, self.namespaces, frozenset(self.scopes), auth="key")

    def holds(self, now: float) -> bool:
        """True if it still opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Keyring(Guard):
    """The keys of a store, and the guard that asks for them."""

    def __init__(self, store: Callable[[], Store], now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._keys: dict[str, ApiKey] = {}
        self._holders: dict[str, tuple[ApiKey, Principal]] = {}
        self._seq = 0
        self._moved = -1
        self._keeping_up = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._noting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Reads what there is, and follows what comes."""
        await self.load()
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Follows no more."""
        tasks = [*self._noting, *([] if self._following is None else [self._following])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def load(self) -> None:
        """Takes in all keys of the store.

        Raises:
            StoreError: somebody else has a session of that name.
        """
        row = await self._store().session(LOG)
        if row is not None and row.owner != OWNER:
            raise StoreError(f"The session '{LOG}' belongs to '{row.owner}', so it can hold no keys: delete it")
        if row is not None:
            await self._read()

    async def _follow(self) -> None:
        while True:
            try:
                if await self._store().session(LOG) is None:
                    await self._store().open(LOG, OWNER, self._now())
                await self._store().wait(LOG, self._seq)
                await self._read()
            except StoreError as error:
                log.info("keys are read again soon: %s", error)
                await asyncio.sleep(AGAIN_S)

    async def _keep_up(self) -> None:
        """Takes in what others wrote by now: who follows a log may hear of a revoked key too late, or never."""
        moved = self._store().moved
        if moved is None or moved() == self._moved:
            return
        async with self._keeping_up:
            if (now := moved()) != self._moved:
                await self._read()
                self._moved = now

    async def _read(self) -> None:
        while page := await self._store().read(LOG, self._seq):
            for event in page:
                if event.seq > self._seq:  # what another reader took meanwhile would bring a revoked key back
                    self._seq = event.seq
                    self._take(event)

    def _take(self, event: Event) -> None:
        match event.data:
            case KeyAdded() as added:
                key = ApiKey(added.id, added.name, added.owner, event.at, added.by, added.scopes, added.namespaces)
                key.expires_at = added.expires_at
                self._keys[key.id] = key
                self._holders[added.digest] = key, key.principal()
            case KeyRevoked(id=id) if id in self._keys:
                known = self._keys[id]
                known.revoked_at = known.revoked_at or event.at
            case KeyUsed(id=id) if id in self._keys:
                self._keys[id].last_used = event.at

    @property
    def keys(self) -> list[ApiKey]:
        """All keys, the first made first; also those that open nothing any more."""
        return list(self._keys.values())

    # The guard

    async def admit(self, headers: Headers) -> Principal:
        """Who holds the key of a request.

        Raises:
            NotAdmitted: 401, there is none, nobody knows it, or it has expired or was revoked.
            StoreUnavailable: whether it was revoked cannot be known now.
        """
        token = bearer(headers)
        if token is None:
            raise no_key()
        await self._keep_up()
        key, principal = self._holders.get(digest(token), (None, None))
        now = self._now()
        if key is None or principal is None or not key.holds(now):
            raise unknown_key()
        if key.last_used is None or now - key.last_used > USED_S:
            key.last_used = now
            self._note(key)
        return principal

    def _note(self, key: ApiKey) -> None:
        """Writes down that a key was used; where that fails it is only not known."""

        async def write() -> None:
            try:
                await self._write(KeyUsed(key.id))
            except StoreError as error:
                log.info("the use of key %s is not written down: %s", key.id, error)

        task = asyncio.get_running_loop().create_task(write())
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    # Making and taking away

    async def add(
        self,
        owner: str,
        *,
        by: str,
        name: str = "",
        scopes: Iterable[str] = (),
        namespaces: Iterable[str] | None = None,
        expires_at: float | None = None,
    ) -> tuple[str, ApiKey]:
        """A new key, which nobody can be shown again, and what is kept of it.

        Raises:
            Refused: `invalid_arguments`, there is no such scope, or no such owner can be.
        """
        wanted = tuple(dict.fromkeys(scopes))
        if odd := [scope for scope in wanted if scope not in KNOWN]:
            raise Refused(
                "invalid_arguments", f"There is no scope '{odd[0]}'", f"scopes are {', '.join(sorted(KNOWN))}"
            )
        if not owner.strip() or owner == OWNER:
            raise Refused("invalid_arguments", f"'{owner}' can own nothing", "name who holds the key")
        if expires_at is not None and expires_at <= self._now():
            raise Refused("invalid_arguments", "The key would have expired already")
        key, kept = new_key()
        opened = None if namespaces is None else tuple(namespaces)
        added = KeyAdded(f"k-{secrets.token_hex(4)}", kept, owner, by, name or owner, wanted, expires_at, opened)
        await self._write(added)
        await self._read()
        return key, self._keys[added.id]

    async def revoke(self, id: str, *, by: str) -> ApiKey:
        """From now on the key opens nothing, at no server over the store.

        Raises:
            Refused: `not_found`.
        """
        await self.load()
        if id not in self._keys:
            raise Refused("not_found", f"There is no key '{id}'")
        if self._keys[id].revoked_at is None:
            await self._write(KeyRevoked(id, by))
            await self._read()
            await self._store().known_everywhere()
        return self._keys[id]

    async def _write(self, data: EventData) -> None:
        store = self._store()
        await store.open(LOG, OWNER, self._now())
        await store.commit(Write(LOG, [draft(self._now(), None, data)]))


def keyring(guard: Guard) -> Keyring | None:
    """The keys of the store, where they are among those that a guard asks for."""
    if isinstance(guard, Keyring):
        return guard
    guards = guard.guards if isinstance(guard, Guards) else ()
    return next((one for one in guards if isinstance(one, Keyring)), None)
