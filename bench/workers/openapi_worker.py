"""`openapi_worker.py LIBRARY PATH...`: reads OpenAPI documents with a library, one line of JSON for each.

Libraries read a document as their own pages tell. A document that takes more than a minute of CPU counts as not read.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

LONGEST_S = 60


def toolcrib(path: Path) -> int:
    from toolcrib.sources.openapi import OpenApi

    async def tools() -> int:
        source = OpenApi(path, namespace="sample", base_url="https://host.invalid", limit=100_000)
        try:
            return len(list(await source.start(lambda tools: None)))
        finally:
            await source.stop()

    return asyncio.run(tools())


def fastmcp(path: Path) -> int:
    import httpx2
    from fastmcp import FastMCP

    document = json.loads(path.read_text("utf-8"))

    async def tools() -> int:
        async with httpx2.AsyncClient(base_url="https://host.invalid") as client:
            return len(await FastMCP.from_openapi(openapi_spec=document, client=client).list_tools())

    return asyncio.run(tools())


def google_adk(path: Path) -> int:
    from google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset import OpenAPIToolset

    toolset = OpenAPIToolset(spec_str=path.read_text("utf-8"), spec_str_type="json")
    return len(asyncio.run(toolset.get_tools()))


LIBRARIES = {"toolcrib": toolcrib, "fastmcp": fastmcp, "google-adk": google_adk}


def late(*_: Any) -> None:
    raise TimeoutError(f"takes more than {LONGEST_S} s of CPU")


def main() -> None:
    library = LIBRARIES[sys.argv[1]]
    signal.signal(signal.SIGPROF, late)
    for name in sys.argv[2:]:
        began = time.process_time()
        line: dict[str, Any] = {"document": name}
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            line["tools"] = library(Path(name))
        except Exception as error:  # noqa: BLE001 - whatever is raised is a document that was not read
            line["problem"] = f"{type(error).__name__}: {str(error)[:160]}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(line | {"seconds": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
