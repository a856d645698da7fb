"""`toolcrib sources` against a server that runs."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import serving
from tests.sources.mcp.peers import offers
from tests.sources.mcp.place import PEERS, free_port
from toolcrib import Crib
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load
from toolcrib.serve.managed_sources import ManagedSources
from toolcrib.serve.source_entry import SourceRules

pytestmark = pytest.mark.process

LIGHT = (sys.executable, str(PEERS / "offers.py"))


async def run(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "toolcrib",
        "sources",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@requirement("gateway.managed.1")
async def test_sources_of_a_running_server_are_managed_from_the_command_line() -> None:
    crib = Crib()
    async with crib, serving(crib, sources=ManagedSources(crib, SourceRules(programs=True))) as place:
        at = ("--url", place.url)
        ok = f"one: ok, {len(offers.TOOLS)} tools\n"
        assert await run("add", "one", *at, "--set", "limits.output_bytes=9000", "--", *LIGHT) == (0, ok)
        code, out = await run("list", *at, "--json")
        rows: Any = {row["name"]: row for row in json.loads(out)}
        assert rows["one"]["entry"]["limits"] == {"output_bytes": 9000}
        assert (code, rows["one"]["origin"], rows["one"]["status"]) == (0, "added", "ok")
        code, out = await run("test", "one", *at)
        assert (code, "one answers" in out) == (0, True)
        code, out = await run("test", "two", f"http://127.0.0.1:{free_port()}/mcp", *at)
        assert code == 1
        code, out = await run("disable", "one", *at)
        assert (code, "disabled" in out) == (0, True)
        assert await run("enable", "one", *at) == (0, ok)
        code, out = await run("remove", "ona", *at)
        assert (code, "did you mean 'one'?" in out) == (1, True)
        assert await run("remove", "one", *at) == (0, "Removed one\n")
        code, out = await run("add", "x", "http://127.0.0.1:9/mcp", "--header", "A", *at)
        assert (code, "KEY=env:NAME" in out) == (2, True)


@pytest.mark.parametrize(
    ("section", "key"), [("mcp", "instructoins"), ("sources", "program"), ("auth", "key"), ("limits", "rat")]
)
def test_unknown_keys_of_serve_are_told_with_what_was_meant(tmp_path: Path, section: str, key: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(f"serve:\n  {section}: {{{key}: 1}}\n")
    with pytest.raises(BadConfig, match=f"unknown key '{key}'; did you mean"):
        load(path)


@requirement("gateway.client.2")
async def test_a_model_of_the_file_takes_turns_for_a_server_under_a_budget(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("sampling: [{text: Hello}, {text: again}]\n")
    command = json.dumps([*LIGHT, "one"])
    sampling = "{model: {scripted: script.yaml}, turns: 1}"
    (tmp_path / "crib.yaml").write_text(
        f"sources: [{{mcp: {command}, name: one, required: true, sampling: {sampling}}}]\npolicy: {{default: allow}}\n"
    )
    async with load(tmp_path / "crib.yaml") as crib:
        session = await crib.open(owner="ada", namespaces=["one"])
        first = await session.call("one.sample", {})
        assert (first.ok, "Hello" in str(first)) == (True, True)
        second = await session.call("one.sample", {})
        assert "more than 1 turns" in str(second)


def test_a_model_that_cannot_be_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text("sources:\n  - mcp: some-server\n    sampling:\n      model: {scripted: none.yaml}\n")
    with pytest.raises(BadConfig, match=r"crib.yaml:4: sampling.model: cannot read"):
        load(path)
    path.write_text("sources:\n  - mcp: some-server\n    sampling: {model: a, turn: 1}\n")
    with pytest.raises(BadConfig, match=r"unknown key 'turn'; did you mean 'turns'"):
        load(path)
