"""Messages at random, with parts that are right and parts that are not: each is answered, none breaks the server."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.serve.place import META, VERSION, Place
from tests.serve.stdio_client import started

METHODS = [
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list"),
    *("resources/read", "completion/complete", "server/discover", "tasks/get", "tasks/update", "tasks/cancel"),
    *("initialize", "ping", "logging/setLevel", "resources/subscribe", "nothing", ""),
]
WORDS = [
    "add",
    "total",
    "greet",
    "erase",
    "several",
    "explain",
    "note://today",
    "user://1/data",
    "",
    "\u0000",
    "ö" * 50,
]
FIELDS = ["name", "uri", "arguments", "cursor", "taskId", "requestState", "inputResponses", "level", "ref", "argument"]
FIELDS += ["notifications", "protocolVersion", "capabilities", "clientInfo", "_meta", "context", "task", "requestId"]


def value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 3 else 6)
    if kind < 6:
        return [None, True, dice.randrange(-5, 10**20), 1.5, dice.choice(WORDS), VERSION][kind]
    if kind == 6:
        return [value(dice, depth + 1) for _ in range(dice.randrange(3))]
    names = [*FIELDS, "a", "type", "value", "action", "content"]
    return {dice.choice(names): value(dice, depth + 1) for _ in range(dice.randrange(4))}


def message(dice: random.Random) -> dict[str, Any]:
    params: Any = {dice.choice(FIELDS): value(dice) for _ in range(dice.randrange(5))}
    if dice.random() < 0.6:
        params["name"] = dice.choice(WORDS)
    if dice.random() < 0.8:
        meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {"elicitation": {}}}
        params["_meta"] = meta | ({"progressToken": value(dice)} if dice.random() < 0.2 else {})
    made = {"jsonrpc": "2.0", "id": dice.choice([1, "x", -5, 2**70]), "method": dice.choice(METHODS), "params": params}
    if dice.random() < 0.1:
        made[dice.choice(list(made))] = value(dice)
    return made


@pytest.mark.parametrize("seed", range(3))
async def test_over_http(place: Place, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(250):
        said = message(dice)
        sent = {"MCP-Protocol-Version": VERSION, "Mcp-Method": str(said["method"])}
        for name in ("name", "uri", "taskId"):
            if isinstance(said["params"], dict) and isinstance(said["params"].get(name), str):
                sent["Mcp-Name"] = said["params"][name]
        sent = {name: text for name, text in sent.items() if text.isascii() and text.isprintable()}
        answer = await place.http.post("/mcp", json=said, headers=sent)
        assert answer.status_code in (200, 202, 400, 404), (said, answer.text)
        if answer.status_code != 202:
            found = answer.json()
            assert ("result" in found) != ("error" in found), said
            assert found["id"] in (said["id"], None), said
    assert (await place.call("add", {"a": 1}))["content"][0]["text"] == "2"


@pytest.mark.process
async def test_over_a_pipe() -> None:
    dice = random.Random(9)
    async with started() as pipes:
        for number in range(300):
            said = message(dice) | {"id": number}
            pipes.send(json.dumps(said).encode())
            found = await pipes.read()
            while "method" in found:  # a question to the client of an older revision
                found = await pipes.read()
            assert ("result" in found) != ("error" in found), said
            assert found["id"] in (number, None), said
