"""A server that reads its files again: on SIGHUP, and with `--reload` whenever they or its code change."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolcrib import yaml
from toolcrib.cli.config.document import NAME, read
from toolcrib.cli.terminal import Choice, CommandError

if TYPE_CHECKING:
    from toolcrib.cli.config.loader import SourceCache
    from toolcrib.crib import Crib

LOOK_S = 0.5
"""How often files are looked at for changes."""

TAKEN = ("sources", "policy", "declare", "agents")
"""The keys of a `crib.yaml` that are read again; all others count at the next start."""

log = logging.getLogger("toolcrib.cli")


class Reloader:
    """Has a crib that runs go on with what its `crib.yaml` says now; with `code`, with its modules of now too."""

    def __init__(self, crib: Crib, path: Path, cache: SourceCache, *, code: bool) -> None:
        self._crib = crib
        self._path = path
        self._folder = path.resolve().parent
        self._cache = cache
        self._code = code
        self._lock = asyncio.Lock()
        self._settings = self._fixed_settings()

    async def reload(self) -> bool:
        """Read everything again, and return True if it loaded; else the last good version stays, and that is logged."""
        from toolcrib.cli.config.loader import load
        from toolcrib.errors import ToolcribError

        async with self._lock:
            taken, cache = self._forget_modules() if self._code else {}, dict(self._cache)
            try:
                await self._crib.take_over(load(self._path, cache))
            except (CommandError, ToolcribError) as error:
                self._restore_modules(taken)
                log.error("%s was not taken, and the last good version goes on: %s", self._path.name, error)
                return False
            self._cache.clear()
            self._cache.update(cache)
            self._tell()
            await self._tell_findings()
            return True

    async def _tell_findings(self) -> None:
        """Says what of it does nothing, as at the start of the server."""
        from toolcrib.review import review

        for finding in await review(self._crib):
            if finding.severity != "info":
                log.warning("%s [%s]", finding, finding.code)

    def _tell(self) -> None:
        """Says what was read, and what of it counts only later."""
        settings = self._fixed_settings()
        changed = [key for key in {*settings, *self._settings} if settings.get(key) != self._settings.get(key)]
        if changed:
            log.warning("%s: %s counts at the next start", self._path.name, ", ".join(sorted(changed)))
        what = "policy, sources, agents and code were" if self._code else "policy, sources and agents were"
        log.info("%s: %s read again", self._path.name, what)

    def _fixed_settings(self) -> dict[str, Any]:
        with contextlib.suppress(CommandError):
            data = yaml.thaw(read(self._path)[1].value)
            if isinstance(data, dict):
                return {key: value for key, value in data.items() if key not in TAKEN}
        return {}

    # Code

    def modules(self) -> dict[str, ModuleType]:
        """The modules of the project that are loaded, and not those that are installed."""
        return {name: module for name, module in list(sys.modules.items()) if self._is_ours(module)}

    def _is_ours(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if file is None or module.__name__.partition(".")[0] in ("toolcrib", "__main__"):
            return False
        path = Path(file)
        installed = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib")]
        return path.is_relative_to(self._folder) and not any(path.is_relative_to(one) for one in installed)

    def _forget_modules(self) -> dict[str, ModuleType]:
        """Lets the modules of the project be imported anew; return those of now."""
        importlib.invalidate_caches()
        return {name: sys.modules.pop(name) for name in self.modules()}

    def _restore_modules(self, modules: dict[str, ModuleType]) -> None:
        if self._code:
            for name in self.modules():
                del sys.modules[name]
            sys.modules.update(modules)

    # When

    async def watch(self) -> None:
        """Reads all again whenever a file changed that it was read from, until it is cancelled."""
        seen = self._state()
        while True:
            await asyncio.sleep(LOOK_S)
            state = await asyncio.to_thread(self._state)
            if state != seen:
                await self.reload()
                seen = self._state() | state

    def _state(self) -> dict[Path, tuple[int, int]]:
        files = [self._path, *(Path(str(module.__file__)) for module in self.modules().values())]
        stamps = {}
        for file in files:
            with contextlib.suppress(OSError):  # an editor may be about to write it
                stat = file.stat()
                stamps[file] = (stat.st_mtime_ns, stat.st_size)
        return stamps


def _has_terminal() -> bool:
    """True if there is a terminal that the server was started at."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def _file_of(choice: Choice) -> Path | None:
    """The `crib.yaml` of a crib; None where that is an object of Python."""
    path = Path(choice.crib or NAME)
    return path if path.is_file() else None


@contextlib.asynccontextmanager
async def reloading(crib: Crib, choice: Choice, cache: SourceCache, *, code: bool = False) -> AsyncIterator[None]:
    """Reads the `crib.yaml` of a crib again on SIGHUP, and with `code` whenever it or a module changes.

    Raises:
        CommandError: its code cannot be read again, since the crib itself is an object of Python.
    """
    path = _file_of(choice)
    if path is None:
        if code:
            raise CommandError("--reload needs a crib.yaml", "name one with --crib, or leave --reload out")
        yield
        return
    reloader = Reloader(crib, path, cache, code=code)
    loop, at_terminal = asyncio.get_running_loop(), _has_terminal()
    tasks: set[asyncio.Task[Any]] = set()

    def again() -> None:
        if at_terminal and not _has_terminal():  # its window was closed, and nobody could stop it any more
            os.kill(os.getpid(), signal.SIGTERM)
            return
        task = loop.create_task(reloader.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, again)
    if code:
        sys.dont_write_bytecode = True  # two changes within a second would leave an old one behind
        tasks.add(loop.create_task(reloader.watch()))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
