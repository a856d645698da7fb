"""`Accounts`: the accounts of a crib. Gives each owner's tokens to that owner's calls, and to nobody else's."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote

from toolcrib.accounts.account_log import SERVER, AccountLog, ConnectedAccount, ExpiredAccount, Timekeeper
from toolcrib.accounts.authorization import AuthorizationReply, begun, finished, renewed, revoked
from toolcrib.accounts.clients import registered_client, written_client
from toolcrib.accounts.discovery import Challenge, discover
from toolcrib.accounts.machines import machine_token
from toolcrib.accounts.settings import AccountSettings
from toolcrib.accounts.tokens import TokenSet
from toolcrib.accounts.web import AuthorizationError, AuthorizationWeb
from toolcrib.errors import BadAccount, Refused, StoreError, ToolFailure
from toolcrib.schema import nearest
from toolcrib.store import Store

PENDING_S = 3600.0
AGAIN_S = 1.0
CALLBACK = "/v1/accounts/callback"

log = logging.getLogger("toolcrib.accounts")


class ServiceToken(NamedTuple):
    """What a request to a service is made with; it shows nothing of itself."""

    tokens: TokenSet

    @property
    def value(self) -> str:
        """The token itself."""
        return self.tokens.access_token

    @property
    def bound(self) -> bool:
        """True if it can be used only with a proof for each request."""
        return self.tokens.dpop_key is not None

    def headers(self, method: str, url: str, nonce: str | None = None) -> dict[str, str]:
        """Return the headers of one request."""
        return self.tokens.headers(method, url, nonce)

    def __repr__(self) -> str:
        return "ServiceToken(...)"


class Accounts:
    """The accounts of a crib, by name. `told` is called when an owner has connected one, in whatever process."""

    def __init__(self, accounts: Iterable[AccountSettings], kept: AccountLog, clock: Timekeeper) -> None:
        self._settings: dict[str, AccountSettings] = {}
        for settings in accounts:
            self.declare(settings)
        self._kept = kept
        self._clock = clock
        self._machines: dict[str, TokenSet] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._challenges: dict[str, Challenge] = {}
        self._listeners: list[Callable[[str, str], Awaitable[None]]] = []
        self._following: asyncio.Task[None] | None = None
        self._base: str | None = None

    def declare(self, settings: AccountSettings) -> None:
        """Add an account.

        Raises:
            BadAccount: another has its name.
        """
        if self._settings.get(settings.name, settings) != settings:
            raise BadAccount(f"Two accounts are called {settings.name!r}")
        self._settings[settings.name] = settings

    @property
    def settings(self) -> list[AccountSettings]:
        """All accounts that can be connected."""
        return list(self._settings.values())

    def __contains__(self, name: str) -> bool:
        return name in self._settings

    def named(self, name: str) -> AccountSettings:
        """Return the settings of an account.

        Raises:
            Refused: `not_found`.
        """
        if name not in self._settings:
            close = nearest(name, [*self._settings], 1)
            known = ", ".join(self._settings) or "none"
            raise Refused(
                "not_found",
                f"There is no account '{name}'",
                f"did you mean '{close[0]}'?" if close else f"there are: {known}",
            )
        return self._settings[name]

    # Life

    def serve_at(self, base: str) -> None:
        """Say where this crib is served, so that owners can be led to its pages."""
        self._base = base.rstrip("/")

    def keep_in(self, store: Store) -> None:
        """Name another store for what owners connect, before the start."""
        self._kept.keep_in(store)

    def listen(self, listener: Callable[[str, str], Awaitable[None]]) -> None:
        """From now on `told` is called with account and owner whenever one was connected."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Read what was connected, and follow what will be."""
        await self._kept.read()
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
            self._following = None

    async def _follow(self) -> None:
        seen: dict[tuple[str, str], float] = {}
        while True:
            try:
                seq, connected = self._kept.seq, self._kept.all()
                for one in connected:
                    if seen.get((one.account, one.owner)) != one.connected_at:
                        await self._tell(one.account, one.owner)
                seen = {(one.account, one.owner): one.connected_at for one in connected}
                await self._kept.wait(seq)
                await self._kept.read()
            except StoreError as error:
                log.info("accounts are read again soon: %s", error)
                await asyncio.sleep(AGAIN_S)

    async def _tell(self, account: str, owner: str) -> None:
        for listener in self._listeners:
            try:
                await listener(account, owner)
            except Exception as error:  # noqa: BLE001 - whatever one listener does, the others are told
                log.warning("that %s connected %s could not be told: %s", owner, account, type(error).__name__)

    # Tokens

    async def token(self, owner: str, name: str, refused: str | None = None) -> ServiceToken | None:
        """Return what an owner uses a service with; None where they have to connect it first.

        `refused` is a token that the service did not take: it is renewed, or given up.

        Raises:
            Refused: `not_found`, there is no such account.
            ToolFailure: `unavailable`, the server of the account does not answer, or refuses this program.
        """
        settings = self.named(name)
        if not settings.personal:
            return ServiceToken(await self._machine(settings, refused))
        await self._kept.read()
        known = self._kept.connected(name, owner)
        tokens = None if known is None else await self._kept.tokens(known)
        if tokens is None or (tokens.holds(self._clock.now()) and tokens.access_token != refused):
            return None if tokens is None else ServiceToken(tokens)
        return await self._renewed(settings, owner, refused)

    async def _renewed(self, settings: AccountSettings, owner: str, refused: str | None) -> ServiceToken | None:
        async with self._kept.alone(settings.name, owner):
            known = self._kept.connected(settings.name, owner)
            tokens = None if known is None else await self._kept.tokens(known)
            if known is None or tokens is None:
                return None
            if tokens.holds(self._clock.now()) and tokens.access_token != refused:  # another call was quicker
                return ServiceToken(tokens)
            try:
                new = await renewed(self._web(settings), tokens, self._clock.now())
            except AuthorizationError as error:
                if error.code not in ("invalid_grant", "invalid_client", "unauthorized_client"):
                    raise _away(settings, error) from None
                await self._kept.disconnect(settings.name, owner, SERVER, error.code)
                log.info("%s has to connect %s anew (%s)", owner, settings.name, error.code)
                return None
            await self._kept.renew(known, new)
            return ServiceToken(new)

    async def _machine(self, settings: AccountSettings, refused: str | None) -> TokenSet:
        async with self._locks.setdefault(settings.name, asyncio.Lock()):
            tokens = self._machines.get(settings.name)
            if tokens is None or not tokens.holds(self._clock.now()) or tokens.access_token == refused:
                try:
                    challenge = self._challenges.get(settings.name)
                    tokens = await machine_token(self._web(settings), settings, self._clock.now(), challenge)
                except AuthorizationError as error:
                    raise _away(settings, error) from None
                if settings.grant != "secret":  # a reference is looked up each time
                    self._machines[settings.name] = tokens
            return tokens

    def challenged(self, name: str, header: str) -> str | None:
        """Keep in mind what a service said to somebody it did not let in: its header `WWW-Authenticate`.

        Return the scopes that the token lacked, if it lacked some.
        """
        challenge = Challenge.of(header)
        if challenge.error == "insufficient_scope":
            return challenge.scope
        if challenge.scheme:
            self._challenges[name] = challenge
        return None

    async def fits(self, owner: str, name: str, scope: str | None = None) -> bool:
        """Return whether an owner has connected an account, with these scopes."""
        if name not in self._settings:
            return False
        await self._kept.read()
        known = self._kept.connected(name, owner)
        tokens = None if known is None else await self._kept.tokens(known)
        return tokens is not None and tokens.covers(scope)

    async def connected(self, owner: str | None = None) -> list[ConnectedAccount]:
        """Return the connected accounts, of all or of one owner."""
        await self._kept.read()
        return self._kept.all(owner)

    def expired(self, owner: str, name: str) -> ExpiredAccount | None:
        """Return when and why the account of an owner came to its end by itself, as far as the log was read."""
        return self._kept.expired(name, owner)

    # Connecting

    def link(self, name: str, scope: str | None = None) -> str | None:
        """Return the page where an owner connects an account; None where this crib serves none."""
        if self._base is None or self.named(name).grant != "authorization_code":
            return None
        return f"{self._base}/v1/accounts/{quote(name)}/connect" + (f"?scope={quote(scope)}" if scope else "")

    @property
    def callback(self) -> str | None:
        """The address that people come back to; None where this crib serves none."""
        return None if self._base is None else f"{self._base}{CALLBACK}"

    async def begin(
        self,
        owner: str,
        name: str,
        redirect_uri: str,
        *,
        by: str | None = None,
        scope: str | None = None,
        bound: str = "",
    ) -> str:
        """Return the address that an owner has to visit to connect an account; they come back to `redirect_uri`.

        `scope` is asked for beside what the account is used with anyway. Whoever finishes it has to be `bound` to the
        same browser.

        Raises:
            Refused: `not_found`; `invalid_arguments`, nobody has to visit anything for it.
            ToolFailure: `unavailable`, the server of the account does not answer, or does not hold.
        """
        settings = self.named(name)
        if settings.grant != "authorization_code":
            raise Refused("invalid_arguments", f"Nobody has to visit anything to connect {name}")
        web, return_to = self._web(settings), settings.redirect_uri or redirect_uri
        await self._kept.read()
        try:
            discovered = await discover(web, settings, self._challenges.get(name))
            scopes = tuple(
                dict.fromkeys([*await self._granted(name, owner, scope), *discovered.scopes, *(scope or "").split()])
            )
            client = await written_client(settings, discovered.server, return_to)
            client = client or await self._kept.client(name, discovered.server.issuer, return_to)
            if client is None:
                client = await registered_client(web, discovered.server, return_to, scopes)
                await self._kept.register(name, client)
        except AuthorizationError as error:
            raise _away(settings, error) from None
        url, pending = begun(
            settings, discovered, client, scopes, owner=owner, by=by or owner, now=self._clock.now(), bound=bound
        )
        await self._kept.request(pending)
        return url

    async def _granted(self, name: str, owner: str, scope: str | None) -> list[str]:
        """What an owner agreed to before, where they are asked for more."""
        known = self._kept.connected(name, owner)
        return [] if known is None or not scope else list(known.scopes)

    async def finish(self, reply: AuthorizationReply, *, bound: str = "") -> ConnectedAccount:
        """Connect an account by what came back from the visit.

        Raises:
            Refused: `not_found`, it belongs to no request that is open; `denied`, it is not to be trusted, or the owner
                did not agree.
        """
        await self._kept.read()
        pending = await self._kept.pending(reply.state) if reply.state else None
        if pending is None or self._clock.now() - pending.started_at > PENDING_S:
            raise Refused("not_found", "There is no such request for access, or it is too old", "begin anew")
        if not hmac.compare_digest(pending.bound.encode(), bound.encode()):
            raise Refused("denied", "Access was asked for in another browser", "begin anew, in this one")
        try:
            tokens = await finished(self._web(self.named(pending.account)), pending, reply, self._clock.now())
        except AuthorizationError as error:
            raise Refused("denied", error.message, "begin anew") from None
        await self._kept.connect(pending, pending.owner, pending.account, pending.by, tokens)
        return self._known(pending.account, pending.owner)

    async def add_key(self, owner: str, name: str, key: str, *, by: str | None = None) -> ConnectedAccount:
        """Keep the key of an owner for an account that takes one.

        Raises:
            Refused: `not_found`; `invalid_arguments`, the account takes no key, or the text is none.
        """
        if self.named(name).grant != "key":
            raise Refused("invalid_arguments", f"{name} takes no key", "it is connected in a browser")
        if not key.strip() or not key.isprintable():
            raise Refused("invalid_arguments", "This is no key: it is empty, or holds a character that cannot be sent")
        await self._kept.read()
        await self._kept.connect(None, owner, name, by or owner, TokenSet(access_token=key.strip()))
        return self._known(name, owner)

    async def remove(self, owner: str, name: str, *, by: str | None = None) -> None:
        """Forget the tokens of an owner, and tell the server of the account that they are not used any more.

        Raises:
            Refused: `not_found`.
        """
        async with self._kept.alone(name, owner):
            known = self._kept.connected(name, owner)
            if known is None:
                raise Refused("not_found", f"{owner} has not connected {name}")
            settings = self._settings.get(name)
            try:
                tokens = await self._kept.tokens(known)
                if settings is not None and tokens is not None:
                    await revoked(self._web(settings), tokens)
            except (AuthorizationError, Refused) as error:
                log.info("the server of %s could not be told that a token is not used any more: %s", name, error)
            await self._kept.disconnect(name, owner, by or owner, "removed")

    def _known(self, name: str, owner: str) -> ConnectedAccount:
        known = self._kept.connected(name, owner)
        if known is None:
            raise Refused("conflict", f"{name} was removed meanwhile", "begin anew")
        return known

    def _web(self, settings: AccountSettings) -> AuthorizationWeb:
        return AuthorizationWeb(settings.hosts)


def _away(settings: AccountSettings, error: AuthorizationError) -> ToolFailure:
    hint = f"Whoever runs the crib looks at the settings of the account {settings.name}."
    return ToolFailure("unavailable", f"{settings.name} cannot be connected: {error.message}", hint=hint)
