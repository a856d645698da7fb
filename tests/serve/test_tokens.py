"""Tokens that do not hold, each for one reason, and whose word is taken for who somebody is."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.requirements import requirement
from tests.serve.place import serving
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.oauth import Claims, OAuth, discovered
from toolcrib.serve.principal import NotAdmitted

SOON_S = 60
RESOURCE, ISSUER = "https://crib.example/mcp", "https://login.example"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = rsa.generate_private_key(65537, 2048)
JWK = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "k1"}
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(**changed: Any) -> dict[str, Any]:
    made = {"iss": ISSUER, "aud": RESOURCE, "sub": "7", "exp": int(time.time()) + 60} | changed
    return {name: value for name, value in made.items() if value is not None}


def signed(kid: str | None = "k1", **changed: Any) -> str:
    return jwt.encode(claims(**changed), KEY, "ES256", headers={} if kid is None else {"kid": kid})


def forged(secret: bytes, alg: str = "HS256") -> str:
    """A token that is signed with what everybody knows, as if that were a secret."""
    parts = [{"alg": alg, "typ": "JWT", "kid": "k1"}, claims()]
    body = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    mark = base64.urlsafe_b64encode(hmac.digest(secret, body, "sha256")).rstrip(b"=") if secret else b""
    return (body + b"." + mark).decode()


def resigned() -> str:
    """A good signature with other claims."""
    head, _, mark = signed().split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims(sub="8")).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{mark}"


def guard(owner: str | None = None) -> OAuth:
    return OAuth(RESOURCE, ISSUER, {"keys": [JWK]}, claims=Claims(owner=owner))


def bearing(token: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {token}".encode()}


WRONG: dict[str, Callable[[], str]] = {
    "expired": lambda: signed(exp=time.time() - 100),
    "no end": lambda: signed(exp=None),
    "an end that is no time": lambda: signed(exp="never"),
    "another audience": lambda: signed(aud="https://other.example/mcp"),
    "one of several audiences that is none of ours": lambda: signed(aud=["https://a.example", "https://b.example"]),
    "no audience": lambda: signed(aud=None),
    "another issuer": lambda: signed(iss="https://evil.example"),
    "an issuer that begins like ours": lambda: signed(iss=f"{ISSUER}.evil.example"),
    "no issuer": lambda: signed(iss=None),
    "no subject": lambda: signed(sub=None),
    "not before next year": lambda: signed(nbf=time.time() + 31_536_000),
    "issued next year": lambda: signed(iat=time.time() + 31_536_000),
    "a key that nobody knows": lambda: signed(kid="k2"),
    "no signature": lambda: jwt.encode(claims(), "", "none", headers={"kid": "k1"}),
    "no signature, in other letters": lambda: forged(b"", "NONE"),
    "the public key as a secret": lambda: forged(PEM),
    "the public key's numbers as a secret": lambda: forged(json.dumps(JWK).encode()),
    "a signature of another kind": lambda: jwt.encode(claims(), OTHER, "RS256", headers={"kid": "k1"}),
    "other claims than were signed": resigned,
    "nothing": lambda: "..",
    "no text": lambda: "\xff\xfe",
}


@requirement("mcp.server.15")
@pytest.mark.parametrize("why", WRONG)
async def test_a_token_that_does_not_hold_is_refused(why: str) -> None:
    with pytest.raises(NotAdmitted) as refused:
        await guard().admit({b"authorization": b"Bearer " + WRONG[why]().encode("latin-1")})
    assert refused.value.status == 401
    assert 'error="invalid_token"' in (refused.value.challenge or "")
    assert ISSUER in (refused.value.hint or "")


async def test_every_door_refuses_it_and_takes_the_good_one() -> None:
    async with serving(Crib(TOOLS), guard=guard()) as place:
        for token, status in ((signed(), 200), (signed(kid=None), 200), (signed(exp=1), 401)):
            sent: dict[str, str | None] = {"Authorization": f"Bearer {token}"}
            assert (await place.post("tools/list", headers=sent)).status_code == status
            assert (await place.http.get("/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code == status


@pytest.mark.parametrize("said", [None, False, 0, 1, "false", "yes", [True]])
async def test_an_email_that_nobody_verified_is_nobodys(said: Any) -> None:
    with pytest.raises(NotAdmitted, match="email is not verified"):
        await guard("email").admit(bearing(signed(email="ada@example.org", email_verified=said)))


@pytest.mark.parametrize("said", [True, "true"])
async def test_a_verified_email_is_the_owner(said: Any) -> None:
    token = signed(email="ada@example.org", email_verified=said)
    assert (await guard("email").admit(bearing(token))).name == "ada@example.org"


async def test_nobody_becomes_the_crib_itself() -> None:
    with pytest.raises(NotAdmitted):
        await guard("nick").admit(bearing(signed(nick="toolcrib")))
    with pytest.raises(NotAdmitted):
        await guard("nick").admit(bearing(signed(nick="  ")))
    assert (await guard("nick").admit(bearing(signed(nick="ada")))).name == "ada"


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nobody answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


class Issuer:
    """An issuer with its keys, which counts how often it is asked for them; it may be `away`, or take its time."""

    def __init__(self) -> None:
        self.keys = [JWK]
        self.away = False
        self.go = threading.Event()
        self.go.set()
        self.asked = threading.Semaphore(0)
        self.times = 0

    def __call__(self, environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        self.times += 1
        self.asked.release()
        self.go.wait()
        start("503 away" if self.away else "200 OK", [("content-type", "application/json")])
        return [json.dumps({"keys": self.keys}).encode()]


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def issuing() -> Iterator[tuple[Issuer, OAuth]]:
    issuer = Issuer()
    with make_server("127.0.0.1", 0, issuer, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer, OAuth(RESOURCE, ISSUER, f"http://127.0.0.1:{server.server_port}/jwks")
        finally:
            issuer.go.set()
            server.shutdown()
            thread.join()


async def test_a_token_that_nobody_signed_shuts_out_nobody_while_the_issuer_is_away() -> None:
    with issuing() as (issuer, asked):
        assert (await asked.admit(bearing(signed(sub="ada")))).name.endswith("#ada")
        asked._ask_at = 0.0  # it was some time ago
        issuer.away = True
        with pytest.raises(NotAdmitted, match="cannot be asked for its keys now"):
            await asked.admit(bearing(signed(kid="unknown")))
        assert (await asked.admit(bearing(signed(sub="bob")))).name.endswith("#bob")
        assert issuer.times == 2


async def test_who_has_a_known_key_does_not_wait_for_those_who_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.serve.oauth.FETCH_S", 10 * SOON_S)
    with issuing() as (issuer, asked):
        await asked.admit(bearing(signed(sub="ada")))
        asked._ask_at = 0.0  # it was some time ago
        issuer.go.clear()
        assert issuer.asked.acquire(timeout=SOON_S)
        stranger = asyncio.ensure_future(asked.admit(bearing(signed(kid="unknown"))))
        assert await asyncio.to_thread(issuer.asked.acquire, timeout=SOON_S)
        assert (await asyncio.wait_for(asked.admit(bearing(signed(sub="bob"))), SOON_S)).name.endswith("#bob")
        assert not stranger.done()
        issuer.go.set()
        with pytest.raises(NotAdmitted, match="a key that nobody knows"):
            await stranger


async def test_an_issuer_is_asked_once_for_many_keys_that_nobody_knows_and_again_for_a_new_one() -> None:
    with issuing() as (issuer, asked):
        for n in range(5):
            with pytest.raises(NotAdmitted, match="a key that nobody knows"):
                await asked.admit(bearing(signed(kid=f"unknown{n}")))
        assert issuer.times == 1
        issuer.keys = [JWK | {"kid": "k2"}]
        asked._ask_at = 0.0  # it was some time ago
        assert (await asked.admit(bearing(signed(kid="k2", sub="ada")))).name.endswith("#ada")
        assert issuer.times == 2


@pytest.mark.parametrize("path", [None, "/jwks"])
async def test_an_issuer_that_is_away_is_not_asked_for_every_token(
    path: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with nobody() as issuer:
        asked = OAuth(RESOURCE, issuer, None if path is None else issuer + path)
        for kid in ("a", "b", "c"):
            with pytest.raises(NotAdmitted, match="cannot be asked for its keys now") as refused:
                await asked.admit(bearing(signed(kid=kid, iss=issuer)))
            assert "Errno" not in refused.value.message
    assert len([line for line in caplog.messages if "cannot be asked" in line]) == 1


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """An address where everything is answered so."""

    def app(environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        known = environ["PATH_INFO"] == "/.well-known/openid-configuration"
        start("200 OK" if known else "404 Not Found", [("content-type", "application/json")])
        return [answer.replace(b"HERE", f"http://{environ['HTTP_HOST']}".encode())]

    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_issuer_says_itself_where_its_keys_are() -> None:
    with answering(b'{"issuer": "HERE", "jwks_uri": "https://keys.example"}') as issuer:
        assert discovered(issuer) == "https://keys.example"


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b"no json",
        b'{"jwks_uri": "https://keys.example"}',
        b'{"issuer": "https://evil.example", "jwks_uri": "https://keys.example"}',
        b'{"issuer": "HERE"}',
        b'{"issuer": "HERE", "jwks_uri": 7}',
    ],
)
def test_an_issuer_that_does_not_say_it_or_is_another_is_not_believed(answer: bytes) -> None:
    with answering(answer) as issuer, pytest.raises(ValueError, match=r"keys|JSON|Expecting"):
        discovered(issuer)


@pytest.mark.parametrize("issuer", ["login.example", "file:///etc/passwd", "ftp://login.example"])
def test_an_issuer_is_asked_over_http_alone(issuer: str) -> None:
    with pytest.raises(ValueError, match="the issuer is no address"):
        discovered(issuer)
