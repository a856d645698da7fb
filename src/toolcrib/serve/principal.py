"""Who is asking. Every door of the server turns credentials into one `Principal`; sessions belong to its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Headers = Mapping[bytes, bytes]
"""The headers of a request, by their names in small letters."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was let in; without `namespaces` the defaults of the crib are open to them."""

    name: str
    namespaces: tuple[str, ...] | None = None
    scopes: frozenset[str] = frozenset()


ANYONE = Principal("anyone")
"""Who is not asked for credentials."""


class NotAdmitted(Exception):
    """A request that stops at the door, with the status and the challenge that tell its sender what is missing."""

    def __init__(self, status: int, message: str, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.challenge = challenge


def bearer(headers: Headers) -> str | None:
    """The token that a request brings."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class Guard(Protocol):
    """Looks at credentials; the same guard stands at every door."""

    @property
    def documents(self) -> Mapping[str, Any]:
        """What is told to everybody, as JSON, by the path where it stands: how to get credentials."""

    async def admit(self, headers: Headers) -> Principal:
        """Who sent a request with these headers.

        Raises:
            NotAdmitted: 401 for missing or wrong credentials, 403 for too few rights.
        """
