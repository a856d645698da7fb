"""An MCP server written by hand, without the SDK, so that it can do what no honest server does.

Run as `raw.py <era>`: `modern` speaks 2026-07-28, `legacy` 2025-11-25, `quits` ends when it is asked for the new one,
`broken` never starts, `mute` never answers, `stubborn` never ends. It notes what it hears, and the tool `heard` tells.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NEWEST = "2026-07-28"
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
FORM = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
STATE = 'opaque é "quoted" \\u0000 \t end=='

heard: list[dict[str, Any]] = []
asking: dict[str, Any] = {}
task: dict[str, Any] = {}
memory: list[str] = []


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": OBJECT, **more}


tools = [
    tool("echo", inputSchema=TEXT, annotations={"readOnlyHint": True}),
    *map(tool, ("heard", "die", "hang", "stuck", "flood", "endless", "noise", "grow", "task", "spill", "holograms")),
    *map(tool, ("no_kind", "odd_kind", "later", "ask", "ask_twice", "roots", "error", "pid", "next_reply", "spawn")),
    tool("remember", inputSchema=TEXT),
    *map(tool, ("recall", "stir")),
    tool("lie", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    tool("look", annotations={"readOnlyHint": True, "destructiveHint": True}),
    tool("re-read", annotations={"readOnlyHint": True}),
    tool("odd/näme"),
    tool("odd:näme"),
    {"name": "bad_schema", "description": "No schema.", "inputSchema": {"type": "object", "properties": {"a": 5}}},
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(id: Any, text: str = "done", **more: Any) -> None:
    send({"id": id, "result": {"resultType": "complete", "content": [{"type": "text", "text": text}], **more}})


def elicit(key: str, id: Any) -> None:
    asking[key] = id
    send({"id": key, "method": "elicitation/create", "params": {"message": f"Which {key}?", "requestedSchema": FORM}})


def wanted(state: str, **requests: str) -> dict[str, Any]:
    forms = {
        key: {"method": "elicitation/create", "params": {"mode": "form", "message": text, "requestedSchema": FORM}}
        for key, text in requests.items()
    }
    return {"resultType": "input_required", "requestState": state, **({"inputRequests": forms} if forms else {})}


def color_of(reply: dict[str, Any]) -> str:
    """What a person chose, or that they did not want to."""
    return str((reply.get("content") or {}).get("color", f"no color, it was {reply['action']}"))


def asked(id: Any, params: dict[str, Any]) -> None:
    """Over the open connection in the old way, with a state to be sent back in the new."""
    if era != "modern":
        elicit("color", id)
    elif params.get("requestState") == STATE:
        answer(id, color_of(params["inputResponses"]["color"]))
    else:
        send({"id": id, "result": wanted(STATE, color="Which color?")})


def asked_twice(id: Any, params: dict[str, Any]) -> None:
    if era != "modern":
        elicit("first", id)
        return
    given = params.get("inputResponses") or {}
    state = params.get("requestState")
    if state is None:
        send({"id": id, "result": wanted("one", left="Which left?", right="Which right?")})
    elif state == "one":
        told = "+".join(given[key]["content"]["color"] for key in ("left", "right"))
        send({"id": id, "result": wanted(told, last="Which last?")})
    else:
        answer(id, state + "+" + given["last"]["content"]["color"])


def replied(key: str, result: dict[str, Any]) -> None:
    """An answer to a question over the open connection."""
    id = asking.pop(key)
    if key == "first":
        asking["told"] = (result.get("content") or {}).get("color")
        elicit("second", id)
        return
    if "waiter" in asking:
        answer(asking.pop("waiter"), result["action"])
    told = asking.pop("told", None)
    color = result["action"] if result["action"] == "error" else color_of(result)
    answer(id, color if told is None else f"{told}+{color}")


def remember(id: Any, text: str) -> None:
    memory.append(text)
    answer(id)


def stir(id: Any) -> None:
    """Says and asks something for the call that waits for an answer, while another one is under way."""
    if "color" not in asking:
        answer(id, "nobody waits")
        return
    send({"method": "notifications/message", "params": {"level": "info", "data": f"remembered: {memory}"}})
    elicit("more", id)


def flood(id: Any, size: int, ends: bool = True) -> None:
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"')
    for _ in range(size):
        sys.stdout.write("x" * 65536)
    if ends:
        sys.stdout.write('"}]}}\n')
    sys.stdout.flush()


def noise(id: Any) -> None:
    sys.stdout.write("Starting up...\n\n{broken\n[1,2]\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\xff\xfe\x00\n")
    sys.stdout.buffer.flush()
    send({"id": 987654, "result": {}})
    send({"method": "notifications/nonsense", "params": {"a": 1}})
    answer(id)


def grow(id: Any) -> None:
    tools.append(tool(f"grown{len(tools)}"))
    answer(id)
    send({"method": "notifications/tools/list_changed"})


def about_task(method: str, id: Any, params: dict[str, Any]) -> None:
    state: dict[str, Any] = {"resultType": "complete", "taskId": params["taskId"], "ttlMs": None, "pollIntervalMs": 10}
    if method == "tasks/update":
        task["answers"] = params["inputResponses"]
        send({"id": id, "result": {"resultType": "complete"}})
        return
    if method == "tasks/cancel":
        task["cancelled"] = True
        send({"id": id, "result": {"resultType": "complete"}})
        return
    task["polls"] = task.get("polls", 0) + 1
    if task["polls"] < 3:
        state |= {"status": "working", "statusMessage": f"poll {task['polls']}"}
    elif params["taskId"] == "job":
        state |= {"status": "completed", "result": {"content": [{"type": "text", "text": "built"}]}}
    elif params["taskId"] == "fails":
        state |= {"status": "failed", "error": {"code": -32603, "message": "out of disk"}}
    elif params["taskId"] == "endless":
        state |= {"status": "working", "statusMessage": f"poll {task['polls']}"}
    elif "answers" not in task:
        state |= {"status": "input_required", "inputRequests": wanted("", q="Which color?")["inputRequests"]}
    else:
        text = color_of(task["answers"]["q"])
        state |= {"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}
    send({"id": id, "result": state})


def call(id: Any, params: dict[str, Any]) -> None:
    name, args = params["name"], params.get("arguments") or {}
    if name == "hang":
        return
    if name == "next_reply":
        asking["waiter"] = id
        return
    if name in ("die", "stuck"):
        send({"method": "notifications/progress", "params": {"progressToken": id, "progress": 1, "message": "dying"}})
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    actions: dict[str, Any] = {
        "echo": lambda: answer(id, args["text"]),
        "heard": lambda: answer(id, structuredContent={"heard": heard, "task": task}),
        "pid": lambda: answer(id, str(os.getpid())),
        "remember": lambda: remember(id, args["text"]),
        "recall": lambda: answer(id, json.dumps(memory)),
        "stir": lambda: stir(id),
        "spawn": lambda: answer(id, str(subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL).pid)),
        "stuck": lambda: time.sleep(3600),
        "flood": lambda: flood(id, 40),
        "endless": lambda: flood(id, 40, ends=False),
        "noise": lambda: noise(id),
        "grow": lambda: grow(id),
        "task": lambda: send(
            {"id": id, "result": {"resultType": "task", "taskId": args.get("id", "asks"), "status": "working"}}
        ),
        "no_kind": lambda: send({"id": id, "result": {"content": [{"type": "text", "text": "plain"}]}}),
        "odd_kind": lambda: send({"id": id, "result": {"resultType": "perhaps", "content": []}}),
        "holograms": lambda: answer(id, content=[{"nothing": 1}]),
        "later": lambda: answer(id) if params.get("requestState") == "s" else send({"id": id, "result": wanted("s")}),
        "ask": lambda: asked(id, params),
        "ask_twice": lambda: asked_twice(id, params),
        "roots": lambda: send(
            {"id": id, "result": {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}}
        ),
        "error": lambda: send({"id": id, "error": {"code": -32000, "message": "The disk is full"}}),
        "lie": lambda: answer(id, structuredContent={"n": "three"}),
    }
    actions.get(name, lambda: answer(id))()


def handle(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    heard.append({"method": method, "params": params, "id": id})
    if method is None:
        replied(str(id), message.get("result") or {"action": "error"})
    elif method == "server/discover" and era == "quits":
        sys.exit(1)
    elif method == "server/discover" and era == "modern":
        able: dict[str, Any] = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        discovered = {"supportedVersions": [NEWEST], "capabilities": able, "ttlMs": 0, "cacheScope": "public"}
        send({"id": id, "result": {"resultType": "complete", **discovered}})
    elif method == "initialize":
        abilities = {"tools": {"listChanged": True}}
        info = {"name": "shell", "version": "1"}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": abilities, "serverInfo": info}})
    elif method == "tools/list":
        listed = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}
        send({"id": id, "result": listed})
    elif method == "tools/call":
        call(id, params)
    elif method.startswith("tasks/"):
        about_task(method, id, params)
    elif method == "ping":
        send({"id": id, "result": {}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    started = os.environ.get("STARTED")
    if started:
        with Path(started).open("a") as file:
            file.write("started\n")
    if era == "broken":
        sys.exit("no such database")
    if era == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        if era != "mute":
            handle(json.loads(line))
    if era == "stubborn":
        time.sleep(3600)


era = sys.argv[1] if len(sys.argv) > 1 else "legacy"
if __name__ == "__main__":
    main()
