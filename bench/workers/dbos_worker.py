"""DBOS on its own database. `work` is its worker process; `measure` is a client in another one.

The workflow is its most favourable form: there is no step in it. Who waits for a result polls for it, at the same
interval as the worker polls its queue but not so often that this alone takes all the time. The last number is without
anybody who waits: the ends are counted.

    dbos_worker.py work <polling seconds>
    dbos_worker.py measure <in flight> <seconds> <starts> <cancels> <polling seconds>
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.metadata import version
from pathlib import Path
from statistics import quantiles

import psycopg
from dbos import DBOS, DBOSClient

URL = os.environ["BENCH_DBOS"]
QUEUE = "bench"
NAME = "bench"
APPLICATION_VERSION = "1"
THREADS = 8
CONNECTIONS = 20
LEAST_POLLING_S = 0.05


def work(polling: float) -> None:
    """Runs what is on the queue until it is killed."""
    DBOS(
        config={
            "name": NAME,
            "system_database_url": URL,
            "application_version": APPLICATION_VERSION,
            "console_log_level": "ERROR",
        }
    )

    @DBOS.workflow(name="when")
    def when(n: int) -> float:
        return time.time()

    @DBOS.step(name="stay", preemptible=True)
    async def stay(note: str) -> None:
        Path(note + ".up").write_text("")  # noqa: ASYNC240 - a file that the client waits for
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            Path(note).write_text(str(time.time()))  # noqa: ASYNC240 - a few bytes, after the time was taken
            raise

    @DBOS.workflow(name="hold")
    async def hold(note: str) -> None:
        await stay(note)

    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=polling)
    print("ready", flush=True)
    threading.Event().wait()


def lags(seconds: list[float]) -> dict[str, float]:
    """The same three numbers that our own rows have, in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    found = {"p50": cuts[49], "p95": cuts[94], "max": max(seconds)}
    return {name: round(value * 1e3, 3) for name, value in found.items()} | {"count": len(seconds)}


def options(workflow: str) -> dict[str, str]:
    """How a client names what it enqueues."""
    return {"workflow_name": workflow, "queue_name": QUEUE, "app_version": APPLICATION_VERSION}


async def calls(client: DBOSClient, width: int, seconds: float, polling: float) -> float:
    """So many at once, each waiting for its result before the next."""
    done, start = 0, time.perf_counter()
    opened, end = start + seconds / 3, start + seconds * 4 / 3

    async def one_by_one() -> None:
        nonlocal done
        while time.perf_counter() < end:
            handle = await client.enqueue_async(options("when"), 1)
            await handle.get_result(polling_interval_sec=max(polling, LEAST_POLLING_S))
            done += opened <= time.perf_counter() <= end

    await asyncio.gather(*(one_by_one() for _ in range(width)))
    return done / seconds


class Counting:
    """How many workflows have ended."""

    def __init__(self) -> None:
        self._db = psycopg.connect(URL, autocommit=True)

    def done(self) -> int:
        """By the table itself."""
        row = self._db.execute("SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'").fetchone()
        return row[0] if row else 0


def counted(client: DBOSClient, width: int, seconds: float) -> float:
    """Keeps so many on their way, and counts the ends."""
    counting = Counting()
    sent = counting.done()
    start, marks = time.perf_counter(), []
    with ThreadPoolExecutor(THREADS) as threads:
        while time.perf_counter() - start < seconds * 4 / 3:
            done = counting.done()
            marks.append((time.perf_counter() - start, done))
            missing = width - (sent - done)
            wait([threads.submit(client.enqueue, options("when"), n) for n in range(missing)])
            sent += missing
            if not missing:
                time.sleep(0.01)
    marks.append((time.perf_counter() - start, counting.done()))
    while counting.done() < sent:
        time.sleep(0.02)
    begin = next((mark for mark in marks[:-1] if mark[0] >= seconds / 3), marks[0])
    return (marks[-1][1] - begin[1]) / (marks[-1][0] - begin[0])


def starts(client: DBOSClient, count: int, polling: float) -> list[float]:
    """From just before enqueue to the body, one at a time, at any moment between two looks at the queue."""
    found = []
    for n in range(count):
        time.sleep(random.uniform(0, polling))
        before = time.time()
        handle = client.enqueue(options("when"), n)
        found.append(handle.get_result(polling_interval_sec=0.02) - before)
    return found


def cancels(client: DBOSClient, count: int) -> list[float]:
    """From the cancel to the exception in the body."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(count):
            note = Path(folder) / str(n)
            handle = client.enqueue(options("hold"), str(note))
            while not Path(f"{note}.up").exists():
                time.sleep(0.005)
            before = time.time()
            client.cancel_workflow(handle.workflow_id)
            while not (note.exists() and note.read_text()):
                time.sleep(0.005)
            found.append(float(note.read_text()) - before)
    return found


def measure(width: int, seconds: float, start_count: int, cancel_count: int, polling: float) -> None:
    """All of it, as one line of JSON."""
    client = DBOSClient(system_database_url=URL, system_database_pool_size=CONNECTIONS, application_name=NAME)
    starts(client, 2, polling)
    report = {
        "version": version("dbos"),
        "start": lags(starts(client, start_count, polling)),
        "cancel": lags(cancels(client, cancel_count)),
        "calls_s": round(asyncio.run(calls(client, width, seconds, polling)), 1),
        "counted_s": round(counted(client, width, seconds), 1),
    }
    client.destroy()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(float(sys.argv[2]))
    else:
        measure(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
