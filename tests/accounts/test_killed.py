"""A process that is killed while a call waits for an account takes nothing with it."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.accounts.place import OpenCrib, visit
from tests.accounts.service import Service
from tests.requirements import requirement


@pytest.mark.process
@requirement("accounts.park.3")
async def test_the_call_and_the_visit_outlive_a_process_that_was_killed(
    open_crib: OpenCrib, service: Service, tmp_path: Path
) -> None:
    words = ("-m", "tests.accounts.killed", f"sqlite:///{tmp_path}/crib.db", service.api)
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    call, url = (await process.stdout.readline()).decode().split()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    crib = await open_crib(service)
    await crib.accounts.finish(await visit(url, "ada@shop"))
    ada = await crib.open("s", owner="ada")
    assert (await ada.result(call)).data["login"] == "ada@shop"
    assert service.served == [("ada@shop", "/api")]
