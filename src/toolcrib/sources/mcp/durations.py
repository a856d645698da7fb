"""How long requests to servers take, for those who watch a program by OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp.shared.exceptions import MCPError

from toolcrib.sources.mcp.settings import McpClientSettings
from toolcrib.telemetry import instruments


@contextmanager
def measured(request: Any, settings: McpClientSettings) -> Iterator[None]:
    """Record how long a request takes, where somebody reads such numbers."""
    numbers = instruments()
    if numbers is None:
        yield
        return
    facts, begun = _facts(request, settings), time.perf_counter()
    try:
        yield
    except MCPError as error:
        facts |= {"error.type": str(error.code), "rpc.response.status_code": str(error.code)}
        raise
    except BaseException as error:
        facts["error.type"] = type(error).__name__
        raise
    finally:
        numbers.mcp_client_duration.record(time.perf_counter() - begun, facts)


def _facts(request: Any, settings: McpClientSettings) -> dict[str, Any]:
    facts: dict[str, Any] = {"mcp.method.name": request.method, "network.transport": "tcp" if settings.url else "pipe"}
    name = getattr(request.params, "name", None)
    if request.method == "tools/call" and isinstance(name, str):
        facts |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return facts
