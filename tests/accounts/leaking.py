"""A program that serves a crib, has an account connected and used in every way, and prints all that anybody sees of it.

It is a process of its own, since a tracer is set once for all of a process. Its last line says what must not be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from typing import Any

import httpx
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.accounts.place import KEY, all_text, connect, shop, whoami
from tests.accounts.service import Service, running
from tests.serve.place import Place, serving
from toolcrib import Context, Crib, tool

LINES = {"accept": "application/x-ndjson"}


@tool(namespace="default", name="stumble", effect="read")
async def stumble(ctx: Context) -> None:
    """Fail with the token in the exception, as careless code does."""
    raise RuntimeError(f"no answer with {await ctx.credential('shop')}")


def show(what: str, value: Any) -> None:
    print(json.dumps({what: value}, default=str))


async def use(place: Place) -> None:
    """Calls tools that use, renew, lose and show the account, over HTTP."""
    http = place.http
    session = (await http.post("/v1/sessions", json={})).json()["id"]
    for name in ("whoami", "stumble", "whoami"):
        body: dict[str, Any] = {"tool": name, "args": {}, "wait": 60.0}
        show("answer", (await http.post(f"/v1/sessions/{session}/calls", json=body)).text)
    show("mcp", await place.call("whoami"))
    for path in ("calls", "audit", "accounts", "questions", "sources", f"sessions/{session}", "stats", "findings"):
        answer = await http.get(f"/v1/{path}")
        show(path, [answer.status_code, answer.text])
    show("audit lines", (await http.get("/v1/audit", headers=LINES)).text)
    show("export", (await http.get(f"/v1/sessions/{session}/export")).text)
    show("events", (await http.get(f"/v1/sessions/{session}/events", params={"follow": "false"})).text)
    show("metrics", (await http.get("/metrics")).text)


async def drive(service: Service, store: str) -> None:
    crib = Crib(
        [whoami, stumble],
        store=store,
        secret_key=KEY,
        deps={"api": service.api},
        accounts=[shop(service)],
        policy={"default": "allow"},
    )
    async with crib, serving(crib) as place:
        crib.accounts.serve_at(place.url)
        owner = (await place.http.get("/v1/me")).json()["name"]
        await connect(crib, owner, "ada@shop")
        await use(place)
        before = service.secrets
        service.expire()
        await use(place)
        with contextlib.suppress(httpx.HTTPError):
            await place.http.delete("/v1/accounts/shop")
        await crib.store.flush()
        show("log", await all_text(crib))
        show("secrets", [*before, *service.secrets])


async def main() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    for loud in ("httpx", "httpcore"):  # what the service itself is sent
        logging.getLogger(loud).setLevel(logging.WARNING)
    async with running() as service:
        await drive(service, sys.argv[1])
    show("spans", [span.to_json() for span in exporter.get_finished_spans()])


if __name__ == "__main__":
    asyncio.run(main())
