"""`toolcrib serve --workers N`: several server processes behind one port, over one store.

On Linux each has a listening socket of its own, and the kernel spreads connections over them; elsewhere they share one.
The pool keeps every socket open, so that connections wait for the next process where one died, and the next process of
a place listens before the last one stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from toolcrib._call.shared_limits import SharedLimits
from toolcrib.cli.cluster_processes import ChildProcess, ProcessGroups
from toolcrib.cli.server_place import ServerPlace
from toolcrib.cli.terminal import CommandError, Terminal
from toolcrib.client.local import published_token

START_S = 120.0
"""How long a process may take until it listens."""
GRACE_S = 30.0
"""How long a process may take to stop before it is killed."""


def process_count(workers: str | int) -> int:
    """How many processes `--workers` means.

    Raises:
        CommandError: it is no number of processes.
    """
    if workers == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = int(workers)
    except ValueError:
        count = 0
    if not 1 <= count <= 256:
        raise CommandError(f"--workers {workers} is no number of processes", "it is 1 to 256, or auto")
    return count


class PoolMember(ChildProcess):
    """One place of the pool, and the process that has it now."""

    def __init__(
        self, place: ServerPlace, listener: socket.socket, token: asyncio.Future[str | None], output: int
    ) -> None:
        super().__init__(f"server-{place.number}", "server")
        self._output = output
        self._place = place
        self._listener = listener
        self._token = token
        self._announced = False
        self._process: asyncio.subprocess.Process | None = None
        self._links: dict[int, asyncio.StreamWriter] = {}

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def start(self) -> None:
        """Starts a process, which has the place when it listens; the last one is left as it is.

        Raises:
            CommandError: it ended before, or took too long; it told why itself.
        """
        ours, theirs = socket.socketpair()
        inherited = (self._listener.fileno(), theirs.fileno(), self._place.limits)
        announces = self._place.number == 1 and not self._announced
        place = self._place._replace(listener=inherited[0], link=inherited[1], announces=announces)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "toolcrib",
                *sys.argv[1:],
                env=place.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._output,
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C reaches the pool alone, which stops them
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            async with asyncio.timeout(START_S):
                listens = await self._until_it_listens(reader, writer)
        except TimeoutError:
            listens = False
        except BaseException:
            _signal(process, signal.SIGKILL)
            raise
        if not listens:
            _signal(process, signal.SIGKILL)
            writer.close()
            code = await process.wait()
            raise CommandError(f"{self.label} did not start", "see what it says above", exit_code=max(code, 1))
        self._announced = True
        self._process = process
        self._links = {process.pid: writer}

    async def _until_it_listens(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        prepared = await reader.readline()
        if not prepared:
            return False
        if not self._token.done():
            self._token.set_result(json.loads(prepared)["token"])
            await asyncio.sleep(0)  # whoever waits for it publishes it before anybody is let in
        writer.write(b"listen\n")
        return bool(await reader.readline())

    async def replace(self) -> None:
        """Has a new process listen, and then the last one stop; no connection is refused in between.

        Raises:
            CommandError: the new one did not start, and the last one goes on.
        """
        last, links = self._process, dict(self._links)
        await self.start()
        if last is not None:
            await _stopped(last)
        for writer in links.values():
            writer.close()

    async def stop(self) -> None:
        """Stops it, gently first."""
        if self._process is not None:
            await _stopped(self._process)
        for writer in self._links.values():
            writer.close()

    async def ended(self) -> None:
        """Returns when the process that has the place no longer runs."""
        while (process := self._process) is not None:
            await process.wait()
            if self._process is process:
                return


async def _stopped(process: asyncio.subprocess.Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


class ServerPool:
    """All server processes of one port: started, minded, replaced one after the other on SIGHUP, and stopped."""

    def __init__(self, terminal: Terminal, listeners: list[socket.socket]) -> None:
        self._terminal = terminal
        self._groups = ProcessGroups(self._say)
        self._listeners = listeners
        self._stop = asyncio.Event()
        self._rolling: asyncio.Task[None] | None = None
        self._again = False

    def _say(self, text: str, style: str) -> None:
        self._terminal.say(text, style)

    async def run(self) -> None:
        """Serves until a signal.

        Raises:
            CommandError: the first processes did not start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        with tempfile.TemporaryFile() as limits, tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
            SharedLimits.prepare(limits.fileno())
            token: asyncio.Future[str | None] = loop.create_future()
            publishing = asyncio.ensure_future(self._publish(token))
            output, total = self._terminal.results.fileno(), len(self._listeners)
            members = [
                PoolMember(ServerPlace(n, total, -1, -1, limits.fileno(), folder, False), listener, token, output)
                for n, listener in enumerate(self._listeners, 1)
            ]
            try:
                await self._start(members)
                loop.add_signal_handler(signal.SIGHUP, self._roll, members)
                self._groups.mind()
                await self._stop.wait()
            finally:
                await self._end(publishing)

    async def _start(self, members: list[PoolMember]) -> None:
        """Starts the first, which brings the store up to date, and then all others."""
        starting = asyncio.ensure_future(self._start_in_turn(members))
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting

    async def _start_in_turn(self, members: list[PoolMember]) -> None:
        await self._groups.start(members[0])
        await self._groups.start(*members[1:])

    async def _end(self, publishing: asyncio.Task[None]) -> None:
        if self._rolling is not None:
            self._rolling.cancel()
            await asyncio.gather(self._rolling, return_exceptions=True)
        await self._groups.stop()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)

    async def _publish(self, token: asyncio.Future[str | None]) -> None:
        """Leaves the token for programs of the same user while the pool runs."""
        if (value := await token) is not None:
            with published_token(self._listeners[0].getsockname()[1], value):
                await asyncio.Event().wait()

    def _roll(self, members: list[PoolMember]) -> None:
        self._again = True
        if self._rolling is None or self._rolling.done():
            self._rolling = asyncio.ensure_future(self._replace_all(members))

    async def _replace_all(self, members: list[PoolMember]) -> None:
        """Replaces one process after the other; where one does not start, the others go on as they are."""
        while self._again:
            self._again = False
            for member in members:
                try:
                    await member.replace()
                except CommandError as problem:
                    self._say(f"{problem.message}: the processes of before go on", "bold red")
                    break
                self._say(f"{member.label} was replaced", "dim")


@contextlib.contextmanager
def listeners(first: socket.socket, count: int) -> Iterator[list[socket.socket]]:
    """One bound socket for each process, where the kernel spreads connections over them; else the same for all."""
    if not sys.platform.startswith("linux"):
        yield [first] * count
        return
    with contextlib.ExitStack() as stack:
        address: Any = first.getsockname()
        first.close()
        made = [stack.enter_context(socket.socket(first.family)) for _ in range(count)]
        for listener in made:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if listener.family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
        yield made
