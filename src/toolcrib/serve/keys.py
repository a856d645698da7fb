"""API keys, for set-ups without an authorization server. Only their digests are kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from toolcrib.serve.principal import Guard, Headers, NotAdmitted, Principal, bearer

KEY = "tc_"
"""How every key of ours begins, so that people and programs can tell what it is."""

CHALLENGE = 'Bearer realm="toolcrib"'
"""What is asked of who brings nothing."""

HINT = f"send the header `Authorization: Bearer {KEY}...`; `toolcrib keys add OWNER` makes a key where the server runs"
"""What to do next for who has no key that opens anything."""


def new_key() -> tuple[str, str]:
    """A key to give away, and its digest to keep."""
    key = f"{KEY}{secrets.token_urlsafe(32)}"
    return key, digest(key)


def digest(key: str) -> str:
    """What is kept of a key. It needs no salt: keys are long and random, unlike passwords."""
    return hashlib.sha256(key.encode()).hexdigest()


class ApiKeys(Guard):
    """A guard that knows principals by the digests of their keys, sent as `Authorization: Bearer`."""

    def __init__(self, known: Mapping[str, Principal]) -> None:
        self._known = dict(known)

    async def admit(self, headers: Headers) -> Principal:
        """Who holds the key of a request.

        Raises:
            NotAdmitted: 401, there is none, or nobody knows it.
        """
        key = bearer(headers)
        if key is None:
            raise no_key()
        principal = self._known.get(digest(key))
        if principal is None:
            raise unknown_key()
        return principal


def no_key() -> NotAdmitted:
    """What is said to who brings none."""
    return NotAdmitted(401, "Send an API key as a bearer token", CHALLENGE, HINT)


def unknown_key() -> NotAdmitted:
    """What is said to a key that opens nothing, whatever the reason."""
    return NotAdmitted(401, "The API key is not known", f'{CHALLENGE}, error="invalid_token"', HINT)
