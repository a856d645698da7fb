"""Toolkits of a `crib.yaml`, and what loading them costs those who do not use them."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib import Crib, testing, toolkits
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load

CRIB = """
sources:
  - {toolkit: time}
  - {toolkit: files, root: data}
  - toolkit: sql
    databases: {shop: shop.db, main: "${MAIN_URL}"}
  - {toolkit: search}
  - {toolkit: http, ports: [8080], headers: {api.example.com: {Authorization: "Bearer ${TOKEN}"}}}
  - {toolkit: shell, root: data}
policy: {preset: pro}
"""


async def test_a_file_names_toolkits_with_their_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIN_URL", "postgresql://nowhere/x")
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.delenv("BRAVE_SEARCH_API_KEY", raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.txt").write_text("hello")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id)")
    (tmp_path / "crib.yaml").write_text(CRIB)
    async with load(tmp_path / "crib.yaml") as crib:
        session = await crib.open("s", owner="ada", namespaces=["files", "sql", "search", "http", "shell", "time"])
        assert (await session.call("read_file", {"path": "a.txt"})).data["text"] == "hello"
        assert (await session.call("sql_schema", {"database": "shop"})).data["tables"][0]["table"] == "orders"
        assert "brave_search" not in session.model_tools()
        assert {"http_fetch", "shell", "get_current_time"} <= session.model_tools().keys()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{toolkit: fils, root: .}", "there is no toolkit 'fils'"),
        ("{toolkit: files, rot: .}", "did you mean 'root'?"),
        ("{toolkit: files}", "toolkit files needs root"),
        ("{toolkit: files, root: none}", "there is no folder"),
        ("{toolkit: sql, databases: {a: '${NOT_SET_HERE}'}}", "the variable NOT_SET_HERE is not set"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, entry: str, said: str) -> None:
    (tmp_path / "crib.yaml").write_text(f"sources:\n  - {entry}\n")
    with pytest.raises(BadConfig, match=r"crib\.yaml:2") as error:
        load(tmp_path / "crib.yaml")
    assert said in str(error.value)


NESTED = """\
sources:
  - toolkit: http
    ports:
      - 8080
    headers:
      api.example.com:
        Accept: "*/*"
        Authorization: "Bearer ${NOT_SET_HERE}"
  - toolkit: sql
    databases:
      one: one.db
      two: >-
        postgresql://ada:
        ${NOR_THIS}@host
"""


def test_a_missing_variable_is_told_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "crib.yaml").write_text(NESTED)
    with pytest.raises(BadConfig) as error:
        load(tmp_path / "crib.yaml")
    lines = str(error.value).splitlines()
    assert [line.partition("crib.yaml:")[2] for line in lines] == [
        "8:32: the variable NOT_SET_HERE is not set",
        "14:9: the variable NOR_THIS is not set",
    ]


@pytest.mark.parametrize("given", ["whole", "single"])
async def test_a_toolkit_is_one_source_or_single_tools(given: str) -> None:
    kit = toolkits.time.tools()
    assert kit["convert_time"].id == "time.convert_time"
    async with Crib([kit] if given == "whole" else [*kit]) as crib:
        session = await crib.open("s", owner="ada", namespaces=["time"])
        assert (await session.call("get_current_time")).ok
    with pytest.raises(AttributeError):
        toolkits.nothing  # noqa: B018


@pytest.mark.process
def test_nothing_is_loaded_for_those_who_use_no_toolkit() -> None:
    code = "import sys, toolcrib, toolcrib.toolkits; print([m for m in sys.modules if m in {names}])"
    names = {"httpx", "asyncpg", "eth_abi", "Crypto", "sqlite3", "toolcrib.toolkits.collection"}
    done = subprocess.run([sys.executable, "-c", code.format(names=names)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_tools_can_be_tried_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    kit = toolkits.files.tools(tmp_path)
    assert (await testing.run(kit["read_file"], {"path": "a.txt"})).data["text"] == "hello"
    assert (await testing.run(kit["grep"], {"pattern": "hel"})).data["matches"]
    refused = await testing.run(toolkits.http.tools()["http_fetch"], {"url": "http://127.0.0.1/"})
    assert "Address not allowed" in str(refused.failure)
