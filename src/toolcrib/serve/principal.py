"""Who sends a request. Every endpoint turns credentials into one `Principal`; sessions belong to its name."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("toolcrib.serve")

Headers = Mapping[bytes, bytes]
"""The headers of a request, by their names in small letters."""


RIGHTS = frozenset({"read", "call", "answer"})
"""What somebody may do with what is theirs, unless their scopes name less."""

ADMIN = "admin"
"""The scope, or role, of who may do everything and see what is everybody's."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was let in; without `namespaces` the defaults of the crib are open to them.

    Of `scopes` those count that this server knows: `read`, `call`, `answer`, `metrics` and `admin`. `auth` says how
    they were recognised: `off`, `key` or `jwt`.
    """

    name: str
    namespaces: tuple[str, ...] | None = None
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    auth: str = "off"

    @property
    def admin(self) -> bool:
        """True if they administer the server."""
        return ADMIN in self.scopes or ADMIN in self.roles

    def may(self, right: str) -> bool:
        """True if they have a right; scopes that all mean something elsewhere take none away."""
        return right in (self.scopes & KNOWN or RIGHTS) or self.admin


KNOWN = RIGHTS | {"metrics", ADMIN}
ANYONE = Principal("anyone")
"""Who is not asked for credentials."""

UNKNOWN = Principal("anyone", scopes=KNOWN, roles=frozenset({ADMIN}))
"""Who uses a server that asks nobody who they are: one person on their own machine."""


class NotAdmitted(Exception):
    """A refused request, with the status and the challenge that tell its sender what is missing.

    `hint` tells people what to do next.
    """

    def __init__(self, status: int, message: str, challenge: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.challenge = challenge
        self.hint = hint


def bearer(headers: Headers) -> str | None:
    """The token that a request brings."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class Guard(ABC):
    """Checks credentials, the same way at every endpoint. Only `admit` has to be written."""

    @property
    def documents(self) -> Mapping[str, Any]:
        """Return public documents, as JSON, by their paths: how to get credentials."""
        return {}

    async def start(self) -> None:  # noqa: B027 - most guards hold nothing
        """Start with the server."""

    async def stop(self) -> None:  # noqa: B027 - as above
        """Stop with the server."""

    @abstractmethod
    async def admit(self, headers: Headers) -> Principal:
        """Who sent a request with these headers.

        Raises:
            NotAdmitted: 401 for missing or wrong credentials, 403 for too few rights.
        """


class Guards(Guard):
    """Several guards at once: who is known to one of them is let in."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = tuple(guards)

    @property
    def documents(self) -> Mapping[str, Any]:
        """Return the documents of all of them."""
        return {path: document for guard in self.guards for path, document in guard.documents.items()}

    async def admit(self, headers: Headers) -> Principal:
        """Who sent a request.

        Raises:
            NotAdmitted: none of them knows the sender; it has the message of the last one, and each challenge.
        """
        errors: list[NotAdmitted] = []
        for guard in self.guards:
            try:
                return await guard.admit(headers)
            except NotAdmitted as error:
                if error.status == 403:  # known, but not allowed
                    raise
                errors.append(error)
        challenges = dict.fromkeys(error.challenge for error in errors if error.challenge is not None)
        hints = dict.fromkeys(error.hint for error in errors if error.hint is not None)
        last = errors[-1]
        raise NotAdmitted(last.status, last.message, ", ".join(challenges) or None, "; or ".join(hints) or None)

    async def start(self) -> None:
        """Start all of them."""
        for guard in self.guards:
            await guard.start()

    async def stop(self) -> None:
        """Stop all of them."""
        for guard in self.guards:
            await guard.stop()


async def refused(guard: Guard | None, headers: Headers) -> NotAdmitted | None:
    """Return why somebody who was admitted would not be any more; None also while the guard cannot tell."""
    try:
        if guard is not None:
            await guard.admit(headers)
    except NotAdmitted as error:
        return error
    except Exception as error:  # noqa: BLE001 - a guard may be anybody's
        log.info("whether somebody may stay is not known now: %s", error)
    return None


async def caller(guard: Guard | None, headers: Headers) -> Principal:
    """Who wants to call tools.

    Raises:
        NotAdmitted: nobody knows them, or they may only look.
    """
    if guard is None:
        if b"authorization" in headers:  # a key that is not looked at may be a wrong one
            raise NotAdmitted(403, "This server takes no keys", hint="leave the header Authorization out")
        return ANYONE
    principal = await guard.admit(headers)
    if not principal.may("call"):
        challenge = 'Bearer error="insufficient_scope", scope="call"'
        raise NotAdmitted(403, "This needs the scope 'call'", challenge, "use a key that has it")
    return principal
