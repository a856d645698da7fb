"""Random requests, made from the description of the API itself: none breaks the server, and all answers fit it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.routes import ROUTES
from toolcrib.serve.http import Site, server

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = {route.path for route in ROUTES if route.streams and 200 not in route.gives}
ALL = [route for route in ROUTES if route.path.startswith("/v1/") and route.path not in ENDLESS]
SCHEMA = schemathesis.openapi.from_dict(document(ALL))
FOUND = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]
OPERATIONS = {f"{operation.method.upper()} {operation.path}": operation for operation in FOUND}


@schemathesis.serializer("application/x-ndjson")
def lines(context: object, value: Any) -> bytes:
    """What is sent as lines is sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a thread of its own, with a session in which something has happened."""
    store: Path = tmp_path_factory.mktemp("fuzz") / "crib.db"
    listener = socket.create_server(("127.0.0.1", 0))
    ready = threading.Event()
    made = server(Site(Crib(TOOLS, store=f"sqlite:///{store}")), ready.set, loop="none", lifespan="on")
    thread = threading.Thread(target=lambda: asyncio.run(made.serve([listener])))
    thread.start()
    assert ready.wait(60)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=f"{address}/v1", timeout=60) as http:
        http.post("/sessions", json={"id": "fuzz"})
        http.post("/sessions/fuzz/calls", json={"tool": "add", "args": {"a": 1}})
        http.post("/sessions/fuzz/calls", json={"tool": "greet", "wait": False})
    yield address
    made.should_exit = True
    thread.join(60)
    listener.close()


TAKING = {f"{route.method} {route.path}" for route in ALL if route.names or route.query or route.body}
CASES = [(name, GenerationMode.POSITIVE) for name in sorted(OPERATIONS)]
CASES += [(name, GenerationMode.NEGATIVE) for name in sorted(OPERATIONS) if name in TAKING]


@pytest.mark.parametrize(("name", "mode"), CASES, ids=lambda part: getattr(part, "value", part))
def test_random_requests_get_answers_that_fit(url: str, name: str, mode: Any) -> None:
    operation = OPERATIONS[name]
    answers = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=6, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def run(case: Any) -> None:
        if "session" in (case.path_parameters or {}) and mode is GenerationMode.POSITIVE:
            case.path_parameters["session"] = "fuzz"
        if isinstance(case.query, dict):
            case.query.pop("follow", None)
        if isinstance(case.body, dict) and "timeout" in case.body:
            case.body["timeout"] = 0
        answers.append(case.call(base_url=url, timeout=60))
        case.validate_response(answers[-1], checks=CHECKS)

    run()
    assert answers
