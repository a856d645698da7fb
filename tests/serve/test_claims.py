"""What the claims of a token say of who holds it, and what a resource says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.oauth import Claims, OAuth
from toolcrib.serve.principal import ADMIN, ANYONE, RIGHTS, UNKNOWN, NotAdmitted, Principal, bearer, caller, refused

WHO = {"iss": "https://login.example", "sub": "7"}


@pytest.mark.parametrize(
    ("mapping", "claims", "expected"),
    [
        (Claims(), {}, ("https://login.example#7", None, set(), set())),
        (Claims(), {"scope": "read call"}, ("https://login.example#7", None, {"read", "call"}, set())),
        (Claims(), {"scp": ["read"]}, ("https://login.example#7", None, {"read"}, set())),
        (Claims(), {"scope": "read", "scp": ["call"]}, ("https://login.example#7", None, {"read"}, set())),
        (Claims(), {"roles": ["a", "b"]}, ("https://login.example#7", None, set(), {"a", "b"})),
        (Claims(roles="groups"), {"groups": "a", "roles": "b"}, ("https://login.example#7", None, set(), {"a"})),
        (Claims(namespaces="spaces"), {"spaces": "a b"}, ("https://login.example#7", ("a", "b"), set(), set())),
        (Claims(namespaces="spaces"), {}, ("https://login.example#7", (), set(), set())),
        (Claims(), {"spaces": "a b"}, ("https://login.example#7", None, set(), set())),
        (Claims(), {"scope": "admin", "roles": "admin"}, ("https://login.example#7", None, {ADMIN}, {ADMIN})),
        (
            Claims(admins=("ops",)),
            {"scope": "admin", "roles": "admin"},
            ("https://login.example#7", None, set(), set()),
        ),
        (Claims(admins=("ops",)), {"roles": ["ops"]}, ("https://login.example#7", None, set(), {"ops", ADMIN})),
        (Claims(owner="name"), {"name": "ada"}, ("ada", None, set(), set())),
        (Claims(owner="email"), {"email": "a@b", "email_verified": True}, ("a@b", None, set(), set())),
        (Claims(owner="email"), {"email": "a@b", "email_verified": "true"}, ("a@b", None, set(), set())),
    ],
)
def test_a_token_says_who_somebody_is(mapping: Claims, claims: dict[str, Any], expected: tuple[Any, ...]) -> None:
    made = mapping.principal({**WHO, **claims})
    assert (made.name, made.namespaces, made.scopes, made.roles) == expected
    assert made.auth == "jwt"


@pytest.mark.parametrize(
    ("mapping", "claims", "message"),
    [
        (Claims(owner="name"), {}, "it has no name"),
        (Claims(owner="name"), {"name": " "}, "it has no name"),
        (Claims(owner="name"), {"name": 7}, "it has no name"),
        (Claims(owner="name"), {"name": "toolcrib"}, "nobody is called toolcrib"),
        (Claims(owner="email"), {"email": "a@b"}, "its email is not verified"),
        (Claims(owner="email"), {"email": "a@b", "email_verified": False}, "its email is not verified"),
        (Claims(owner="email"), {"email": "a@b", "email_verified": 1}, "its email is not verified"),
        (Claims(), {"scope": 7}, "is no list"),
        (Claims(), {"roles": {"a": 1}}, "is no list"),
    ],
)
def test_a_token_that_does_not_say_who_somebody_is_is_refused(
    mapping: Claims, claims: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mapping.principal({**WHO, **claims})


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://crib.example/mcp", "/.well-known/oauth-protected-resource/mcp"),
        ("https://crib.example/mcp/", "/.well-known/oauth-protected-resource/mcp"),
        ("https://crib.example", "/.well-known/oauth-protected-resource"),
    ],
)
async def test_a_resource_says_who_issues_tokens_for_it(resource: str, path: str) -> None:
    plain, scoped = OAuth(resource, "https://login.example", {}), OAuth(resource, "https://login.example", {}, ["mcp"])
    assert plain.documents.keys() == {path, "/.well-known/oauth-protected-resource"}
    assert plain.documents[path]["resource"] == resource
    assert plain.documents[path]["authorization_servers"] == ["https://login.example"]
    assert "scopes_supported" not in plain.documents[path]
    assert scoped.documents[path]["scopes_supported"] == ["mcp"]
    metadata = f'resource_metadata="https://crib.example{path}"'
    for guard, challenge in ((plain, f"Bearer {metadata}"), (scoped, f'Bearer {metadata}, scope="mcp"')):
        with pytest.raises(NotAdmitted, match="Send an access token") as error:
            await guard.admit({})
        assert (error.value.status, error.value.challenge) == (401, challenge)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (b"Bearer abc", "abc"),
        (b"bearer  abc ", "abc"),
        (b"Bearer", None),
        (b"Bearer  ", None),
        (b"Basic abc", None),
        (b"", None),
    ],
)
def test_a_token_is_what_stands_behind_the_word_bearer(header: bytes, token: str | None) -> None:
    assert bearer({b"authorization": header}) == token
    assert bearer({}) is None


@pytest.mark.parametrize(
    ("principal", "rights", "admin"),
    [
        (Principal("a"), RIGHTS, False),
        (Principal("a", scopes=frozenset({"mail"})), RIGHTS, False),
        (Principal("a", scopes=frozenset({"read", "mail"})), {"read"}, False),
        (Principal("a", scopes=frozenset({"metrics"})), {"metrics"}, False),
        (Principal("a", scopes=frozenset({"admin"})), RIGHTS | {"metrics", "admin"}, True),
        (Principal("a", scopes=frozenset({"read"}), roles=frozenset({"admin"})), RIGHTS | {"metrics", "admin"}, True),
        (UNKNOWN, RIGHTS | {"metrics", "admin"}, True),
        (ANYONE, RIGHTS, False),
    ],
)
def test_scopes_say_what_somebody_may_do(principal: Principal, rights: frozenset[str], admin: bool) -> None:
    assert {right for right in RIGHTS | {"metrics", "admin"} if principal.may(right)} == rights
    assert principal.admin is admin


async def test_who_calls_tools_needs_that_right_and_no_key_where_none_is_taken() -> None:
    (key, kept), (reading, digest) = new_key(), new_key()
    guard = ApiKeys({kept: Principal("ada"), digest: Principal("bob", scopes=frozenset({"read"}))})
    assert (await caller(guard, {b"authorization": f"Bearer {key}".encode()})).name == "ada"
    assert await caller(None, {}) is ANYONE
    for asked, headers, message in (
        (guard, {b"authorization": f"Bearer {reading}".encode()}, "This needs the scope 'call'"),
        (None, {b"authorization": b"Bearer x"}, "This server takes no keys"),
    ):
        with pytest.raises(NotAdmitted, match=message) as error:
            await caller(asked, headers)
        assert error.value.status == 403


class Away(ApiKeys):
    """A guard that cannot tell."""

    async def admit(self, headers: Any) -> Principal:
        raise OSError("away")


async def test_who_was_let_in_stays_while_the_guard_cannot_tell() -> None:
    assert await refused(None, {}) is None
    assert await refused(Away({}), {}) is None
    error = await refused(ApiKeys({}), {b"authorization": b"Bearer x"})
    assert error is not None
    assert error.status == 401
