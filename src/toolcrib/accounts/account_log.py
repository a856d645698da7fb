"""What a store knows of accounts: a log of its own, and encrypted beside it what only their owners may use.

The log says who connected what, and when; tokens, registrations and requests under way are kept with the key for
secrets, which is not in the store. Every process over the store reads the same log, so that an account which was
connected by one is there for all.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from toolcrib.accounts.authorization import PendingAuthorization
from toolcrib.accounts.tokens import ClientIdentity, TokenSet
from toolcrib.errors import Refused, StoreError
from toolcrib.events import (
    AccountConnected,
    AccountDisconnected,
    AccountRegistered,
    AccountRenewed,
    AccountRequested,
    Event,
    EventData,
)
from toolcrib.store import OWNER, Row, Store, Write, draft
from toolcrib.store.vault import SealedValue, Vault, secret_id

LOG = "toolcrib.accounts"
"""The session whose log holds them. It belongs to the crib, and no sweep takes it away."""

SERVER = "toolcrib"
"""Who disconnected an account whose server gave no new token."""

TAKES_S = 60.0
LOOK_S = 0.05
_Kept = TypeVar("_Kept", bound=Struct)

log = logging.getLogger("toolcrib.accounts")


class Timekeeper(Protocol):
    """A clock, as far as accounts need one."""

    def now(self) -> float:
        """The time in seconds since 1970."""


class ConnectedAccount(Struct, omit_defaults=True):
    """An account that an owner connected; never the tokens themselves, of which `secret` is only the name."""

    account: str
    owner: str
    connected_at: float
    by: str
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    renewed_at: float | None = None
    secret: str = ""


class ExpiredAccount(Struct):
    """An account whose server gave no new token: its owner has to connect it anew."""

    account: str
    owner: str
    expired_at: float
    reason: str


class AccountLog:
    """Reads and writes the log. `worker` is the name by which others see whether this process lives."""

    def __init__(self, store: Callable[[], Store], vault: Vault, clock: Timekeeper, worker: Callable[[], str]) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock
        self._worker = worker
        self._seq = 0
        self._connected: dict[tuple[str, str], ConnectedAccount] = {}
        self._expired: dict[tuple[str, str], ExpiredAccount] = {}
        self._requests: dict[tuple[str, str], str] = {}
        self._clients: dict[tuple[str, str, str], str] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    def keep_in(self, store: Store) -> None:
        """Take the log of another store, before it is read."""
        self._store, self._vault = lambda: store, self._vault.over(store)

    @property
    def seq(self) -> int:
        """How far the log was read."""
        return self._seq

    async def read(self) -> None:
        """Take in what is new.

        Raises:
            StoreError: somebody else has a session of that name, or the store is away.
        """
        if self._seq == 0:
            row = await self._store().session(LOG)
            if row is None:
                return
            if row.owner != OWNER:
                raise StoreError(f"The session '{LOG}' belongs to '{row.owner}', so it can hold no accounts: delete it")
        while page := await self._store().read(LOG, self._seq):
            for event in page:
                if event.seq > self._seq:
                    self._seq = event.seq
                    self._take(event)

    async def wait(self, seq: int) -> None:
        """Return when there is more to read than that."""
        await self._store().open(LOG, OWNER, self._clock.now())
        await self._store().wait(LOG, seq)

    def _take(self, event: Event) -> None:
        match event.data:
            case AccountConnected() as new:
                self._connected[new.account, new.owner] = ConnectedAccount(
                    new.account, new.owner, event.at, new.by, new.scopes, new.expires_at, None, new.secret
                )
                self._requests.pop((new.account, new.owner), None)
                self._expired.pop((new.account, new.owner), None)
            case AccountRenewed() as new if (known := self._connected.get((new.account, new.owner))) is not None:
                known.secret, known.expires_at, known.renewed_at = new.secret, new.expires_at, event.at
            case AccountDisconnected() as gone:
                key = (gone.account, gone.owner)
                self._connected.pop(key, None)
                if gone.by == SERVER:
                    self._expired[key] = ExpiredAccount(*key, event.at, gone.reason)
            case AccountRequested() as new:
                self._requests[new.account, new.owner] = new.secret
            case AccountRegistered() as new:
                self._clients[new.account, new.issuer, new.redirect_uri] = new.secret

    def connected(self, account: str, owner: str) -> ConnectedAccount | None:
        """Return what is known of the account of an owner."""
        return self._connected.get((account, owner))

    def all(self, owner: str | None = None) -> list[ConnectedAccount]:
        """Return all connected accounts, or those of an owner, the first connected first."""
        return [one for one in self._connected.values() if owner in (None, one.owner)]

    def expired(self, account: str, owner: str) -> ExpiredAccount | None:
        """Return when and why the account of an owner came to its end by itself; None where it did not."""
        return self._expired.get((account, owner))

    # What is kept

    async def tokens(self, known: ConnectedAccount) -> TokenSet | None:
        """Return the tokens of an account, the newest where they were replaced meanwhile; None where they were removed.

        Raises:
            Refused: `unavailable`, they were encrypted with another key.
        """
        secret = known.secret
        while (tokens := await self._opened(secret, TokenSet)) is None:
            await self.read()
            newest = self._connected.get((known.account, known.owner))
            if newest is None or newest.secret == secret:
                return None
            secret = newest.secret
        return tokens

    async def pending(self, state: str) -> PendingAuthorization | None:
        """Return the request that a state belongs to, if it is still open."""
        return await self._opened(_of_state(state), PendingAuthorization)

    async def client(self, account: str, issuer: str, redirect_uri: str) -> ClientIdentity | None:
        """Return who this program is at a server, if it registered there."""
        secret = self._clients.get((account, issuer, redirect_uri))
        return None if secret is None else await self._opened(secret, ClientIdentity)

    async def _opened(self, secret: str, form: type[_Kept]) -> _Kept | None:
        try:
            kept = await self._vault.kept(LOG, secret_id(secret))
        except SealedValue:
            hint = "give every process over this store the same `secret_key`, or connect the account anew"
            raise Refused(
                "unavailable", "What is kept of the account cannot be read with the key of now", hint
            ) from None
        return None if kept is None else msgspec.json.decode(kept, type=form)

    # What happens

    async def connect(
        self, pending: PendingAuthorization | None, owner: str, account: str, by: str, tokens: TokenSet
    ) -> None:
        """Write that an owner connected an account; the tokens of before are forgotten."""
        gone = [] if pending is None else [_of_state(pending.state)]
        scopes = tuple((tokens.scope or "").split())
        await self._write(
            lambda secret: AccountConnected(account, owner, by, scopes, tokens.expires_at, secret),
            tokens,
            [*gone, *self._secret(account, owner)],
        )

    async def renew(self, known: ConnectedAccount, tokens: TokenSet) -> None:
        """Write that a token was replaced by a newer one."""
        await self._write(
            lambda secret: AccountRenewed(known.account, known.owner, tokens.expires_at, secret), tokens, [known.secret]
        )

    async def disconnect(self, account: str, owner: str, by: str, reason: str) -> None:
        """Write that an account is not connected any more; its tokens are forgotten."""
        gone = AccountDisconnected(account, owner, by, reason)
        await self._commit(Write(LOG, [draft(self._clock.now(), None, gone)]), self._secret(account, owner))

    async def request(self, pending: PendingAuthorization) -> None:
        """Write that an owner is asked for access; what an earlier request needed is forgotten."""
        key, secret = (pending.account, pending.owner), _of_state(pending.state)
        earlier = [self._requests[key]] if key in self._requests else []
        await self._write(lambda _: AccountRequested(*key, pending.by, secret), pending, earlier, secret)

    async def register(self, account: str, client: ClientIdentity) -> None:
        """Write as whom this program was registered."""
        await self._write(
            lambda secret: AccountRegistered(account, client.issuer, client.redirect_uri, secret), client, []
        )

    def _secret(self, account: str, owner: str) -> list[str]:
        known = self._connected.get((account, owner))
        return [] if known is None else [known.secret]

    async def _write(
        self, event: Callable[[str], EventData], value: Struct, gone: list[str], secret: str | None = None
    ) -> None:
        secret = secret or f"account-{secrets.token_hex(16)}"
        write = Write(LOG, [draft(self._clock.now(), None, event(secret))])
        write.keeps = (self._vault.sealed(LOG, secret_id(secret), msgspec.json.encode(value)),)
        await self._commit(write, gone)

    async def _commit(self, write: Write, gone: list[str]) -> None:
        write.forgets = tuple(gone)
        store = self._store()
        await store.open(LOG, OWNER, self._clock.now())
        await store.commit(write)
        await self.read()

    # One at a time

    @asynccontextmanager
    async def alone(self, account: str, owner: str) -> AsyncIterator[None]:
        """Let one task of one process change an account: a refresh token may be used once."""
        async with self._locks.setdefault((account, owner), asyncio.Lock()):
            lease = await self._lease(account, owner)
            try:
                await self.read()
                yield
            finally:
                await self._store().commit(_changed(lease, lease.but(state="released")))

    async def _lease(self, account: str, owner: str) -> Row:
        """Take the lease of an account, as soon as whoever has it is done, dead, or took too long."""
        digest = hashlib.sha256(f"{account}\0{owner}".encode()).hexdigest()[:32]
        store = self._store()
        await store.open(LOG, OWNER, self._clock.now())
        while True:
            row = await store.call(f"account:{digest}")
            if row is None or not await self._is_held(row):
                before = 0 if row is None else row.attempt
                new = Row(
                    f"account:{digest}", LOG, "account", "lease", "held", before + 1, self._worker(), self._clock.now()
                )
                if await store.commit(Write(LOG, [], new) if row is None else _changed(row, new)) is None:
                    return new
            await asyncio.sleep(LOOK_S)

    async def _is_held(self, row: Row) -> bool:
        if row.state != "held" or self._clock.now() - row.accepted_at > TAKES_S:
            return False
        return row.worker == self._worker() or await self._store().alive(row.worker or "")


def _changed(before: Row, after: Row) -> Write:
    return Write(LOG, [], after, (before.state, before.attempt))


def _of_state(state: str) -> str:
    return f"account-{hashlib.sha256(state.encode()).hexdigest()[:32]}"
