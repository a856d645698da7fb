"""Proofs of possession (DPoP, RFC 9449) and signed assertions of a client (RFC 7523)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from toolcrib.accounts.web import AuthorizationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LASTS_S = 300


def new_key() -> str:
    """Return a new private key, as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(*form).decode()


def proof(key: str, method: str, url: str, *, token: str | None = None, nonce: str | None = None) -> str:
    """Return the header `DPoP` of one request: that its sender has the key which a token is bound to."""
    import jwt
    from cryptography.hazmat.primitives import serialization
    from jwt.algorithms import ECAlgorithm

    private: EllipticCurvePrivateKey = serialization.load_pem_private_key(key.encode(), None)  # type: ignore[assignment]  # we made it
    public = json.loads(ECAlgorithm.to_jwk(private.public_key()))
    bare = urlunsplit(urlsplit(url)._replace(query="", fragment=""))
    claims: dict[str, Any] = {"jti": secrets.token_urlsafe(16), "htm": method, "htu": bare, "iat": int(time.time())}
    if nonce is not None:
        claims["nonce"] = nonce
    if token is not None:
        claims["ath"] = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    jwk = {name: public[name] for name in ("kty", "crv", "x", "y")}
    return jwt.encode(claims, private, "ES256", headers={"typ": "dpop+jwt", "jwk": jwk})


def assertion(key: str, algorithm: str, client_id: str, audience: str) -> str:
    """Return a signed text that proves that this is the client.

    Raises:
        AuthorizationError: the key is none for that algorithm.
    """
    import jwt

    now = int(time.time())
    claims = {"iss": client_id, "sub": client_id, "aud": audience, "iat": now, "exp": now + LASTS_S}
    try:
        return jwt.encode({**claims, "jti": secrets.token_urlsafe(16)}, key, algorithm)
    except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError):
        raise AuthorizationError(f"The private key of the account is none for {algorithm}") from None
