"""Who may come in: API keys, tokens of an authorization server, and that nobody gets at what is somebody else's."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.requirements import requirement
from tests.serve.place import TASKS, Place, serving
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.oauth import OAuth
from toolcrib.serve.principal import Guard, Guards, Headers, Principal

RESOURCE, ISSUER = "https://crib.example/mcp", "https://login.example"
KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
FORM: dict[str, Any] = {"elicitation": {}}


def token(key: Any = KEY, **changed: Any) -> dict[str, str | None]:
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "ada", "exp": time.time() + 60, "scope": "mcp tools"} | changed
    claims = {name: value for name, value in claims.items() if value is not None}
    return {"Authorization": f"Bearer {jwt.encode(claims, key, 'ES256', headers={'kid': 'k1'})}"}


def guarded() -> Any:
    return serving(Crib(TOOLS), guard=OAuth(RESOURCE, ISSUER, {"keys": [PUBLIC | {"kid": "k1"}]}, ["mcp"]))


@requirement("mcp.server.15")
async def test_api_keys_let_their_holders_in() -> None:
    (key, kept), (other, _) = new_key(), new_key()
    assert key not in kept
    async with serving(Crib(TOOLS), guard=ApiKeys({kept: Principal("ada")})) as place:
        good = await place.post("tools/list", headers={"Authorization": f"Bearer {key}"})
        assert good.status_code == 200
        for wrong in (None, f"Bearer {other}", f"Basic {key}"):
            answer = await place.post("tools/list", headers={"Authorization": wrong})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


@requirement("mcp.server.15")
async def test_the_metadata_names_the_authorization_server() -> None:
    async with guarded() as place:
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            said = (await place.http.get(path)).json()
            assert (said["resource"], said["authorization_servers"]) == (RESOURCE, [ISSUER])
        answer = await place.post("tools/list")
        assert answer.status_code == 401
        assert 'resource_metadata="https://crib.example/.well-known' in answer.headers["www-authenticate"]
        assert 'scope="mcp"' in answer.headers["www-authenticate"]


@requirement("mcp.server.15")
async def test_a_token_has_to_be_meant_for_this_server() -> None:
    stranger = ec.generate_private_key(ec.SECP256R1())
    async with guarded() as place:
        assert (await place.post("tools/list", headers=token())).status_code == 200
        wrong = [
            token(aud="https://other.example/mcp"),
            token(aud=None),
            token(iss="https://evil.example"),
            token(exp=time.time() - 100),
            token(exp=None),
            token(stranger),
            {"Authorization": "Bearer nonsense"},
            {"Authorization": "Bearer " + jwt.encode({"aud": RESOURCE}, "x" * 32, "HS256")},
        ]
        for given in wrong:
            answer = await place.post("tools/list", headers=given)
            assert answer.status_code == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        few = await place.post("tools/list", headers=token(scope="tools"))
        assert few.status_code == 403
        assert 'error="insufficient_scope"' in few.headers["www-authenticate"]


@pytest.fixture
def ada() -> dict[str, str | None]:
    return token(sub="ada")


@requirement("mcp.server.5", "mcp.server.6")
async def test_nobody_gets_at_what_is_somebody_elses(ada: dict[str, str | None]) -> None:
    eve = token(sub="eve")
    async with guarded() as place:
        task = (await place.call("job", can=TASKS | FORM, headers=ada))["taskId"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            _, error = await place.error(method, {"taskId": task}, can=TASKS, headers=eve)
            assert (error["code"], error["message"]) == (-32602, "There is no such task")
        asked = await place.call("greet", can=FORM, headers=ada)
        given = {"inputResponses": {"user_name": {"action": "accept", "content": {"name": "Eve"}}}}
        stolen = {"name": "greet", "arguments": {}, "requestState": asked["requestState"], **given}
        _, error = await place.error("tools/call", stolen, can=FORM, headers=eve)
        assert error["code"] == -32602
        await _not_with_my_session(place, ada, eve)


async def _not_with_my_session(place: Place, ada: Any, eve: Any) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    session = {"Mcp-Session-Id": (await place.http.post("/mcp", json=message, headers=ada)).headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await place.http.post("/mcp", json=ping, headers=ada | session)).status_code == 200
    assert (await place.http.post("/mcp", json=ping, headers=eve | session)).status_code == 404
    assert (await place.http.delete("/mcp", headers=eve | session)).status_code == 404


@requirement("mcp.server.8")
async def test_a_list_varies_by_who_asks() -> None:
    from toolcrib import tool

    @tool(namespace="shop", read_only=True)
    async def order() -> str:
        """Order."""
        return ""

    (key, kept), (other, also) = new_key(), new_key()
    known = {kept: Principal("ada", ("default", "shop")), also: Principal("bob")}
    async with serving(Crib([*TOOLS, order]), guard=ApiKeys(known)) as place:
        for held, sees in ((key, True), (other, False)):
            sent: dict[str, str | None] = {"Authorization": f"Bearer {held}"}
            names = {one["name"] for one in (await place.result("tools/list", headers=sent))["tools"]}
            assert ("order" in names) is sees
            answer = await place.post("tools/call", {"name": "order"}, headers=sent)
            assert (answer.status_code == 200) is sees


@requirement("mcp.server.8")
async def test_what_a_rule_denies_is_neither_listed_nor_called() -> None:
    async with serving(Crib(TOOLS, policy={"rules": [{"deny": "default.erase"}]})) as place:
        names = {one["name"] for one in (await place.result("tools/list"))["tools"]}
        assert "erase" not in names
        assert "add" in names
        _, error = await place.error("tools/call", {"name": "erase", "arguments": {"what": "it"}})
        assert error["code"] == -32602


@requirement("mcp.server.8")
async def test_a_name_keeps_its_meaning_when_another_tool_of_that_name_comes() -> None:
    from toolcrib import tool

    @tool(namespace="shop", name="add", read_only=True)
    async def other() -> str:
        """Add to the basket."""
        return "basket"

    crib = Crib([TOOLS[0]], default_namespaces=("*",))
    async with serving(crib) as place:
        assert (await place.call("add", {"a": 1}))["content"][0]["text"] == "2"
        crib.add(other)
        assert {"add", "shop__add"} <= {one["name"] for one in (await place.result("tools/list"))["tools"]}
        assert (await place.call("add", {"a": 1}))["content"][0]["text"] == "2"
        assert (await place.call("shop__add"))["content"][0]["text"] == "basket"


class Anybody(Guard):
    """A guard that lets in whoever comes, and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def admit(self, headers: Headers) -> Principal:
        self.asked += 1
        return Principal("anybody")


@requirement("mcp.server.15")
async def test_who_is_known_to_one_guard_and_may_not_is_not_let_in_by_another() -> None:
    oauth, anybody = OAuth(RESOURCE, ISSUER, {"keys": [PUBLIC | {"kid": "k1"}]}, ["mcp"]), Anybody()
    async with serving(Crib(TOOLS), guard=Guards([oauth, anybody])) as place:
        answer = await place.post("tools/list", headers=token(scope="other"))
        assert answer.status_code == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        assert anybody.asked == 0
        assert (await place.post("tools/list", headers={"Authorization": "Bearer nonsense"})).status_code == 200
        assert anybody.asked == 1
