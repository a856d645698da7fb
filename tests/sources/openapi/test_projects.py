"""A document in a `crib.yaml`, and calls of it across a crash."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.conftest import POLICY
from tests.sources.openapi.service import Service, document, operation, parameter
from toolcrib import Crib
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load
from toolcrib.sources.openapi import OpenApi

KEY = "k-5d4c3b2a-secret"


def toolcrib(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "toolcrib", *words],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path, service: Service) -> Path:
    """A project with a document, its key in the environment."""
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    said = operation(parameter("id", "path", {"type": "integer"}), summary="Get a pet", security=[{"key": []}])
    paths = {"/echo/{id}": {"get": said, "delete": {**operation(parameter("id", "path")), "operationId": "drop"}}}
    (tmp_path / "shop.json").write_text(json.dumps(document(paths, components={"securitySchemes": schemes})))
    entry = {"openapi": "shop.json", "namespace": "pets", "trusted": True, "base_url": "${SHOP}", "exclude": "DELETE"}
    entry |= {"auth": {"key": "${SHOP_KEY}"}, "timeout": 20}
    (tmp_path / "crib.yaml").write_text(json.dumps({"sources": [entry], "policy": POLICY}))
    return tmp_path


@pytest.mark.process
def test_a_document_is_a_source_of_a_project(project: Path, service: Service) -> None:
    environ = {"SHOP": service.url, "SHOP_KEY": KEY}
    listed = json.loads(toolcrib(project, "tools", "list", "--json", "-n", "pets", **environ).stdout)
    found = [(one["id"], one["type"], one["effect"]) for one in listed["tools"] if one.get("namespace") == "pets"]
    assert found == [("pets.it", "openapi", "read")]
    assert listed["tools"][0]["description"] == "Get a pet"
    called = toolcrib(project, "call", "pets.it", "-a", "id=7", **environ)
    assert called.returncode == 0, called.stderr
    assert (service.last.path, service.last.headers["x-key"]) == ("/echo/7", KEY)
    assert KEY not in called.stdout + called.stderr


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nmespace": "x"}, "did you mean 'namespace'?"),
        ({"auth": {"key": "${NOT_SET_ANYWHERE}"}}, "the variable NOT_SET_ANYWHERE is not set"),
        ({"openapi": "none.yaml"}, "there is no file or folder"),
        ({"trusted": "yes"}, "expected true or false"),
        ({"limit": 0}, "limit: must be more than 0"),
        ({"base_url": "nowhere"}, "is no address of a service"),
    ],
)
def test_what_is_wrong_with_an_entry_is_told_with_its_line(project: Path, change: dict[str, Any], problem: str) -> None:
    said = json.loads((project / "crib.yaml").read_text())
    said["sources"][0] |= {"base_url": "http://127.0.0.1:1", "auth": {}, **change}
    (project / "crib.yaml").write_text(json.dumps(said))
    with pytest.raises(BadConfig) as told:
        load(project / "crib.yaml")
    assert problem in str(told.value)
    assert "crib.yaml:1:" in str(told.value)


async def test_a_key_tells_after_a_crash_what_became_of_a_call(service: Service, tmp_path: Path) -> None:
    service.held.clear()
    said = document({"/echo/held": {"post": operation(parameter("Idempotency-Key", "header"))}})
    store = f"sqlite:///{tmp_path / 'crib.db'}"

    def crib() -> Crib:
        return Crib([OpenApi(said, base_url=service.url, trusted=True)], policy=POLICY, store=store)

    first = crib()
    await first.start()
    try:
        session = await first.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.it", {})
        async with asyncio.timeout(60):
            while not service.seen:  # noqa: ASYNC110 - the service is in another thread
                await asyncio.sleep(0.01)
    finally:
        await first.stop(grace=0)
    async with crib() as second:
        session = await second.open("s", owner="ada")
        result = await session.result(call.id)
    service.held.set()
    assert result.ok, result.failure
    keys = [seen.headers["idempotency-key"] for seen in service.seen]
    assert len(keys) == 2
    assert keys[0] == keys[1]
