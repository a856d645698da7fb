"""What a server says of what does nothing: in its log when it starts, and to administrators."""

import asyncio
import logging
from collections.abc import Callable, Iterable

import pytest

from tests.requirements import requirement
from tests.serve.api.place import desk
from tests.serve.api.test_auth import kept, made
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.review import review
from toolcrib.sources import Source
from toolcrib.tool import Tool

POLICY = {"rules": [{"deny": "default.ad"}]}


@requirement("findings.shown.1")
async def test_findings_are_logged_at_the_start_and_served(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib.serve"):
        async with desk(Crib(TOOLS, policy=POLICY, default_namespaces=["default", "defalt"])) as served:
            items = (await served.get("/findings"))["items"]
            await asyncio.wait_for(served.site.reviewed(), 30)
    assert [one["code"] for one in items] == ["NO_TOOL", "NO_NAMESPACE"]
    assert items[0]["message"] == "rule-1 (deny default.ad) denies a tool that does not exist"
    logged = [record.getMessage() for record in caplog.records]
    assert any("denies a tool that does not exist" in line and "[NO_TOOL]" in line for line in logged)


@requirement("findings.shown.1", "findings.keys.1")
async def test_keys_for_namespaces_that_no_tool_has_are_found_by_administrators_alone() -> None:
    async with kept() as (served, keys):
        root = served.as_(await made(keys, "root", "admin"))
        ada = served.as_(await made(keys, "ada", namespaces=["frge"]))
        (item,) = (await root.get("/findings"))["items"]
        assert (item["code"], item["about"], item["nearest"]) == ("NO_NAMESPACE", "keys", "forge")
        assert await ada.refused("GET", "/findings") == (403, "denied")
        assert await root.refused("POST", "/keys", {"owner": "x", "namespaces": ["frge"]}) == (404, "not_found")


class Late(Source):
    """A source that has not answered yet."""

    name = "late"

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        await asyncio.Event().wait()
        return []

    async def stop(self) -> None:
        """Nothing is held."""


@requirement("findings.shown.2")
async def test_what_a_source_that_has_not_answered_may_bring_is_only_remarked() -> None:
    crib = Crib([*TOOLS, Late()], policy={"rules": [{"deny": "far.away"}]})
    crib.patience = 0.01
    async with crib:
        (finding,) = await review(crib)
    assert (finding.code, finding.severity) == ("NO_TOOL", "info")
    assert "has not answered yet" in finding.message


@requirement("findings.config.1")
async def test_settings_that_name_nothing_are_found() -> None:
    crib = Crib(
        TOOLS, namespace_aliases={"d": "defalt"}, precedence=["no-source"], declare={"default.ad": {"effect": "read"}}
    )
    async with crib:
        found = await review(crib)
    assert [(one.code, one.nearest) for one in found] == [
        ("NO_DECLARATION", "default.add"),
        ("NO_NAMESPACE", "default"),
        ("NO_SOURCE", None),
    ]
