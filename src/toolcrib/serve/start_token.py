"""The token of a server that has no keys: whoever started it hands it to a browser or a program, and to nobody else.

It follows from the secret of the store, so that every server over one store asks for the same, also after a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from urllib.parse import parse_qsl, urlencode

from toolcrib.serve.cookies import Cookies
from toolcrib.serve.keys import CHALLENGE
from toolcrib.serve.principal import UNKNOWN, Guard, Headers, NotAdmitted, Principal, bearer

log = logging.getLogger("toolcrib.serve")

FIELD = "token"
HINT = (
    "open the address that `toolcrib serve` printed, or send the header `Authorization: Bearer TOKEN` with its token; "
    "`toolcrib serve --no-token` asks for none, and `toolcrib keys add OWNER` makes keys instead"
)


def derived(secret: bytes) -> str:
    """The start token of the servers over a store, from the secret that they share."""
    return hmac.digest(secret, b"start token", "sha256").hex()[:48]


class StartToken(Guard):
    """A guard that lets in whoever has the token of the server, as the one person who uses it."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    def fits(self, token: str) -> bool:
        """True if this is the token; the time that it takes tells nothing of it."""
        return hmac.compare_digest(_digest(token), self._digest)

    async def admit(self, headers: Headers) -> Principal:
        """Whoever uses the server.

        Raises:
            NotAdmitted: 401, the token is missing or another one.
        """
        token = bearer(headers)
        if token is None:
            raise NotAdmitted(401, "This server asks for its start token", CHALLENGE, HINT)
        if not self.fits(token):
            raise NotAdmitted(401, "This is not the start token", f'{CHALLENGE}, error="invalid_token"', HINT)
        return UNKNOWN

    def signed_in(
        self, query: bytes, headers: Headers, cookies: Cookies, *, secure: bool
    ) -> list[tuple[bytes, bytes]] | None:
        """The headers that give a browser its cookie and send it on without the token; None where there is none."""
        fields = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        token = dict(fields).get(FIELD)
        if token is None or not self.fits(token):
            return None
        log.info("%s signed in with the start token", UNKNOWN.name)
        rest = urlencode([(name, value) for name, value in fields if name != FIELD])
        return [
            cookies.header(token, headers, secure=secure),
            (b"location", f"/?{rest}".encode() if rest else b"/"),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
        ]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
