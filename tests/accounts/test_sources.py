"""Tools of MCP servers, OpenAPI documents and definition files act with the account of the session's owner."""

from pathlib import Path
from typing import Any

import pytest

from tests.accounts.place import OpenCrib, all_text, connect, connect_and_list, question, shop
from tests.accounts.service import Service
from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.errors import BadTool
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.openapi import OpenApi

POLICY = {"default": "allow", "grants": {"allow": ["net:egress:*", "net:egress:private"]}}
DEFINITION = """
tool:
  id: desk
  name: Desk
  type: http
  version: 1.0.0
  description: Ask the shop.
  http_specific: {{base_url: "{base}", auth: {{account: shop}}}}
  commands:
    - {{name: me, description: Who we are., path: /api/me}}
"""


def document(service: Service, path: Path) -> OpenApi:
    path.write_text(
        f"""
openapi: 3.1.0
info: {{title: Shop, version: "1"}}
servers: [{{url: "{service.base}"}}]
security: [{{login: []}}]
components: {{securitySchemes: {{login: {{type: http, scheme: bearer}}}}}}
paths: {{/api/me: {{get: {{operationId: me, responses: {{"200": {{description: ok}}}}}}}}}}
"""
    )
    return OpenApi(path, namespace="doc", auth={"login": "account:shop"}, base_url=service.base)


def source_of(kind: str, service: Service, folder: Path) -> tuple[Any, str]:
    if kind == "openapi":
        return document(service, folder / "shop.yaml"), "doc.me"
    if kind == "definition":
        file = folder / "desk.yaml"
        file.write_text(DEFINITION.format(base=service.base))
        return file, "desk.me"
    return Mcp(f"{service.api}/mcp", name="shop", account="shop", trusted=True), "shop.whoami"


async def allowed(crib: Crib, owner: str) -> Any:
    return await crib.open(f"s-{owner}", owner=owner, namespaces=["*"])


@requirement("accounts.source.1")
@pytest.mark.parametrize("kind", ["openapi", "definition", "mcp"])
async def test_each_owner_uses_their_own_and_is_asked_for_it(
    open_crib: OpenCrib, service: Service, tmp_path: Path, kind: str
) -> None:
    source, name = source_of(kind, service, tmp_path)
    crib = await open_crib(service, shop(service), sources=[source], policy=POLICY)
    if isinstance(source, Mcp):
        await connect_and_list(crib, source, "ada", "ada@shop")
    else:
        await connect(crib, "ada", "ada@shop")
    ada, bob = await allowed(crib, "ada"), await allowed(crib, "bob")
    assert (await ada.call(name, {})).ok
    call = await bob.submit(name, {})
    assert (await question(bob, call.id)).data["account"] == "shop"
    await connect(crib, "bob", "bob@shop")
    result = await bob.result(call.id)
    assert "bob@shop" in str(result.data)
    service.expire()
    assert (await ada.call(name, {})).ok
    service.revoke_all()
    again = await ada.submit(name, {})
    assert (await question(ada, again.id)).data["account"] == "shop"
    await connect(crib, "ada", "ada@shop")
    assert "ada@shop" in str((await ada.result(again.id)).data)
    shown = await all_text(crib)
    assert not [secret for secret in service.secrets if secret in shown]


@requirement("accounts.source.2")
async def test_a_server_whose_tools_nobody_knows_has_a_tool_to_connect(open_crib: OpenCrib, service: Service) -> None:
    source = Mcp(f"{service.api}/mcp", name="shop", account=True, trusted=True)
    crib = await open_crib(service, shop(service, client_id=None), sources=[source], policy=POLICY)
    ada = await allowed(crib, "ada")
    call = await ada.submit("shop.connect", {})
    await question(ada, call.id)
    await connect(crib, "ada", "ada@shop")
    assert (await ada.result(call.id)).ok
    assert [tool.id for tool in ada.tools() if tool.namespace == "shop"] == ["shop.whoami"]
    assert (await ada.call("shop.whoami", {})).data == "ada@shop"


def test_a_program_has_no_account() -> None:
    with pytest.raises(BadTool, match="only a server at an address"):
        Mcp("python", "server.py", account=True)
