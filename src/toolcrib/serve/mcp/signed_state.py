"""What a client carries for the server: it can be read, but neither made nor changed nor used by anybody else."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from toolcrib.serve.mcp.wire import INVALID_PARAMS, ProtocolError, decode, encode
from toolcrib.store import Store
from toolcrib.tool import canonical

_PLACE = "toolcrib.serve"
_OWNER = "toolcrib"


async def kept_secret(store: Store, now: float) -> bytes:
    """The secret that all servers over one store share; the first that needs it makes it."""
    await store.open(_PLACE, _OWNER, now)
    await store.keep(_PLACE, "secret", secrets.token_bytes(32))
    kept = await store.kept(_PLACE, "secret")
    assert kept is not None
    return kept


class Signer:
    """Signs what leaves, and checks what comes back."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def _mark(self, purpose: str, text: bytes) -> bytes:
        return _text(hmac.digest(self._secret, purpose.encode() + b"\0" + text, "sha256"))

    def place(self, *words: str) -> str:
        """The id of a session that belongs to these words: nobody else can take it first."""
        return hmac.digest(self._secret, b"place\0" + canonical(words), "sha256").hex()[:32]

    def close(self, bound: list[Any], value: dict[str, Any], expires_at: float) -> str:
        """A value that only a request that is `bound` to the same may bring back, and not after its time."""
        inside = encode({"v": value, "x": expires_at, "b": _digest(bound)})
        body = _text(inside)
        return f"{body.decode()}.{self._mark('state', body).decode()}"

    def open(self, bound: list[Any], sealed: str, now: float) -> dict[str, Any]:
        """What was closed.

        Raises:
            Wrong: it was changed, was made for another request or principal, or has expired.
        """
        body, _, mark = sealed.partition(".")
        if not hmac.compare_digest(mark.encode(), self._mark("state", body.encode())):
            raise ProtocolError(INVALID_PARAMS, "requestState was not made by this server, or was changed")
        inside = decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if inside["b"] != _digest(bound):
            raise ProtocolError(INVALID_PARAMS, "requestState belongs to another request")
        if now >= inside["x"]:
            raise ProtocolError(INVALID_PARAMS, "requestState has expired; send the request without it")
        value: dict[str, Any] = inside["v"]
        return value

    def name(self, call: str, owner: str) -> str:
        """The id of a task: nobody can guess it from others."""
        return f"{call}.{self._mark('task', f'{call}/{owner}'.encode())[:22].decode()}"

    def named(self, task: str, owner: str) -> str | None:
        """The call that a task is, if that owner's task can have that id."""
        call = task.rpartition(".")[0]
        return call if call and hmac.compare_digest(self.name(call, owner).encode(), task.encode()) else None


def _text(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _digest(bound: list[Any]) -> str:
    return hashlib.sha256(canonical(bound)).hexdigest()
