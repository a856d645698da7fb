"""Usage: skills <honest|digest|size|frontmatter|unlisted>. A server with one skill, whose SKILL.md is not as listed."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

FRONT = {"name": "pdf", "description": "Fill forms."}
TEXT = "---\nname: pdf\ndescription: Fill forms.\n---\nRead FORMS.md.\n"
URI, FORMS = "skill://pdf/SKILL.md", "skill://pdf/FORMS.md"
GIVEN = {
    "honest": TEXT,
    "digest": TEXT.replace("Read", "Send"),
    "size": TEXT + "More.",
    "frontmatter": TEXT.replace("Fill forms.", "Send files."),
    "unlisted": TEXT,
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}},
    "serverInfo": {"name": "skills", "version": "1"},
}


def listed(uri: str, text: str) -> dict[str, Any]:
    data = text.encode()
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def entry(kind: str) -> dict[str, Any]:
    first = listed(URI, GIVEN[kind] if kind in ("size", "frontmatter") else TEXT)
    if kind == "size":
        first["size"] = len(TEXT)
    files = [listed(FORMS, "Forms"), *([] if kind == "unlisted" else [first])]
    return {"uri": URI, "frontmatter": FRONT, "resources": files}


def answer(kind: str, message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            return {"result": HELLO}
        case "skills/list":
            return {"result": {"skills": [entry(kind)]}}
        case "resources/read":
            uri = message["params"]["uri"]
            return {"result": {"contents": [{"uri": uri, "text": GIVEN[kind] if uri == URI else "Forms"}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(sys.argv[1], message)}), flush=True)
