"""One node of a round: a crib, and the clients that use it. It ends by itself where its store cannot be had."""

import asyncio
import json
import logging
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults import tools
from tests.faults.client import Client
from toolcrib import Crib, Event, StoreError
from toolcrib.engine.nats import Nats

CLIENTS = 6
OPEN = ("queued", "running", "waiting")
LOOK_S = 0.3


def main(config: dict[str, Any]) -> None:
    """What a forked process does."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(Node(config).run())


class Node:
    """A node as its configuration says."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._folder = Path(config["folder"])
        self._life = f"{config['label']}.{config['life']}"
        self._crib = tools.crib(self._folder, config["store"], self._engine())
        self._client = Client(self._crib, self._folder, self._life, config["seed"], config["kinds"])

    def _engine(self) -> Nats | None:
        if not self._config["engine"]:
            return None
        work, lease = self._config["work"], self._config["lease"]
        return Nats(self._config["engine"], work=work, lease=lease, label=self._config["label"])

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, show_tasks)
        await self._crib.start()
        print("ready", flush=True)
        aside = [asyncio.ensure_future(self._tell())]
        if self._config["drive"]:
            aside.append(asyncio.ensure_future(self._client.answer()))
            await self._client.run(CLIENTS)
        await self._until("stop")
        for task in aside:
            task.cancel()
        await asyncio.wait(aside)
        await self._crib.stop(grace=2.0)

    async def _until(self, gate: str) -> None:
        while not (self._folder / gate).exists():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.05)

    async def _tell(self) -> None:
        """Tells again and again what is open, so that the harness knows when everything has ended."""
        while True:
            if (self._folder / "quiet").exists():
                self._client.quiet.set()
                with suppress(StoreError, OSError):
                    await self._status()
            await asyncio.sleep(LOOK_S)

    async def _status(self) -> None:
        rows = await self._crib.store.calls(None, OPEN, limit=10_000)
        status = {
            "life": self._life,
            "at": time.monotonic(),
            "busy": self._client.busy,
            "open": [[row.id, row.session, row.tool, row.state, row.attempt, row.worker] for row in rows],
            "runs": await unfinished(self._crib),
        }
        path = self._folder / f"status-{self._config['label']}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(status), "utf-8")
        part.replace(path)


def show_tasks() -> None:
    """Prints what every task waits for, from its outermost function to its innermost."""
    for task in asyncio.all_tasks():
        print(task.get_name(), flush=True)
        work: Any = task.get_coro()
        while work is not None:
            frame = (
                getattr(work, "cr_frame", None) or getattr(work, "ag_frame", None) or getattr(work, "gi_frame", None)
            )
            print(f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}" if frame else f"  {work!r}")
            work = (
                getattr(work, "cr_await", None)
                or getattr(work, "ag_await", None)
                or getattr(work, "gi_yieldfrom", None)
            )
    sys.stdout.flush()


async def unfinished(crib: Crib) -> list[str]:
    """Runs of agents that have not ended, and messages that no run has taken, as the logs of the chats tell."""
    going: dict[tuple[str, Any], None] = {}
    for row in await crib.store.sessions(limit=1000):
        if not row.id.startswith("chat"):
            continue
        after = 0
        while page := await crib.store.read(row.id, after, limit=1000):
            after = page[-1].seq
            for event in page:
                note_run(going, row.id, event)
    return [f"{what} of {session}" for session, what in going]


def note_run(going: dict[tuple[str, Any], None], session: str, event: Event) -> None:
    """Adds what an event begins, and takes out what it ends: a run by its id, a queued message by its number."""
    match event.kind:
        case "run_started":
            going[session, event.fields["run"]] = None
        case "run_finished":
            going.pop((session, event.fields["run"]), None)
        case "message_queued":
            going[session, event.seq] = None
        case "message" if event.fields.get("queued"):
            going.pop((session, event.fields["queued"]), None)
