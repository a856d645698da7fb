"""`AccountSettings`: a service that owners connect with, and how a token for it is got."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Literal, get_args
from urllib.parse import urlsplit

from toolcrib.errors import BadAccount

Grant = Literal["authorization_code", "client_credentials", "token_exchange", "jwt_bearer", "key", "secret"]
"""How a token is got: each owner agrees in a browser, this program has a right of its own, exchanges a token that it
has or shows one as an assertion, each owner has a key that they hand in, or all use one secret.
"""

TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"
_OAUTH = frozenset(
    ("resource", "issuer", "token_url", "scopes", "client_id", "client_secret", "client_metadata_url", "private_key")
) | {"signing_alg", "dpop"}
_EXCHANGED = {"subject_token", "subject_token_type", "exchange_url", "exchange_client_id", "audience"}
USED: dict[str, frozenset[str]] = {
    "authorization_code": _OAUTH | {"authorize_url", "redirect_uri"},
    "client_credentials": _OAUTH | {"audience"},
    "token_exchange": _OAUTH | _EXCHANGED,
    "jwt_bearer": _OAUTH | {"subject_token"},
    "key": frozenset({"resource"}),
    "secret": frozenset({"resource", "secret"}),
}
"""The settings that each grant makes use of."""

_COMPANIONS = {
    "authorize_url": "token_url",
    "client_secret": "client_id",
    "private_key": "client_id",
    "signing_alg": "private_key",
    "exchange_client_id": "exchange_url",
}
"""Settings that do nothing without another one."""

ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """A service that owners connect with, by the name that tools ask for.

    `resource` is the address of the service; where its tokens come from is discovered from there, or from `issuer`, or
    said by `authorize_url` and `token_url`. Without `client_id` this program introduces itself: by the document at
    `client_metadata_url` where the server takes that, else by registration. `client_secret`, `private_key` (PEM, for
    signed assertions), `subject_token` and `secret` may be references, such as `env:NAME`. `dpop` binds tokens to a key
    that never leaves the vault; unless said, where the server wants it.

    With `token_exchange`, `subject_token` is exchanged for a token at `token_url` (or at `exchange_url`, for an
    assertion that the authorization server of the resource then takes).

    Raises:
        BadAccount: it lacks something, or something in it does not hold.
    """

    name: str
    grant: Grant = "authorization_code"
    resource: str | None = None
    issuer: str | None = None
    authorize_url: str | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    private_key: str | None = field(default=None, repr=False)
    signing_alg: str = "ES256"
    audience: str | None = None
    subject_token: str | None = field(default=None, repr=False)
    subject_token_type: str = TOKEN_TYPE + "access_token"
    exchange_url: str | None = None
    exchange_client_id: str | None = None
    dpop: bool | None = None
    redirect_uri: str | None = None
    secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadAccount(f"{self.name!r} is no name of an account: letters, digits, '_', '.' and '-'")
        if self.grant not in get_args(Grant):
            raise BadAccount(f"{self.name}: grant is one of {', '.join(get_args(Grant))}, not {self.grant!r}")
        for key in ("resource", "issuer", "authorize_url", "token_url", "exchange_url", "redirect_uri"):
            value = getattr(self, key)
            if value is not None and (not value.startswith(("https://", "http://")) or not urlsplit(value).hostname):
                raise BadAccount(f"{self.name}: {key} is an address such as https://host/path, not {value!r}")
        for problem in (self._lacking(), self._idle()):
            if problem:
                raise BadAccount(f"{self.name}: {problem}")

    def _idle(self) -> str | None:
        """A setting that would do nothing."""
        written = [one.name for one in fields(self)[2:] if getattr(self, one.name) != one.default]
        for key in written:
            if key not in USED[self.grant]:
                fitting = ", ".join(grant for grant, keys in USED.items() if key in keys)
                return f"{key} does nothing with the grant `{self.grant}`: it is for {fitting}"
            if (other := _COMPANIONS.get(key)) is not None and getattr(self, other) is None:
                return f"{key} does nothing without {other}"
        if self.signing_alg not in ALGORITHMS:
            return f"signing_alg is one of {', '.join(ALGORITHMS)}, not {self.signing_alg!r}"
        return None

    def _lacking(self) -> str | None:
        if self.grant == "secret":
            return None if self.secret else "a grant of `secret` needs a secret, such as env:NAME"
        if self.grant == "key":
            return None
        if not (self.resource or self.issuer or self.token_url):
            return "say where its tokens come from: resource, issuer, or token_url"
        if self.grant == "authorization_code":
            return None if self.authorize_url or not self.token_url else "token_url needs authorize_url beside it"
        if self.grant == "client_credentials" and not self.client_id:
            return "a grant of `client_credentials` needs client_id"
        if self.grant in ("token_exchange", "jwt_bearer") and not self.subject_token:
            return f"a grant of `{self.grant}` needs subject_token, such as file:PATH"
        return None

    @property
    def personal(self) -> bool:
        """True if each owner connects it themselves."""
        return self.grant in ("authorization_code", "key")

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that the operator wrote, which may be inner ones."""
        written = (self.resource, self.issuer, self.authorize_url, self.token_url, self.exchange_url)
        return frozenset((urlsplit(one).hostname or "").lower() for one in written if one)
