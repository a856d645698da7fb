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

import httpx2

from toolcrib import Crib, Session
from toolcrib.accounts import AuthorizationReply
from toolcrib.sources.mcp import Mcp
from toolcrib.tool import Tool

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
RETURN = "http://localhost:3000/callback"
PAGE = "https://conformance-test.local/client-metadata.json"
SAMPLES: dict[str, Any] = {"string": "x", "number": 1, "integer": 1, "boolean": True, "object": {}, "array": []}


def account(said: dict[str, Any]) -> dict[str, Any]:
    """What an operator would write down for what the suite hands out."""
    given: dict[str, Any] = {key: said[key] for key in ("client_id", "client_secret") if said.get(key)}
    if "idp_id_token" in said:
        given |= {
            "grant": "token_exchange",
            "subject_token": said["idp_id_token"],
            "exchange_url": said["idp_token_endpoint"],
        }
        given |= {"subject_token_type": ID_TOKEN, "exchange_client_id": said["idp_client_id"]}
    elif "valid_jwt" in said:
        given |= {"grant": "jwt_bearer", "subject_token": said["valid_jwt"]}
    elif "private_key_pem" in said:
        given |= {"grant": "client_credentials", "private_key": said["private_key_pem"]}
        given |= {"signing_alg": said.get("signing_algorithm", "ES256")}
    elif SCENARIO == "auth/client-credentials-basic":
        given["grant"] = "client_credentials"
    elif "client_id" not in given:
        given["client_metadata_url"] = PAGE
    return given if "grant" in given else {**given, "redirect_uri": RETURN}


async def agree(crib: Crib, scope: str | None = None) -> None:
    """Access as a person would get it in a browser; the suite says yes to everything."""
    address = await crib.accounts.begin("ada", "server", RETURN, scope=scope)
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(address)
    await crib.accounts.finish(AuthorizationReply.of(answer.headers["location"]))


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
    if scenario.startswith("sep-2640-"):
        return []
    if "toolCalls" in said:
        return [(call["name"], call.get("arguments", {})) for call in said["toolCalls"]]
    if scenario == "json-schema-2020-12-preservation":
        return [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})]
    schemas = {name: dict(tool.input_schema) for name, tool in tools.items()}
    return [
        (name, {each: sample(schema, each) for each in schema.get("properties", {})})
        for name, schema in schemas.items()
    ]


async def load_skill(session: Session) -> None:
    """Reads a skill as an agent does that wants to follow it: other files only if its SKILL.md could be read."""
    for file in ("SKILL.md", "references/FORMS.md"):
        result = await session.call("server.read_skill", {"skill": "pdf-processing", "file": file})
        print(file, result, file=sys.stderr)
        if not result.ok:
            return


async def call(session: Session, name: str, args: Any) -> None:
    made = await session.submit(f"server.{name}", args)
    asked = 0
    async for event in session.events(call=made.id):
        if event.kind == "waiting":
            question = event.fields["question"]
            if "account" in (question.get("data") or {}):
                asked += 1
                if asked > 3:
                    await session.answer(question["id"], "decline")
                else:
                    await agree(session.crib, question["data"].get("scope"))
            else:
                await session.answer(question["id"], "accept", answer(question["schema"]))
    print(name, await session.result(made.id), file=sys.stderr)


async def main() -> None:
    url, said = sys.argv[-1], json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    source = Mcp(url, name="server", account=account(said) if SCENARIO.startswith("auth/") else False)
    crib = Crib([source], policy={"default": "allow"})
    crib.patience = 60.0  # many of these run at once
    async with crib:
        session = await crib.open("s", owner="ada", namespaces=["server"])
        if crib.catalog.get("server.connect") is not None:
            await call(session, "connect", {})
        tools = {tool.name: tool for tool in crib.catalog.view(("server",)).tools}
        if SCENARIO.startswith("sep-2640-client-verify"):
            await load_skill(session)
        for name, args in plan(tools, SCENARIO, said):
            await call(session, name, args)


if __name__ == "__main__":
    asyncio.run(main())
