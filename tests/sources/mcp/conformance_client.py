"""The client that the official conformance suite drives: an ordinary program with a crib, which calls what it is told.

The suite (npm `@modelcontextprotocol/conformance`, Node 22 or newer) starts it with the address of its server as the
last word, and says in the environment which scenario it plays:

    conformance client --command "python -m tests.sources.mcp.conformance_client" --requirements 2026-07-28
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from toolcrib import Crib, Session
from toolcrib.sources.mcp import Mcp
from toolcrib.tool import Tool

RETURN = "http://localhost:3000/callback"
PAGE = "https://conformance-test.local/client-metadata.json"
SAMPLES: dict[str, Any] = {"string": "x", "number": 1, "integer": 1, "boolean": True, "object": {}, "array": []}


class Kept:
    """Tokens and the registration of one owner, in memory."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if "client_id" in said:
            secret = said.get("client_secret")
            self.client = OAuthClientInformationFull(
                client_id=said["client_id"],
                client_secret=secret,
                redirect_uris=[AnyUrl(RETURN)],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def access(url: str, said: dict[str, Any]) -> OAuthClientProvider:
    """Access as a person would get it in a browser; the suite says yes to everything."""
    given: dict[str, list[str]] = {}

    async def visit(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(address)
        given.update(parse_qs(urlsplit(answer.headers["location"]).query))

    async def returned() -> AuthorizationCodeResult:
        state, issuer = given.get("state", [None])[0], given.get("iss", [None])[0]
        return AuthorizationCodeResult(code=given["code"][0], state=state, iss=issuer)

    metadata = OAuthClientMetadata(
        client_name="toolcrib",
        redirect_uris=[AnyUrl(RETURN)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(url, metadata, Kept(said), visit, returned, client_metadata_url=PAGE)


def sample(schema: dict[str, Any], name: str) -> Any:
    what = schema["properties"][name]
    return what.get("default", SAMPLES.get(what.get("type"), "x"))


def answer(schema: dict[str, Any]) -> dict[str, Any]:
    """What a person would send who only fills in what has to be."""
    wanted = schema.get("required", ())
    return {
        name: sample(schema, name) for name, what in schema["properties"].items() if name in wanted or "default" in what
    }


def plan(tools: dict[str, Tool], scenario: str, said: dict[str, Any]) -> list[tuple[str, Any]]:
    """What to call: what the suite says, or every tool once."""
    if "toolCalls" in said:
        return [(call["name"], call.get("arguments", {})) for call in said["toolCalls"]]
    if scenario == "json-schema-2020-12-preservation":
        return [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})]
    schemas = {name: dict(tool.input_schema) for name, tool in tools.items()}
    return [
        (name, {each: sample(schema, each) for each in schema.get("properties", {})})
        for name, schema in schemas.items()
    ]


async def call(session: Session, name: str, args: Any) -> None:
    made = await session.submit(f"server.{name}", args)
    async for event in session.events(call=made.id):
        if event.kind == "waiting":
            question = event.fields["question"]
            await session.answer(question["id"], "accept", answer(question["schema"]))
    print(name, await session.result(made.id), file=sys.stderr)


async def main() -> None:
    url, scenario = sys.argv[-1], os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    said = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    provider = access(url, said) if scenario.startswith("auth/") else None
    source = Mcp(url, name="server", auth=None if provider is None else lambda owner: provider)
    async with Crib([source], policy={"default": "allow"}) as crib:
        tools = {tool.name: tool for tool in crib.catalog.view(("server",)).tools}
        if tools:
            session = await crib.open("s", owner="ada", namespaces=["server"])
            for name, args in plan(tools, scenario, said):
                await call(session, name, args)


if __name__ == "__main__":
    asyncio.run(main())
