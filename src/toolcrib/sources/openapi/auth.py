"""Who asks: the security schemes of a document, and the credentials that the configuration has for them.

Credentials are given for a scheme by its name in the document, for all owners (`auth`) or by a function for each
(`credentials`). They reach the request and nothing else: all texts of them are masked in whatever comes back.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import msgspec

from toolcrib.definitions.runners.environment import masks
from toolcrib.errors import ToolFailure
from toolcrib.http import Request, Response
from toolcrib.policy import urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.secret_references import resolve_secret
from toolcrib.sources.openapi.connections import Connections

EARLY_S = 30.0
TOKEN_BYTES = 256 * 1024
ACCOUNT = "account:"
"""What a credential begins with that names an account of the crib, which each owner connects."""

Credential = str | Mapping[str, Any] | tuple[str, str]
Credentials = Callable[[str, str], Credential | Awaitable[Credential | None] | None]


@dataclass(slots=True)
class RequestCredentials:
    """What goes with a request to say who asks. `secrets` are the texts that nobody may see."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    tokens: list[tuple[str, ...]] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)

    def masks(self) -> tuple[str, ...]:
        """The secrets in every form that they may have in a text."""
        return masks({}, *self.secrets)


@dataclass(slots=True)
class _Token:
    value: str
    until: float


