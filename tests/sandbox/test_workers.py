"""Workers: how many, who waits, who is stopped, who is replaced, and that nothing of them is left."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.requirements import requirement
from tests.sandbox.conftest import MB, Run
from toolcrib.sandbox import Sandbox, SandboxError, Sandboxes, pool, sandbox
from toolcrib.sandbox.pool import WorkerPool

SIZE = min(os.cpu_count() or 1, 8)
LONG_S = 3600.0
"""Longer than a test may take: what waited for it would fail by the limit of the test."""


class Stubborn:
    """A machine that does as its job says and heeds no interrupt."""

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "toolcrib-sandbox"]


async def _run(box: Sandbox, code: str, timeout_s: float = 5.0) -> bytes:
    ran = await box.run(code, b"{}", name="x", role="helper", timeout_s=timeout_s, memory_bytes=8 * MB)
    return ran.value


@requirement("yaml.box.4")
async def test_a_check_of_code_waits_for_a_worker_however_busy_all_are(
    javascript: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _run(javascript, "1")
    monkeypatch.setattr(pool, "WAIT_S", 0.2)
    endless = [asyncio.create_task(_run(javascript, "while (true) {}", 1.0)) for _ in range(SIZE)]
    await asyncio.sleep(0)
    assert await javascript.check("1 + 1") is None
    assert await javascript.check("(function() {") is not None
    await asyncio.gather(*endless, return_exceptions=True)


@requirement("yaml.box.4")
async def test_who_waits_too_long_for_a_worker_is_told_that_all_are_busy(
    javascript: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.WAIT_S == 5.0
    await _run(javascript, "1")
    monkeypatch.setattr(pool, "WAIT_S", 0.2)
    endless = [asyncio.create_task(_run(javascript, "while (true) {}", 1.0)) for _ in range(SIZE)]
    await asyncio.sleep(0)
    with pytest.raises(SandboxError) as raised:
        await _run(javascript, "1")
    assert raised.value.code == "busy"
    faults = await asyncio.gather(*endless, return_exceptions=True)
    assert [fault.code for fault in faults if isinstance(fault, SandboxError)] == ["timeout"] * SIZE
    assert await _run(javascript, "1") == b"1"


@requirement("yaml.box.4")
@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_cancelling_frees_the_worker(language: str) -> None:
    box = sandbox(language)
    endless, one = {"javascript": ("while (true) {}", "1"), "python": ("while True: pass", "result = 1")}[language]
    await asyncio.gather(*(_run(box, one) for _ in range(SIZE)))
    tasks = [asyncio.create_task(_run(box, endless, LONG_S)) for _ in range(SIZE + 2)]
    await asyncio.wait(tasks, timeout=0.2)
    for task in tasks:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
    assert await asyncio.gather(*(_run(box, one) for _ in range(SIZE))) == [b"1"] * SIZE
    await box.close()


@requirement("yaml.box.4")
async def test_a_worker_that_hangs_costs_one_run_and_is_replaced(release: threading.Event) -> None:
    workers = WorkerPool(Stubborn)
    hung = [workers.do(lambda _: release.wait(), 0.1) for _ in range(SIZE)]
    faults = await asyncio.gather(*hung, return_exceptions=True)
    assert [fault.code for fault in faults if isinstance(fault, SandboxError)] == ["timeout"] * SIZE
    assert await workers.do(lambda _: "well", 1) == "well"
    await workers.close()


@requirement("yaml.box.4")
async def test_a_worker_that_breaks_costs_one_run_and_its_machine() -> None:
    made: list[Stubborn] = []

    def make() -> Stubborn:
        made.append(Stubborn())
        return made[-1]

    def broken(_: Stubborn) -> None:
        raise OSError("nonsense")

    workers = WorkerPool(make)
    for _ in range(SIZE):
        with pytest.raises(SandboxError) as raised:
            await workers.do(broken, 1)
        assert (raised.value.code, raised.value.message) == ("crashed", "nonsense")
    assert await workers.do(lambda machine: machine is made[-1], 1)
    assert len(made) > SIZE
    await workers.close()


@requirement("yaml.box.4")
async def test_a_killed_process_costs_one_run(python: Sandbox, py: Run) -> None:
    await py("result = 1")
    running = asyncio.create_task(_run(python, "while True: pass"))
    busy = await _busy()
    busy.kill()
    with pytest.raises(SandboxError) as raised:
        await running
    assert raised.value.code == "crashed"
    assert (await py("result = 1")).value == b"1"


async def _busy() -> psutil.Process:
    """The process that computes."""
    while True:
        for child in psutil.Process().children():
            before = child.cpu_times().user
            await asyncio.sleep(0.05)
            if child.cpu_times().user - before > 0.01:
                return child


@requirement("yaml.box.4")
@pytest.mark.parametrize("language", ["javascript", "python"])
def test_a_sandbox_serves_one_event_loop_after_another_and_leaves_nothing(language: str) -> None:
    before, children = set(_threads()), set(psutil.Process().children())
    box = sandbox(language)
    code = {"javascript": "1", "python": "result = 1"}[language]
    for _ in range(2):
        assert asyncio.run(_run(box, code)) == b"1"
    assert len(set(_threads()) - before) == SIZE + 1
    asyncio.run(box.close())
    assert set(_threads()) <= before
    assert set(psutil.Process().children()) <= children
    assert asyncio.run(_run(box, code)) == b"1"
    asyncio.run(box.close())


async def test_closing_stops_what_runs_and_what_waits() -> None:
    box = sandbox("javascript")
    await _run(box, "1")
    endless = [asyncio.create_task(_run(box, "while (true) {}", LONG_S)) for _ in range(SIZE + 2)]
    await asyncio.wait(endless, timeout=0.1)
    await box.close()
    faults = await asyncio.gather(*endless, return_exceptions=True)
    assert (
        sorted(fault.code for fault in faults if isinstance(fault, SandboxError))
        == ["crashed"] * 2 + ["timeout"] * SIZE
    )


@pytest.mark.parametrize("turn", range(8))
async def test_closing_is_right_at_any_moment_of_a_run(turn: int) -> None:
    box = sandbox("javascript")
    endless = asyncio.create_task(_run(box, "while (true) {}"))
    await asyncio.wait([endless], timeout=0.004 * turn)
    await box.close()
    with pytest.raises(SandboxError) as raised:
        await endless
    assert raised.value.code in ("timeout", "crashed")
    assert await _run(box, "1") == b"1"
    await box.close()


async def test_owners_share_the_workers_and_the_last_one_ends_them() -> None:
    before = set(_threads())
    first, second = Sandboxes(), Sandboxes()
    assert first.of("javascript") is second.of("javascript") is first.of("javascript")
    await _run(first.of("javascript"), "1")
    await first.close()
    assert await _run(second.of("javascript"), "1") == b"1"
    await second.close()
    assert set(_threads()) <= before
    with pytest.raises(ValueError, match="There are: javascript, python"):
        first.of("cobol")


@pytest.mark.process
def test_nothing_heavy_is_imported_before_the_first_run() -> None:
    code = (
        "import sys, toolcrib, toolcrib.sandbox; toolcrib.sandbox.Sandboxes(); "
        "print([name for name in ('wasmtime', 'pydantic_monty') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
