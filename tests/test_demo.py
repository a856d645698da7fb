"""The demo: the tour runs by itself, and what it recommends works."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, install_opener, urlopen

import pytest

from tests import ready
from tests.cli.project import Screen, environment
from tests.requirements import requirement
from toolcrib.agent import CompletionRequest, Message
from toolcrib.agent.models import ModelCall, Text
from toolcrib.demo import crib
from toolcrib.demo.agents import ClerkModel
from toolcrib.extras import install
from toolcrib.review import review


class Toured(NamedTuple):
    """A tour that was taken, and where."""

    folder: Path
    told: str


def words(folder: Path) -> list[str]:
    return ["demo", "--tour", "--folder", str(folder)]


def take_tour(folder: Path) -> Toured:
    done = ready.run("-m", "toolcrib", *words(folder), env=environment())
    assert (done.returncode, done.stderr) == (0, "")
    return Toured(folder, done.stdout)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Toured:
    return take_tour(tmp_path_factory.mktemp("tour"))


@requirement("adoption.demo.1")
@pytest.mark.process
def test_the_tour_needs_no_extra(tmp_path: Path) -> None:
    extras = ("httpx", "mcp", "prometheus_client", "starlette", "uvicorn", "uvloop")
    hide = f"import sys; sys.modules.update(dict.fromkeys({extras})); sys.argv = ['toolcrib', *sys.argv[1:]]"
    script = f"{hide}; from toolcrib.cli import main; main()"
    argv = [sys.executable, "-c", script, "demo", "--folder", str(tmp_path)]
    toured, served = (
        subprocess.run(line, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        for line in ([*argv, "--tour"], argv)
    )
    assert (toured.returncode, toured.stderr) == (0, "")
    assert served.returncode == 1
    assert install("demo") in served.stderr


@pytest.mark.process
def test_the_tour_ends_by_itself_without_a_terminal(tour: Toured) -> None:
    assert tour.told.count("✗ [unavailable] The courier's line dropped\n") == 2
    assert '{"row":12,' in tour.told
    assert "Nobody sits at this terminal, so the demo accepts." in tour.told
    assert "The bank's book has 1 payment for this call." in tour.told
    assert "\x1b" not in tour.told


def test_a_call_that_was_killed_is_unknown_and_did_not_run_twice(tour: Toured) -> None:
    assert "[unknown] The process died while the call ran: it may have run" in tour.told
    assert "The printer's book has 1 label for this call." in tour.told


def test_the_tour_can_be_taken_again_in_the_same_place(tour: Toured) -> None:
    again = take_tour(tour.folder)
    assert "The printer's book has 1 label for this call." in again.told


def test_what_the_tour_recommends_works(tour: Toured) -> None:
    lines = tour.told.partition("What to try next")[2].splitlines()
    recommended = [line.partition("toolcrib ")[2].split() for line in lines if "toolcrib " in line]
    assert len(recommended) == 7
    env = environment() | {"TOOLCRIB_DEMO": str(tour.folder), "TOOLCRIB_CRIB": "toolcrib.demo:crib"}
    for line in recommended[:-1]:  # the last one follows a session until somebody stops it
        done = ready.run("-m", "toolcrib", *line, env=env)
        assert done.returncode == (3 if line[:2] == ["call", "desk.refund"] else 0), done


@pytest.mark.process
def test_a_person_decides_about_the_refund(tmp_path: Path) -> None:
    with Screen(words(tmp_path), tmp_path) as screen:
        screen.expect("Allow desk.refund?").expect("Allow it?").press("n\n").expect("Why?").press("not today\n")
        assert screen.ended() == 0
    assert "[declined] not today" in screen.shown
    assert "The bank's book has 0 payments for this call." in screen.shown


@requirement("adoption.demo.1")
@pytest.mark.process
def test_the_desk_is_served_with_its_console_and_a_days_work(tmp_path: Path) -> None:
    argv = ["-m", "toolcrib", "demo", "--folder", str(tmp_path), "--port"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        desk_is_served([*argv, port], says=f"Somebody has port {port}: this is another.")
    desk_is_served([*argv, "0"], says="The order desk is getting ready ...")  # and it finds what it did before


def desk_is_served(argv: list[str], says: str) -> None:
    """Looks at the served desk as a browser does, and stops it."""
    with ready.Program(argv, env=environment()) as process:
        assert process.stdout is not None
        try:
            told = []
            for line in process.stdout:
                told.append(line)
                if line.startswith("Open "):
                    break
            assert says in "".join(told)
            [address] = [line.split()[-1] for line in told if line.startswith("Toolcrib at ")]
            with pytest.raises(HTTPError, match="401"):
                got(f"{address}/v1/sessions")
            (opened,) = [line.split()[1] for line in told if line.startswith("Open ")]
            browser = build_opener(HTTPCookieProcessor())
            install_opener(browser)
            with browser.open(opened, timeout=60) as page:
                assert page.url == f"{address}/"
                assert b"<title>Toolcrib</title>" in page.read()
            sessions = got(f"{address}/v1/sessions")
            assert {row["id"] for row in sessions} == {"monday", "chat-with-the-desk", "printer"}
            asked = [row["tool"] for row in got(f"{address}/v1/questions")]
            assert sorted(asked) == ["desk.readdress", "desk.refund", "desk.refund"]
            assert [row["tool"] for row in got(f"{address}/v1/calls?state=unknown")] == ["desk.print_label"]
        finally:
            install_opener(build_opener())
            process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 0


async def test_nothing_is_written_at_the_desk_that_does_nothing(tmp_path: Path) -> None:
    async with crib(tmp_path) as counter:
        assert [finding for finding in await review(counter) if finding.severity != "info"] == []


async def test_every_general_tool_works_at_the_desk(tmp_path: Path) -> None:
    for _ in range(2):  # what was made at the first start is found at the second
        async with crib(tmp_path) as counter:
            session = await counter.open(owner="ada")
            assert (await session.call("get_current_time", {})).ok
            assert "30 days" in (await session.call("read_file", {"path": "returns.md"})).data["text"]
            assert len((await session.call("list_dir", {})).data["entries"]) == 2
            cities = {"database": "orders", "sql": "SELECT city FROM orders WHERE id = ?", "params": ["A-7"]}
            assert (await session.call("sql_query", cities)).data["rows"] == [["Bern"]]
            assert "Damaged parcels" in (await session.call("search_docs", {"query": "scratch"})).data
            assert "brave_search" not in session.model_tools()
            writing = await session.submit("write_file", {"path": "new.txt", "content": "x"})
            async for event in session.events(call=writing.id):
                assert event.kind != "done"
                if event.kind == "waiting":
                    break
            await session.cancel(writing.id)


async def test_a_chain_is_at_the_desk_where_somebody_runs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_DEMO_RPC", "http://127.0.0.1:9")
    async with crib(tmp_path) as counter:
        session = await counter.open(owner="ada")
        encoding = {"function_signature": "pay(uint256)", "arguments": ["5"]}
        assert (await session.call("encode_function_call", encoding)).data.startswith("0x")
        assert {"get_account_info", "get_block_details", "forge_execute", "sign_typed_data"} <= {*session.model_tools()}


@pytest.mark.process
def test_the_demo_loads_what_it_shows_when_it_starts() -> None:
    script = "import sys, toolcrib.demo; print({'httpx', 'toolcrib.toolkits'} & sys.modules.keys())"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout == "set()\n"


def got(url: str) -> list[dict[str, Any]]:
    with urlopen(url, timeout=60) as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


async def replied(*words: str) -> list[Any]:
    """What the agent for money replies to what somebody said."""
    request = CompletionRequest("billing", None, tuple(Message("user", text) for text in words))
    return [one async for one in ClerkModel().respond(request)]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["refund A-8, please"], "A-8"),
        (["What was bought with A-7?", "money back for b1"], "B-1"),
        (["What was bought with A-7?", "money back for it"], "A-7"),
    ],
)
async def test_the_agent_refunds_the_order_that_it_was_asked_for(words: list[str], order: str) -> None:
    (call,) = [one for one in await replied(*words) if isinstance(one, ModelCall)]
    assert (call.name, json.loads(call.args)["order"]) == ("refund", order)


@pytest.mark.parametrize("words", [["money back for A-7, no, for B-1"], ["Where is A-7?", "refund order 8"]])
async def test_the_agent_refunds_nothing_where_it_does_not_know_the_order(words: list[str]) -> None:
    reply = await replied(*words)
    assert not [one for one in reply if isinstance(one, ModelCall)]
    assert [one for one in reply if isinstance(one, Text)]
