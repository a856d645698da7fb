"""An MCP server of an older revision with prompts, resources and templates, that asks its client for things.

With an argument it says so in what it offers, so that two of them can be told apart.
"""

from __future__ import annotations

import json
import sys
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "one"
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
PAGE = {"ui": {"csp": {"connectDomains": []}, "prefersBorder": True}}
PROMPTS = [{"name": "greet", "title": NAME, "arguments": [{"name": "who", "required": True}], "_meta": {"k": 1}}]
RESOURCES = [
    {"uri": f"{NAME}://note", "name": "note", "mimeType": "text/plain", "_meta": {"q": 2}},
    {"uri": "ui://page", "name": NAME, "mimeType": "text/html;profile=mcp-app", "_meta": PAGE},
]
TEMPLATES = [{"uriTemplate": f"{NAME}://items/{{id}}", "name": "item"}]
TOOLS = ["sample", "roots", "touch", "rename", "debug"]
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [{"name": name, "inputSchema": OBJECT} for name in TOOLS]},
    "prompts/list": {"prompts": PROMPTS},
    "resources/list": {"resources": RESOURCES},
    "resources/templates/list": {"resourceTemplates": TEMPLATES},
    "ping": {},
    "logging/setLevel": {},
}
TURN = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say a word"}}], "maxTokens": 10}
subscribed: set[str] = set()
asking: dict[Any, Any] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(id: Any, method: str, params: dict[str, Any]) -> None:
    asking[f"ask-{id}"] = id
    send({"id": f"ask-{id}", "method": method, "params": params})


def text(id: Any, words: str) -> None:
    send({"id": id, "result": {"content": [{"type": "text", "text": words}]}})


def call(id: Any, name: str) -> None:
    if name == "sample":
        ask(id, "sampling/createMessage", TURN)
    elif name == "roots":
        ask(id, "roots/list", {})
    elif name == "touch":
        for uri in sorted(subscribed):
            send({"method": "notifications/resources/updated", "params": {"uri": uri}})
        text(id, ", ".join(sorted(subscribed)))
    elif name == "rename":
        PROMPTS[0]["name"] = "welcome"
        send({"method": "notifications/prompts/list_changed"})
        text(id, "renamed")
    else:
        send({"method": "notifications/message", "params": {"level": "debug", "data": "a detail"}})
        text(id, "logged")


def read(id: Any, uri: str) -> None:
    if uri.endswith("gone"):
        send({"id": id, "error": {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}})
    elif uri == "ui://page":
        page = {"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": f"<p>{NAME}</p>", "_meta": PAGE}
        send({"id": id, "result": {"contents": [page], "_meta": {"served": NAME}}})
    else:
        send({"id": id, "result": {"contents": [{"uri": uri, "text": f"{NAME}: {uri}"}]}})


def result(method: str, params: Any) -> dict[str, Any] | None:
    match method:
        case "initialize":
            told = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES}
            return {**told, "serverInfo": {"name": NAME, "version": "1"}}
        case "prompts/get":
            said = {"type": "text", "text": f"Hello, {params['arguments']['who']}"}
            return {"messages": [{"role": "user", "content": said}], "_meta": {"p": 1}}
        case "completion/complete":
            return {"completion": {"values": [json.dumps(params["ref"], sort_keys=True)]}}
        case "resources/subscribe" | "resources/unsubscribe":
            (subscribed.add if method == "resources/subscribe" else subscribed.discard)(params["uri"])
            return {}
    return LISTS.get(method)


def answer(id: Any, method: str, params: Any) -> None:
    if method == "tools/call":
        call(id, params["name"])
    elif method == "resources/read":
        read(id, params["uri"])
    elif (found := result(method, params)) is not None:
        send({"id": id, "result": found})
    else:
        send({"id": id, "error": {"code": -32601, "message": f"Method not found: {method}"}})


if __name__ == "__main__":
    print(f"{NAME} begins", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            answer(message["id"], message["method"], message.get("params"))
        elif "id" in message:
            text(asking.pop(message["id"]), json.dumps(message.get("result") or message.get("error"), sort_keys=True))
