"""Usage: bare <port>. An application that reads the request and answers the same bytes each time."""

from collections.abc import Awaitable, Callable
from typing import Any

from bench.probes.mcp.messages import REPLY
from bench.probes.mcp.serving import serve

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(REPLY))],
}


async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Answers."""
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send({"type": "http.response.body", "body": REPLY})


if __name__ == "__main__":
    serve(app)
