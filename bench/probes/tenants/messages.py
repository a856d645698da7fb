"""What two owners send."""

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any

KEYS = {"noisy": "tck_noisy" + "n" * 40, "quiet": "tck_quiet" + "q" * 40}
ANSWER = b'"data":3'


def post(owner: str, path: str, said: Any) -> bytes:
    """A request with a body, of an owner."""
    body = json.dumps(said, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAuthorization: Bearer {KEYS[owner]}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def calls(owner: str, session: str, tool: str) -> Iterator[tuple[bytes, bytes]]:
    """Calls of a tool in a session of that owner, with what a right answer holds."""
    yield post(owner, "/v1/sessions", {"id": session}), b'"id"'
    call = {"tool": tool, "args": {"a": 1, "b": 2}}
    yield from repeat((post(owner, f"/v1/sessions/{session}/calls", call), ANSWER))
