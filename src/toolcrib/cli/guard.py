"""`toolcrib guard`: a hook of a coding agent, judged by the policy of a crib."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.guard.formats import Asking, HookReply
    from toolcrib.guard.hook import HookEvent, Judgement
    from toolcrib.guard.judge import Judge

IDLE = "TOOLCRIB_GUARD_IDLE_S"
"""The variable that says after how many seconds without a hook the resident process ends."""

STORE_S = 15.0
"""How long a hook waits for the store, beside the time that a person has to answer."""

log = logging.getLogger("toolcrib.cli")

AskOption = Annotated[
    Literal["ask", "deny", "defer"],
    typer.Option("--ask", help="What a client that can ask is told of what asks; `defer` is for Claude Code alone."),
]


async def guard(
    terminal: Terminal,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Whose hook it is, such as claude-code.")],
    ask: AskOption = "ask",
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait for an answer in the inbox.")
    ] = 0.0,
    event: Annotated[
        str | None, typer.Option("--event", metavar="NAME", help="The event, where the client does not say it.")
    ] = None,
    resident: Annotated[bool, typer.Option("--resident", help="Be the process that answers the hooks.")] = False,
) -> int:
    """Judge a hook of a coding agent: JSON in, JSON out.

    The policy of the crib that --crib names decides; what asks waits in the inbox. Exit code 2 blocks.
    """
    from toolcrib.guard.formats import FORMATS, unreadable
    from toolcrib.guard.relay import RESIDENT

    if client not in FORMATS:
        raise CommandError(f"There is no client '{client}'", f"there are {', '.join(FORMATS)}")
    if terminal.crib.crib is None:
        raise CommandError("The guard needs a crib", "name its file: --crib /path/to/crib.yaml")
    path = _real(terminal.crib.crib)
    if resident:
        return await _serve(path, terminal.crib.store)
    bench = _Bench(path, terminal.crib.store)
    try:
        reply = await bench.answer(client, sys.stdin.buffer.read(), _Wanted(ask, wait, event))
    except Exception:
        log.exception("a hook could not be judged")
        reply = unreadable("the hook could not be judged, so it is blocked; --debug shows why")
    finally:
        await bench.close()
    terminal.results.write(reply.text)
    sys.stderr.write(reply.error)
    if os.environ.get(RESIDENT) != "0" and terminal.crib.store is None:
        _start(path)
    return reply.code


class _Wanted(NamedTuple):
    """How a hook is to be answered."""

    ask: Asking = "ask"
    wait: float = 0.0
    event: str | None = None


class _Bench:
    """The judge of a crib, which is made anew when its files change."""

    def __init__(self, path: Path, store: str | None) -> None:
        self._path, self._store = path, store
        self._judge: Judge | None = None
        self._close: list[object] = []
        self._seen: object = None
        self._problem = ""
        self._lock = asyncio.Lock()

    async def answer(self, client: str, payload: bytes, wanted: _Wanted) -> HookReply:
        """Return the answer to a hook."""
        from toolcrib.guard.formats import read, unreadable, write
        from toolcrib.guard.hook import BadHook

        try:
            event = read(client, payload, wanted.event)
        except BadHook as error:
            return unreadable(str(error))
        if event.phase == "other":
            return write(event, _nothing(), wanted.ask)
        return write(event, await self._judged(event, wanted.wait), wanted.ask)

    async def _judged(self, event: HookEvent, wait: float) -> Judgement:
        from toolcrib.errors import ToolcribError

        try:
            judge = await self._current()
            async with asyncio.timeout(STORE_S + wait):
                return await judge.answer(event, wait)
        except CommandError as error:
            return _closed(event, error.message)
        except TimeoutError:
            return _closed(event, "its store does not answer")
        except (ToolcribError, OSError) as error:
            log.warning("a hook could not be judged", exc_info=error)
            return _closed(event, str(error))

    async def _current(self) -> Judge:
        """Return the judge of the files as they are now.

        Raises:
            CommandError: they do not hold.
        """
        async with self._lock:
            seen = _stamp(self._path)
            if seen is None or seen != self._seen:
                await self.close()
                self._seen, self._problem = seen, ""
                try:
                    self._judge = await self._made()
                except CommandError as error:
                    self._problem = error.message
            if self._judge is None:
                raise CommandError(self._problem or "the crib cannot be opened", "mend it")
            return self._judge

    async def _made(self) -> Judge:
        from toolcrib.cli.config.loader import load_for_guard
        from toolcrib.cli.questions import user
        from toolcrib.errors import ToolcribError
        from toolcrib.guard.judge import Judge

        if not self._path.is_file():
            raise CommandError(f"there is no file {self._path}", "name a crib.yaml")
        try:
            crib = load_for_guard(self._path, self._store)
            await crib.start()
        except (ToolcribError, OSError) as error:
            raise CommandError(str(error), "mend it") from None
        self._close = [crib]
        return Judge(crib, user())

    async def close(self) -> None:
        """Let the store go."""
        from toolcrib.crib import Crib

        self._judge, made, self._close = None, self._close, []
        for crib in made:
            assert isinstance(crib, Crib)
            await crib.stop(grace=0.0)


def _real(path: str) -> Path:
    return Path(path).resolve()


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _nothing() -> Judgement:
    from toolcrib.guard.hook import Judgement

    return Judgement("defer")


def _closed(event: HookEvent, problem: str) -> Judgement:
    """What is answered where nothing can be judged: what acts is refused, what only reads is left to the client."""
    from toolcrib.guard.hook import Judgement

    line = " ".join(problem.split())[:500]
    if any(act.acts for act in event.acts):
        return Judgement("deny", f"toolcrib guard: the crib cannot be used, so nothing that acts is allowed: {line}")
    return Judgement("defer", f"toolcrib guard: the crib cannot be used, so this was not judged: {line}")


# The resident process


def _start(path: Path) -> None:
    """Start the resident process of a crib, unless there is one; the next hook finds it."""
    options = ["-E", "-P"] if sys.flags.ignore_environment else ["-P"]
    words = [sys.executable, *options, "-m", "toolcrib", "guard", "generic", "--resident", "--crib", str(path)]
    null = subprocess.DEVNULL
    try:
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/")
    except OSError as error:
        log.debug("the resident process does not start", exc_info=error)


async def _serve(path: Path, store: str | None) -> int:
    from toolcrib import __version__
    from toolcrib.guard.formats import FORMATS, unreadable
    from toolcrib.guard.relay import parse, socket_path
    from toolcrib.guard.resident import IDLE_S, serve

    bench = _Bench(path, store)

    async def answer(words: list[str], payload: bytes, crib: str) -> HookReply:
        hook = parse(words)
        asking = "" if hook is None else hook.options.get("--ask", "ask")
        if hook is None or hook.client not in FORMATS or asking not in ("ask", "deny", "defer") or crib != str(path):
            raise EOFError  # the client judges it itself, and says what is wrong
        wanted = _Wanted(asking, hook.wait, hook.options.get("--event"))  # type: ignore[arg-type]  # it was looked at
        try:
            return await bench.answer(hook.client, payload, wanted)
        except Exception:
            log.exception("a hook could not be judged")
            return unreadable("the hook could not be judged, so it is blocked")

    try:
        idle = float(os.environ.get(IDLE, IDLE_S))
    except ValueError:
        idle = IDLE_S
    try:
        await serve(socket_path(str(path), __version__), answer, idle)
    finally:
        await bench.close()
    return 0
