"""A program with an SDK for traces: it serves a crib, is called with a `traceparent`, and prints its spans."""

from __future__ import annotations

import asyncio
import json

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.serve.api.place import desk
from tests.serve.tools import TOOLS
from toolcrib import Crib

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def main() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    async with desk(Crib(TOOLS)) as served:
        session = await served.open()
        for tool, args in (("add", {"a": 1}), ("fails", {"how": "plainly"}), ("greet", {})):
            body = {"tool": tool, "args": args, "wait": 60.0 if tool != "greet" else 0.5, "background": False}
            await served.ask("POST", f"/sessions/{session}/calls", body, headers={"traceparent": PARENT})
    for span in exporter.get_finished_spans():
        assert span.context is not None
        said = {
            "name": span.name,
            "trace": f"{span.context.trace_id:032x}",
            "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
            "attributes": dict(span.attributes or {}),
            "ok": span.status.is_ok,
            "events": len(span.events),
        }
        print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
