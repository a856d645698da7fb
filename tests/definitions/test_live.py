"""Files as they are found in the wild, with programs and servers that stand in for what they name."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.definitions.place import PEER, Place, code, hint, message, names
from tests.requirements import requirement
from tests.shared import RECORDINGS, require_recordings
from toolcrib.definitions import mcp_servers

pytestmark = pytest.mark.process

RUN = "import os, sys; os.execv(sys.executable, [sys.executable, {peer!r}, {log!r}, {tools!r}])"


@pytest.fixture
def wild(place: Place) -> Place:
    """The files of the specification, and an `npx` that starts a server of ours whatever it is asked for."""
    require_recordings()
    shutil.copytree(RECORDINGS / "tools", place.root, dirs_exist_ok=True)
    offer(place, json.dumps([{"name": "create_task"}, {"name": "get_workspace_hierarchy", "says": {"spaces": []}}]))
    place.environ["CLICKUP_API_KEY"] = "pk_123"
    return place


def offer(place: Place, tools: str) -> None:
    place.programs.write("npx", RUN.format(peer=str(PEER), log=str(place.log), tools=tools))


@requirement("yaml.know.2", "yaml.cmd.7", "yaml.cmd.3")
async def test_a_wrong_call_does_not_reach_the_server_and_its_hint_shows_the_right_one(wild: Place) -> None:
    async with wild.opened() as (_, session):
        right = {"list_id": "1", "name": "Write", "assignees": [456]}
        result = await session.call("clickup.create_task", {**right, "assignees": {"add": [456]}})
        assert code(result) == "invalid_arguments"
        assert message(result).startswith("assignees: ")
        assert "[456" in hint(result) or "assignees: [" in hint(result)
        assert not wild.log.exists()
        assert (await session.call("clickup.create_task", right)).data == right
        assert [one["call"] for one in wild.noted("call")] == ["create_task"]
        assert "clickup.get_workspace_hierarchy" in names(session)


@requirement("yaml.run.1", "yaml.run.mcp.3", "yaml.health.2")
async def test_a_missing_key_and_then_a_server_that_hangs_are_both_told(
    wild: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "START_S", 0.5)
    del wild.environ["CLICKUP_API_KEY"]
    right = {"list_id": "1", "name": "Write"}
    async with wild.opened() as (source, session):
        result = await session.call("clickup.create_task", right)
        assert (code(result), message(result)) == ("unavailable", "CLICKUP_API_KEY is not set")
        assert hint(result) == "ClickUp API key for authentication"
        assert (await source.health("clickup")).reason == "CLICKUP_API_KEY is not set"
        wild.environ["CLICKUP_API_KEY"] = "pk_123"
        offer(wild, "hang")
        result = await session.call("clickup.create_task", right)
        assert code(result) == "unavailable"
        report = await source.health("clickup")
        assert (report.status, report.reason.startswith("clickup could not be started")) == ("unhealthy", True)


@requirement("yaml.health.2")
async def test_the_check_of_a_file_really_calls_its_server(wild: Place) -> None:
    async with wild.looked_at() as source:
        report = await source.health("clickup")
        assert (report.status, report.level, report.reason) == (
            "healthy",
            "called",
            "Expected: Object with 'spaces' array",
        )
        assert [one["call"] for one in wild.noted("call")] == ["get_workspace_hierarchy"]


@requirement("yaml.cmd.1", "yaml.cmd.3")
async def test_a_crib_over_all_files_has_their_commands_and_starts_nothing(wild: Place) -> None:
    async with wild.opened() as (source, session):
        found = names(session)
        assert {"clickup.create_task", "github-cli.pr_list", "ffmpeg.ffprobe", "exa.web_search_exa"} <= found
        assert not any(name.startswith("llm-routing") for name in found)
        status = {one.id: one.status for one in await source.list()}
        assert status.pop("llm-routing") == "invalid"
        assert set(status.values()) == {"ok"}
        assert not wild.log.exists()


@requirement("yaml.run.cli.3", "yaml.know.2")
async def test_the_program_of_a_file_gets_what_was_given_and_its_complaint_a_hint(wild: Place) -> None:
    wild.programs.write("gh", "import json, sys; print(json.dumps(sys.argv[1:]))")
    async with wild.opened() as (_, session):
        given = ["--search", "a b; rm -rf *", "-L", "3"]
        assert (await session.call("github-cli.pr_list", {"args": given})).data == ["pr", "list", *given]
        wild.programs.write("gh", "import sys; sys.exit('You are not logged into any GitHub hosts')")
        assert "gh auth login" in hint(await session.call("github-cli.pr_list", {"args": []}))


@requirement("yaml.know.1")
async def test_help_tells_what_a_file_knows(wild: Place) -> None:
    async with wild.opened() as (_, session):
        told = await session.call("tool_help", {"tool": "clickup.create_task"})
        assert "assignees" in told.text
        assert len(told.text) < 8_000
