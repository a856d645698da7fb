"""Programs as processes: their group, their environment, their end, and what they print."""

import asyncio
import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.requirements import requirement
from toolcrib.definitions.runners import processes
from toolcrib.definitions.runners.processes import NotInstalled, ProcessStart, find, run
from toolcrib.errors import ToolFailure

pytestmark = pytest.mark.process

ENV = {"PATH": os.environ["PATH"]}

# Says who it and its child are, and waits for ever; the child may close its ears.
FAMILY = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
child.stdout.readline()
if "ignore" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def python(code: str, *args: str, **more: object) -> ProcessStart:
    return ProcessStart([sys.executable, "-c", code, *args], **{"env": ENV, **more})  # type: ignore[arg-type]


class Heard:
    """What was told, and a way to wait for it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, text: str) -> None:
        self.pieces.append(text)
        if not self.first.done():
            self.first.set_result(text)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def gone(*pids: int) -> None:
    async with asyncio.timeout(60):
        while any(map(alive, pids)):  # noqa: ASYNC110 - processes that are not ours tell nobody of their end
            await asyncio.sleep(0.01)


@requirement("yaml.run.1")
async def test_a_program_has_its_arguments_a_group_of_its_own_and_no_input() -> None:
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getpgid(0) == os.getpid(), sys.stdin.read()]))"
    finished = await run(python(code, "a b", "; ls", "$HOME", ""))
    assert json.loads(finished.stdout) == [["a b", "; ls", "$HOME", ""], True, ""]
    assert finished.code == 0


@requirement("yaml.run.1")
async def test_a_program_sees_only_its_environment() -> None:
    finished = await run(python("import json, os; print(json.dumps(dict(os.environ)))", env={**ENV, "KEY": "v"}))
    seen = {name for name in json.loads(finished.stdout) if not name.startswith(("LC_", "__"))}
    assert seen == {"PATH", "KEY"}


async def test_input_is_given_and_closed_also_to_who_does_not_read_it() -> None:
    assert (await run(python("import sys; print(len(sys.stdin.read()))", stdin=b"x" * 300_000))).stdout == b"300000\n"
    assert (await run(python("pass", stdin=b"x" * 3_000_000))).code == 0


@requirement("yaml.run.2")
@pytest.mark.parametrize("manners", ["obey", "ignore"])
async def test_a_cancelled_program_and_all_that_it_started_end(manners: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.GRACE_S == 5.0
    monkeypatch.setattr(processes, "GRACE_S", 0.3)
    heard = Heard()
    task = asyncio.ensure_future(run(python(FAMILY, manners, tell=heard)))
    parent, child = map(int, (await heard.first).split())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(parent, child)


@requirement("yaml.run.2")
async def test_a_program_may_clean_up_when_it_is_asked_to_end(tmp_path: Path) -> None:
    code = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("clean")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""
    heard = Heard()
    task = asyncio.ensure_future(run(python(code, str(tmp_path / "end"), tell=heard)))
    await heard.first
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "end").read_text() == "clean"


async def test_waiting_that_is_cut_short_twice_kills_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 600)
    heard = Heard()
    task = asyncio.ensure_future(run(python(FAMILY, "ignore", tell=heard)))
    parent, child = map(int, (await heard.first).split())
    task.cancel()
    await asyncio.wait({task}, timeout=0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
    await gone(parent, child)


async def test_what_a_program_leaves_behind_does_not_hold_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LINGER_S", 0.1)
    code = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session="own" in sys.argv).pid)
"""
    left = int((await run(python(code))).stdout)
    await gone(left)
    own = int((await asyncio.wait_for(run(python(code, "own")), 60)).stdout)
    assert alive(own)
    psutil.Process(own).kill()


@requirement("yaml.run.2")
async def test_lines_are_told_whole_as_they_come() -> None:
    heard = Heard()
    code = """
import sys, time
for piece in ("a", "b\\nc", "\\nd", "é\\n"):
    sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.02)
sys.stderr.write("wrong")
"""
    finished = await run(python(code, tell=heard))
    assert [piece for piece in heard.pieces if piece != "wrong"] == ["ab\n", "c\n", "dé\n"]
    assert "wrong" in heard.pieces
    assert finished.stderr == b"wrong"


async def test_only_the_end_of_complaints_is_kept() -> None:
    finished = await run(python("import sys; sys.stderr.write('x' * 100_000 + 'end')"))
    assert len(finished.stderr) == processes.TAIL
    assert finished.stderr.endswith(b"xend")


async def test_a_program_that_prints_without_end_is_stopped() -> None:
    used = psutil.Process().memory_info().rss
    with pytest.raises(ToolFailure, match="printed more than") as caught:
        await run(python("while True: print('x' * 100_000)"))
    assert caught.value.code == "too_large"
    assert psutil.Process().memory_info().rss - used < 5 * processes.LARGEST


@requirement("yaml.run.1")
async def test_secrets_are_masked_wherever_they_are_cut() -> None:
    heard = Heard()
    code = """
import sys, time
for piece in ("key hun", "ter2\\nhunter2\\n", "first\\n", "second line ", "hunter2"):
    sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.02)
"""
    await run(python(code, tell=heard, masks=("first\nsecond", "hunter2")))
    assert "".join(heard.pieces) == "key •••\n•••\n••• line •••"


def test_a_program_is_found_on_the_path_or_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("#!/bin/sh\n")
    with pytest.raises(NotInstalled):
        find("./own", ENV, tmp_path)
    (tmp_path / "own").chmod(0o755)
    assert find("./own", ENV, tmp_path) == str(tmp_path / "own")
    assert find("own", {"PATH": str(tmp_path)}) == str(tmp_path / "own")
    with pytest.raises(NotInstalled, match="nowhere-to-be-found is not installed"):
        find("nowhere-to-be-found", ENV)


async def test_what_cannot_be_started_is_unavailable(programs_folder: Path) -> None:
    (programs_folder / "broken").write_text("\x7fELF nonsense")
    (programs_folder / "broken").chmod(0o755)
    with pytest.raises(ToolFailure, match="broken cannot be started") as caught:
        await run(ProcessStart(["broken"], {"PATH": str(programs_folder)}))
    assert caught.value.code == "unavailable"
    with pytest.raises(ToolFailure, match="too long") as caught:
        await run(python("pass", "x" * 3_000_000))
    assert caught.value.code == "invalid_arguments"


@pytest.fixture
def programs_folder(tmp_path: Path) -> Path:
    return tmp_path
