"""How tools of strangers looked before, over the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.requirements import requirement
from tests.serve.api.place import desk
from tests.serve.tools import TOOLS
from toolcrib import Crib, Tool
from toolcrib.catalog.fingerprints import MOST_VERSIONS, Fingerprints


async def run(ctx: Any, values: Any) -> str:
    return "x"


def far(description: str) -> Tool:
    return Tool(name="get", namespace="default", description=description, run=run, trusted=False, source="mcp")


def crib(folder: Path, description: str) -> Crib:
    return Crib([*TOOLS, far(description)], store=f"sqlite:///{folder}/log.db", policy={"pin": "ask"})


async def versions(folder: Path, description: str, accept: str | None = None) -> Any:
    made = crib(folder, description)
    async with desk(made) as served:
        if accept is not None:
            await made.accept("default.get", actor=accept)
        assert (await served.get("/tools/default.add/versions"))["items"] == []
        assert await served.refused("GET", "/tools/nothing/versions") == (404, "not_found")
        return (await served.get("/tools/default.get/versions"))["items"]


@requirement("console.tools.2")
async def test_versions_of_a_tool_are_told_with_what_changed(tmp_path: Path) -> None:
    (first,) = await versions(tmp_path, "Get it.")
    assert first["parts"]["description"] == [None, "Get it."]
    assert (first["current"], first.get("changed", []), first.get("by")) == (True, [], None)
    for _ in range(2):  # a version that was seen before is not told twice
        before, now = await versions(tmp_path, "Get it, and tell me.")
    assert (before.get("current", False), now["current"], now["changed"]) == (False, True, ["description"])
    assert now["parts"]["description"] == [None, "Get it, and tell me."]
    *_, accepted = await versions(tmp_path, "Get it, and tell me.", accept="ada")
    assert (accepted["by"], accepted["current"], accepted.get("changed", [])) == ("ada", True, [])


@requirement("console.tools.2")
async def test_a_tool_that_changes_each_time_fills_no_store() -> None:
    async with Crib(TOOLS) as crib:
        pins = Fingerprints(lambda: crib.store, crib.pipeline.clock.now)
        await pins.start(lambda: None)
        writes: list[Any] = []
        for number in range(MOST_VERSIONS + 3):
            (tool,) = pins.marked([far(f"Get it, {number}.")], writes.append)
        for write in writes:
            await write
        await pins.stop()
        assert len(await pins.versions("default.get")) == MOST_VERSIONS
        assert tool.changed == ("description",)
