"""The definition files that Toolcrib ships: they lint clean, their examples hold, and they really run."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import toolcrib
from tests.definitions.runners.made import PATH
from tests.definitions.runners.served import Served, says
from tests.definitions.runners.served import served as serving
from tests.requirements import requirement
from tests.shared import nonempty
from toolcrib import Crib, Result, Session
from toolcrib.definitions.definition import TYPES
from toolcrib.definitions.source import FileSource
from toolcrib.definitions.values import mapping

pytestmark = pytest.mark.process

SHIPPED = Path(toolcrib.__file__).parent / "definitions" / "shipped"
FILES = sorted(SHIPPED.glob("*.yaml"))
IDS = [path.stem for path in FILES]
GRANTS = ["exec:cmd:git", "exec:cmd:python", "exec:cmd:npx", "secrets:read:*"]
TURIN = {"latitude": 45.07, "longitude": 7.69}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, timeout=30)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A repository without a commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.com")
    return folder


@pytest.fixture
def repository(empty: Path) -> Path:
    """A repository with one commit."""
    (empty / "parser.py").write_text("print()\n")
    git(empty, "add", "parser.py")
    git(empty, "commit", "-m", "Parse empty input")
    return empty


@asynccontextmanager
async def opened(workspace: Path, root: Path = SHIPPED, host: str = "", **environ: str) -> AsyncIterator[Session]:
    """A session with the shipped tools, whose programs start in a folder, and which may ask a host."""
    given = {"PATH": PATH, "HOME": str(workspace), **environ}
    source = FileSource([root], workspace=workspace, environ=given)
    grants = [*GRANTS, f"net:egress:{host}"] if host else GRANTS
    async with Crib([source], workspace=workspace, policy={"grants": {"allow": grants}}) as crib:
        yield await crib.open(owner="ada", namespaces=["*"])


async def called(session: Session, tool: str, args: Any = None) -> Result:
    return await asyncio.wait_for(session.call(tool, args), 100)


def refused(result: Result) -> str:
    """The hint of a call whose arguments were not accepted."""
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments", result.text
    return result.failure.hint or ""


# As files


@pytest.fixture
async def source() -> AsyncIterator[FileSource]:
    made = FileSource([SHIPPED])
    yield made
    await made.stop()


@requirement("yaml.ship.1")
async def test_there_is_a_file_for_every_type_one_with_every_block_and_python_among_the_validators(
    source: FileSource,
) -> None:
    files = await source.list()
    assert {one.type for one in files} == set(TYPES)
    assert {one.schema_version for one in files} == {2}
    whole = await source.resolve("open-meteo")
    assert {"executable_knowledge", "api_complexity", "anti_patterns", "examples"} <= whole.tool.keys()
    assert whole.validators
    assert whole.helpers
    assert {one.stage for one in whole.processors} == {"before", "after"}
    known = {"payload_schemas", "field_mappings", "api_quirks", "known_limitations"}
    assert known <= mapping(whole.tool["api_complexity"]).keys()
    assert {one.code.language for one in whole.validators if one.code} == {"javascript", "python"}
    assert any(one.code is None for one in whole.validators)


@requirement("yaml.ship.1")
@pytest.mark.parametrize("id", IDS)
async def test_a_shipped_file_has_nothing_wrong_with_it(source: FileSource, id: str) -> None:
    found = await source.resolve(id)
    assert found.status == "ok"
    assert found.problems == ()
    assert found.reason == "explicit"


@requirement("yaml.ship.1")
@pytest.mark.parametrize("id", IDS)
async def test_every_command_has_examples_that_hold(source: FileSource, id: str) -> None:
    found, report = await source.resolve(id), await source.test(id)
    assert mapping(found.tool["examples"]).keys() == {command.name for command in found.commands}
    assert report.passed >= 2 * len(found.commands)
    assert (report.failed, report.unchecked, report.untouched) == ((), 0, ())


@requirement("yaml.ship.1")
@pytest.mark.parametrize("id", IDS)
async def test_every_validator_rejects_something_that_an_example_shows(source: FileSource, id: str) -> None:
    found = await source.resolve(id)
    errors = [mapping(mapping(one).get("error")) for block in mapping(found.tool["examples"]).values() for one in block]
    assert {one["validator"] for one in errors if "validator" in one} == {one.id for one in found.validators}


async def test_what_an_example_gets_through_also_fits_the_schema(source: FileSource) -> None:
    tools = {tool.id: tool for tool in await source.start(lambda tools: None)}
    for one in nonempty(await source.list()):
        for command, block in nonempty(mapping(one.tool["examples"]).items()):
            schema = tools[f"{one.id}.{command}"].input_schema
            given = {name for entry in block for name in mapping(entry.get("input"))}
            assert given <= schema["properties"].keys()


async def test_the_tools_need_no_more_than_their_programs_hosts_and_variables(source: FileSource) -> None:
    needs = {tool.id: set(tool.capabilities) for tool in await source.start(lambda tools: None)}
    assert needs["git.commit"] == {"exec:cmd:git"}
    assert needs["text-stats.count"] == {"exec:cmd:python"}
    assert needs["open-meteo.forecast"] == {"net:egress:api.open-meteo.com"}
    assert needs["memory.open_nodes"] == {"exec:cmd:npx", "secrets:read:MEMORY_FILE_PATH"}
    assert needs["repo-brief.run"] == needs["open-meteo.weather_in_words"] == set()


async def test_only_what_changes_nothing_says_that_it_reads(source: FileSource) -> None:
    effects = {tool.id: tool.does for tool in await source.start(lambda tools: None)}
    changing = {"git.add", "git.commit", "git.switch"}
    changing |= {"memory.create_entities", "memory.create_relations", "memory.add_observations"}
    assert {id for id, effect in effects.items() if effect != "read"} == changing
    assert effects["git.commit"] == "once"


# A program


async def test_git_records_a_change(repository: Path) -> None:
    (repository / "parser.py").write_text("print(1)\n")
    async with opened(repository) as session:
        assert (await called(session, "git.status")).data == "## main\n M parser.py\n"
        assert "+print(1)" in (await called(session, "git.diff", {"paths": ["parser.py"]})).data
        assert (await called(session, "git.switch", {"branch": "topic", "create": True})).ok
        assert (await called(session, "git.add", {"paths": ["parser.py"]})).ok
        assert "1 insertion" in (await called(session, "git.diff", {"staged": True, "summary": True})).data
        done = await called(session, "git.commit", {"subject": "-1 is no input", "body": "Two\nlines."})
        assert done.ok, done.text
        assert (await called(session, "git.log", {"subjects": True})).data == "-1 is no input\nParse empty input\n"
        assert (await called(session, "git.log", {"count": 1, "rev": "main"})).data.endswith(
            " Ada: Parse empty input\n"
        )
        assert "Two\n    lines." in (await called(session, "git.show", {"rev": "HEAD", "summary": True})).data


async def test_git_does_not_stage_whatever_lies_there_and_shows_the_right_way(repository: Path) -> None:
    (repository / "secret.env").write_text("KEY=1\n")
    async with opened(repository) as session:
        result = await called(session, "git.add", {"paths": ["."]})
        assert "stands for whatever lies there" in result.text
        assert '"paths": ["src/parser.py"' in refused(result)
        assert "?? secret.env" in (await called(session, "git.status")).data


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("git.log", {"rev": "--output=leak"}),
        ("git.show", {"rev": "--output=leak"}),
        ("git.diff", {"rev": "--output=leak"}),
        ("git.switch", {"branch": "--force"}),
    ],
)
async def test_git_is_given_no_option_in_the_place_of_a_name(repository: Path, tool: str, args: dict[str, str]) -> None:
    async with opened(repository) as session:
        refused(await called(session, tool, args))
    assert [path.name for path in repository.iterdir() if path.name != ".git"] == ["parser.py"]


async def test_a_failure_of_git_comes_with_what_people_know_about_it(repository: Path, tmp_path: Path) -> None:
    async with opened(repository) as session:
        result = await called(session, "git.commit", {"subject": "Nothing"})
        assert result.failure is not None
        assert result.failure.code == "failed"
        assert "no change to record" in (result.failure.hint or "")
        result = await called(session, "git.show", {"rev": "mian"})
        assert "origin/name" in result.text
    (elsewhere := tmp_path / "elsewhere").mkdir()
    async with opened(elsewhere, GIT_CEILING_DIRECTORIES=str(tmp_path)) as session:
        assert "do not make one" in (await called(session, "git.status")).text


# A script, and a workflow of both


async def test_the_script_gives_what_its_examples_say(source: FileSource, tmp_path: Path) -> None:
    found = await source.resolve("text-stats")
    async with opened(tmp_path) as session:
        for command, block in mapping(found.tool["examples"]).items():
            for one in (entry for entry in block if "output" in entry):
                result = await called(session, f"text-stats.{command}", json.loads(json.dumps(dict(one["input"]))))
                assert result.data == _plain(one["output"])
        assert "open no file" in refused(await called(session, "text-stats.count", {"text": ""}))


async def test_the_script_is_well(source: FileSource) -> None:
    assert (await source.health("text-stats")).level == "called"


async def test_the_workflow_gives_what_its_steps_gave(repository: Path) -> None:
    async with opened(repository) as session:
        result = await called(session, "repo-brief.run", {"commits": 5, "themes": 1})
        assert result.ok, result.text
        assert result.data["steps"]["subjects"]["data"] == "Parse empty input\n"
        assert result.data["steps"]["themes"]["data"] == {"words": [{"word": "parse", "count": 1}]}
        assert "between 1 and 200" in (await called(session, "repo-brief.run", {"commits": 1000})).text


async def test_the_workflow_goes_on_without_a_log(empty: Path) -> None:
    async with opened(empty) as session:
        result = await called(session, "repo-brief.run")
    assert result.ok, result.text
    assert result.data["steps"]["subjects"]["ok"] is False
    assert result.data["steps"]["themes"] == {"ok": True, "skipped": True}


# A service


@pytest.fixture
async def weather(tmp_path: Path) -> AsyncIterator[tuple[Served, Path]]:
    """A stand-in for the service, and a root whose file leads there."""
    root = tmp_path / "root"
    root.mkdir()
    text = (SHIPPED / "open-meteo.yaml").read_text("utf-8")
    async with serving() as served:
        (root / "open-meteo.yaml").write_text(text.replace("https://api.open-meteo.com", served.url))
        yield served, root


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def answers(found: Any) -> Iterator[Any]:
    return (_plain(one["output"]) for one in mapping(found.tool["examples"])["forecast"] if "output" in one)


async def test_a_forecast_comes_in_rows(weather: tuple[Served, Path], source: FileSource, tmp_path: Path) -> None:
    served, root = weather
    days, places = answers(await source.resolve("open-meteo"))
    async with opened(tmp_path, root, served.url) as session:
        served.answer = says(200, json.dumps(days))
        wanted = {**TURIN, "daily": ["temperature_2m_max", "sunrise"], "timezone": "auto"}
        result = await called(session, "open-meteo.forecast", wanted)
        assert result.ok, result.text
        assert result.data["daily"][1] == {"time": "2026-03-02", "temperature_2m_max": 12.7}
        address = urlsplit(served.asked[0].target)
        assert address.path == "/v1/forecast"
        assert parse_qs(address.query)["daily"] == ["temperature_2m_max,sunrise"]
        served.answer = says(200, json.dumps(places))
        several = {"latitude": [45.07, 52.52], "longitude": [7.69, 13.41], "current": "weather_code"}
        result = await called(session, "open-meteo.forecast", several)
        assert [one["current"]["weather_code"] for one in result.data["places"]] == [3, 61]


async def test_a_wrong_forecast_is_stopped_and_the_right_way_shown(
    weather: tuple[Served, Path], tmp_path: Path
) -> None:
    served, root = weather
    async with opened(tmp_path, root, served.url) as session:
        hint = refused(await called(session, "open-meteo.forecast", {**TURIN, "daily": "sunrise"}))
        assert '"timezone": "auto"' in hint
        refused(await called(session, "open-meteo.forecast", {**TURIN, "latitude": 151, "current": "weather_code"}))
        assert served.asked == []


async def test_a_refusal_of_the_service_is_explained(weather: tuple[Served, Path], tmp_path: Path) -> None:
    served, root = weather
    served.answer = says(400, '{"error": true, "reason": "invalid String value temperature for key hourly"}')
    async with opened(tmp_path, root, served.url) as session:
        result = await called(session, "open-meteo.forecast", {**TURIN, "hourly": "temperature"})
    assert "misspelt" in result.text
    assert result.metadata["http_status"] == 400


async def test_heights_need_no_shaping_and_a_helper_is_a_tool(weather: tuple[Served, Path], tmp_path: Path) -> None:
    served, root = weather
    served.answer = says(200, '{"elevation": [245, 38]}')
    async with opened(tmp_path, root, served.url) as session:
        several = {"latitude": "45.07,52.52", "longitude": "7.69,13.41"}
        assert (await called(session, "open-meteo.elevation", several)).data == {"elevation": [245, 38]}
        assert (await called(session, "open-meteo.weather_in_words", {"code": 96})).data == "thunderstorm"


async def test_the_service_is_asked_how_it_is(weather: tuple[Served, Path]) -> None:
    served, root = weather
    source = FileSource([root])
    served.answer = says(200, '{"elevation": [245]}')
    assert (await source.health("open-meteo")).status == "healthy"
    served.answer = says(503)
    assert (await source.health("open-meteo")).status == "unhealthy"
    await source.stop()
    assert {one.target for one in served.asked} == {"/v1/elevation?latitude=45.07&longitude=7.69"}


async def test_every_answer_of_the_service_is_known_by_its_form(source: FileSource) -> None:
    days, places = answers(await source.resolve("open-meteo"))
    assert (await source.payload("open-meteo", days))["type"] == "forecast"
    assert (await source.payload("open-meteo", places))["type"] == "forecasts"
    assert await source.payload("open-meteo", {"elevation": [1]}) == {"type": "heights", "payload": [1]}
    refusal = {"error": True, "reason": "no"}
    assert await source.payload("open-meteo", refusal) == {"type": "refusal", "payload": "no"}
    assert await source.extract("open-meteo", "weather_code", places[1]) == "rain"


# A server


async def test_the_memory_says_which_variable_it_needs(tmp_path: Path) -> None:
    async with opened(tmp_path) as session:
        result = await called(session, "memory.open_nodes", {"names": ["Ada"]})
    assert result.failure is not None
    assert result.failure.code == "unavailable"
    assert "MEMORY_FILE_PATH is not set" in result.text


PACKAGE = "@modelcontextprotocol/server-memory@2026.8.31"


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the server cannot be had."""
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed: the memory server cannot be started")
    probe = ["npm", "exec", "--yes", f"--package={PACKAGE}", "--", "node", "--version"]
    try:
        done = subprocess.run(probe, cwd=tmp_path_factory.mktemp("npm"), capture_output=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not fetch {PACKAGE} in time")
    if done.returncode != 0:
        pytest.skip(f"npm cannot fetch {PACKAGE} here")


@pytest.mark.usefixtures("fetched")
async def test_the_memory_remembers(tmp_path: Path) -> None:
    kept = tmp_path / "memory.jsonl"
    async with opened(tmp_path, MEMORY_FILE_PATH=str(kept), HOME=os.environ["HOME"]) as session:
        wrong = {"entities": [{"name": "Ada", "entityType": "person", "observations": "Likes tea"}]}
        assert '"observations": ["Likes tea", "Lives in Turin"]' in refused(
            await called(session, "memory.create_entities", wrong)
        )
        assert not kept.exists()
        right = {"entities": [{"name": "Ada", "entityType": "person", "observations": ["Likes tea"]}]}
        made = await called(session, "memory.create_entities", right)
        assert made.ok, made.text
        found = await called(session, "memory.search_nodes", {"query": "tea"})
        assert found.ok, found.text
        assert "Ada" in found.text
        unknown = {"observations": [{"entityName": "Eve", "contents": ["Likes apples"]}]}
        lost = await called(session, "memory.add_observations", unknown)
        assert "memory.create_entities first" in lost.text
        offered = {tool.name for tool in session.tools() if tool.namespace == "memory"}
    assert "Likes tea" in kept.read_text("utf-8")
    assert "delete_entities" not in offered