class RequestAuth:
    """The schemes of one document, with what the configuration knows for them."""

    def __init__(
        self,
        name: str,
        auth: Mapping[str, Credential],
        credentials: Credentials | None,
        headers: Mapping[str, str],
    ) -> None:
        self._name = name
        self._auth = dict(auth)
        self._credentials = credentials
        self._headers = dict(headers)
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._locks: dict[tuple[str, ...], asyncio.Lock] = {}

    async def proof(self, wanted: list[Wanted], owner: str, connections: Connections) -> RequestCredentials:
        """What proves who asks, by the first way for which there are credentials; `wanted` are all ways.

        Raises:
            ToolFailure: there are none, or a token cannot be had.
        """
        made = RequestCredentials()
        made.headers = {name: self._noted(made, await resolve_secret(one)) for name, one in self._headers.items()}
        lacking: list[str] = []
        for way in sorted(wanted, key=lambda way: not way):  # to ask without saying who is the last resort
            credentials = {name: await self._credential(owner, name) for name in way}
            if all(value is not None for value in credentials.values()):
                for name, value in credentials.items():
                    assert value is not None
                    await self._prove(made, owner, name, way[name], value, connections)
                return made
            lacking += [name for name, value in credentials.items() if value is None]
        if wanted and not self._headers:
            raise self._without(owner, lacking)
        return made

    def _without(self, owner: str, lacking: list[str]) -> ToolFailure:
        schemes = " or ".join(dict.fromkeys(lacking))
        if self._credentials is not None:
            return ToolFailure("denied", f"There are no credentials of {owner} for {self._name} ({schemes})")
        return ToolFailure(
            "unavailable",
            f"{self._name} needs credentials ({schemes}), and none are configured",
            hint=f"Whoever configures this source sets auth: {{{lacking[0]}: ...}}.",
            retryable=False,
        )

    async def _credential(self, owner: str, scheme: str) -> Credential | None:
        if scheme in self._auth or self._credentials is None:
            return self._auth.get(scheme) or None
        credential = self._credentials(owner, scheme)
        value = await credential if inspect.isawaitable(credential) else credential
        return value or None

    async def _prove(
        self,
        made: RequestCredentials,
        owner: str,
        name: str,
        scheme: Mapping[str, Any],
        value: Credential,
        connections: Connections,
    ) -> None:
        if isinstance(value, str) and value.startswith(ACCOUNT):
            made.accounts.append(value.removeprefix(ACCOUNT))
            return
        value = await _resolved(value)
        kind = (scheme.get("type"), str(scheme.get("scheme", "")).lower())
        if isinstance(value, Mapping) and kind[0] == "oauth2":
            key = (owner if name not in self._auth else "", name, str(value.get("client_id", "")))
            made.secrets.append(str(value.get("client_secret", "")))
            made.tokens.append(key)
            made.headers["Authorization"] = (
                f"Bearer {self._noted(made, await self._token(key, scheme, value, connections))}"
            )
        elif kind == ("http", "basic"):
            made.headers["Authorization"] = f"Basic {self._basic(made, value)}"
        elif kind[0] == "apiKey":
            self._key(made, name, scheme, self._noted(made, self._text(name, value)))
        else:
            word = kind[1] if kind[0] == "http" and kind[1].isalnum() else "bearer"
            made.headers["Authorization"] = f"{word.capitalize()} {self._noted(made, self._text(name, value))}"

    def _key(self, made: RequestCredentials, name: str, scheme: Mapping[str, Any], value: str) -> None:
        wire = str(scheme.get("name") or "")
        match scheme.get("in"):
            case "query":
                made.query.append(f"{quote(wire, safe='')}={quote(value, safe='')}")
            case "cookie":
                made.cookies.append(f"{quote(wire, safe='')}={quote(value, safe='')}")
            case _ if wire and wire.isascii() and wire.isprintable() and not set(wire) & set(" :"):
                made.headers[wire] = value
            case _:
                raise ToolFailure("unavailable", f"The scheme {name} of {self._name} names no header", retryable=False)

    def _text(self, name: str, value: Credential) -> str:
        if not isinstance(value, str):
            message = f"The credentials of {self._name} for {name} are not what that scheme takes: one text"
            raise ToolFailure("unavailable", message, retryable=False)
        return value

    def _noted(self, made: RequestCredentials, value: str) -> str:
        """A secret that can be sent."""
        value = value.strip()
        if not (value.isascii() and value.isprintable()):
            message = f"The credentials of {self._name} hold a character that cannot be sent"
            raise ToolFailure("unavailable", message, retryable=False)
        made.secrets.append(value)
        return value

    def _basic(self, made: RequestCredentials, value: Credential) -> str:
        if isinstance(value, Mapping):
            value = f"{value.get('username', '')}:{value.get('password', '')}"
        elif isinstance(value, tuple):
            value = ":".join(value)
        made.secrets += [value, value.partition(":")[2]]
        return self._noted(made, base64.b64encode(value.encode()).decode())

    # Tokens

    def forget(self, proof: RequestCredentials) -> bool:
        """Forgets the tokens of a request that was refused; whether there were any, so that it may be tried again."""
        return bool([key for key in proof.tokens if self._tokens.pop(key, None) is not None])

    async def _token(
        self, key: tuple[str, ...], scheme: Mapping[str, Any], value: Mapping[str, Any], connections: Connections
    ) -> str:
        """A token by client credentials, which is renewed before it ends; nobody's is given to another."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._tokens.get(key)
            if known is None or known.until <= time.monotonic():
                known = self._tokens[key] = await self._fetch(scheme, value, connections)
        return known.value

    async def _fetch(self, scheme: Mapping[str, Any], value: Mapping[str, Any], connections: Connections) -> _Token:
        flow = (scheme.get("flows") or {}).get("clientCredentials") or {}
        where = str(value.get("token_url") or urljoin(str(scheme.get("base", "")), str(flow.get("tokenUrl") or "")))
        client, secret = str(value.get("client_id", "")), str(value.get("client_secret", ""))
        form = {"grant_type": "client_credentials"}
        if value.get("scope"):
            form["scope"] = str(value["scope"])
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if value.get("in") == "body":
            form |= {"client_id": client, "client_secret": secret}
        else:
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            target = urls.canonical(where)
        except UnfitArgument:
            message = f"{self._name} does not say where tokens come from"
            raise ToolFailure("unavailable", message, hint="Set token_url beside client_id.", retryable=False) from None
        if value.get("token_url"):
            connections.inner_hosts.add(target.host)
        elif not _belongs(target, str(scheme.get("base", ""))):
            message = (
                f"The document of {self._name} has tokens made at {target.text}, which is not where its service is"
            )
            hint = "Whoever configures this source sets token_url beside client_id, if the secret may be sent there."
            raise ToolFailure("unavailable", message, hint=hint, retryable=False)
        request = Request(where, target, "POST", headers, urlencode(form).encode())
        return self._read(await connections.send(request, TOKEN_BYTES))

    def _read(self, answer: Response) -> _Token:
        try:
            reply = msgspec.json.decode(answer.body)
            token, lives = reply["access_token"], reply.get("expires_in")
            assert isinstance(token, str) and token
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, AssertionError):
            message = f"{self._name} gave no token (HTTP {answer.status})"
            hint = "Whoever configures this source checks client_id, client_secret and scope."
            raise ToolFailure("unavailable", message, hint=hint, retryable=answer.status >= 500) from None
        seconds = float(lives) if isinstance(lives, int | float) and not isinstance(lives, bool) else 3600.0
        return _Token(token, time.monotonic() + max(seconds - EARLY_S, seconds / 2))


async def _resolved(value: Credential) -> Credential:
    """Credentials with the secrets that they refer to.

    Raises:
        ToolFailure: one of them is not there.
    """
    if isinstance(value, Mapping):
        return {name: await resolve_secret(one) if isinstance(one, str) else one for name, one in value.items()}
    return await resolve_secret(value) if isinstance(value, str) else value


def _belongs(target: urls.UrlTarget, base: str) -> bool:
    """Say whether an address is one of the service itself, and no less safe."""
    try:
        service = urls.canonical(base)
    except UnfitArgument:
        return False
    return target.host == service.host and (target.scheme == service.scheme or target.scheme == "https")


Wanted = Mapping[str, Mapping[str, Any]]
"""One way to say who asks: schemes by name, all of which are needed."""
