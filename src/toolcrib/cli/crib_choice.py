"""Which crib a command works on, and how much of it is started for that."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.cli import trust
from toolcrib.cli.command import where
from toolcrib.cli.store_choice import opened
from toolcrib.cli.telemetry import exported
from toolcrib.cli.terminal import Choice, CommandError
from toolcrib.cli.variables import set_variables

if TYPE_CHECKING:
    from toolcrib.cli.config.loader import SourceCache
    from toolcrib.crib import Crib
    from toolcrib.serve.managed_sources import ManagedSources

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
DEMO = "toolcrib.demo:crib"
SOON_S = 2.0
"""How long a server waits for its sources before it serves, those of other programs and machines not at all."""

SOURCE_S = 10.0
"""How long a command waits for the source of the tool that it names."""

SECRET_KEY = "TOOLCRIB_SECRET_KEY"
"""The variable with the key for secret arguments, which counts more than what a crib says itself."""

WAIT, WAIT_S = "TOOLCRIB_WAIT", 30.0
"""How long a server waits for its store and its engine."""

TELL_S = 10.0
RETRY_S = 0.5

log = logging.getLogger("toolcrib.cli")


def chosen(choice: Choice, cache: SourceCache | None = None) -> Crib:
    """The crib that `--crib` names, with the store and the engine that were named instead of its own; not started yet.

    The sources of a `crib.yaml` are kept in the `cache`, for who reads it again later.

    Raises:
        CommandError: there is none, or it does not hold.
    """
    crib = _named(choice.crib, cache)
    if choice.store is not None:
        from toolcrib.store import open_store

        crib._use_store(open_store(choice.store))
    if choice.engine is not None:
        from toolcrib.engine import open_engine

        crib.pipeline.engine = open_engine(choice.engine)
    if SECRET_KEY in os.environ:
        crib.pipeline.vault.use(os.environ[SECRET_KEY])
    return crib


def _named(choice: str | None, cache: SourceCache | None) -> Crib:
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.config.loader import load

    path = Path(choice or NAME)
    if path.is_file():
        trust.check(path)
        set_variables(path.resolve().parent)
        return load(path, cache)
    if choice is None:
        advice = f"make one, go to its folder, or name a crib; this one always works: --crib {DEMO}"
        raise CommandError(f"There is no {NAME} in {Path.cwd()}", advice)
    if _OBJECT.fullmatch(choice):
        return _object(choice)
    raise CommandError(f"There is no file {choice}", "--crib takes a crib.yaml or module:name")


def _object(choice: str) -> Crib:
    from toolcrib.cli.imports import BadSource, from_module, importable
    from toolcrib.crib import Crib
    from toolcrib.tool import Tool

    importable(Path.cwd())
    try:
        value: Any = from_module(choice)
    except BadSource as error:
        raise CommandError(
            f"--crib {choice}: {error}", "name it as module:name, from a folder where it can be imported"
        ) from error
    if not isinstance(value, Crib | Tool) and callable(value) and not inspect.isclass(value):
        value = _made(choice, value)
    if not isinstance(value, Crib):
        what = type(value).__name__
        raise CommandError(
            f"--crib {choice} is a {what}, not a Crib", "name a Crib object, or a function that returns one"
        )
    return value


def _made(choice: str, make: Any) -> Any:
    from toolcrib.errors import ToolcribError

    try:
        return make()
    except (ToolcribError, CommandError):
        raise
    except Exception as error:
        raise CommandError(f"--crib {choice} failed: {where(error)}", "mend it, or name another crib") from error


@asynccontextmanager
async def at_work(
    choice: Choice,
    *,
    serves: bool = False,
    waits: bool = True,
    prepare: Callable[[Crib], object] | None = None,
    cache: SourceCache | None = None,
    managed: list[ManagedSources] | None = None,
) -> AsyncIterator[Crib]:
    """The crib, started: it takes up what a crash left behind, and runs calls. In a cluster, workers do that.

    It has the sources that administrators added too; what arranges them is put into `managed`, for who goes on with it.
    What is to be changed about it before, `prepare` does. One that `serves` others is there for them at once, whatever
    its sources do, and waits for a store and an engine that are not there yet. A command that does not wait for sources
    waits for that of its tool, by `arrive`.
    """
    crib = chosen(choice, cache)
    if prepare is not None:
        prepare(crib)
    sources = manage(crib, choice)
    if crib.pipeline.engine is not None:
        crib.pipeline.engine.works = False
    crib.at_once = serves or not waits
    with exported(crib, choice):
        async with _running(crib, sources, managed, serves=serves):
            yield crib


@asynccontextmanager
async def _running(
    crib: Crib, sources: ManagedSources, managed: list[ManagedSources] | None, *, serves: bool
) -> AsyncIterator[None]:
    if serves:
        await started(crib)
        if managed is None:
            await sources.start()
        else:
            managed.append(sources)
        try:
            yield
        finally:
            await sources.stop()
            await crib.stop()
        return
    async with crib:
        yield


def manage(crib: Crib, choice: Choice) -> ManagedSources:
    """Return what arranges the sources of a crib by what its administrators did; it asks at the start of the crib."""
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.config.loader import hosting
    from toolcrib.serve.managed_sources import ManagedSources
    from toolcrib.serve.source_entry import SourceRules

    path = Path(choice.crib or NAME)
    return ManagedSources(crib, hosting(path).source_rules() if path.is_file() else SourceRules())


async def started(crib: Crib) -> None:
    """Starts a crib that serves others, as soon as its store and its engine are there."""
    from toolcrib.errors import EngineUnavailable, StoreUnavailable

    crib.patience = SOON_S
    until = time.monotonic() + _patience()
    logged_at = float("-inf")
    while True:
        try:
            await crib.start()
            return
        except (StoreUnavailable, EngineUnavailable) as error:
            now = time.monotonic()
            if not error.absent or now >= until:
                raise
            if now - logged_at >= TELL_S:
                logged_at = now
                log.warning("waiting for it, up to %g s: %s", until - now, error)
        await asyncio.sleep(RETRY_S)


def _patience() -> float:
    """How long to wait for a store or an engine that is not there, in seconds."""
    value = os.environ.get(WAIT, str(WAIT_S))
    try:
        return max(float(value), 0.0)
    except ValueError:
        raise CommandError(f"{WAIT} is a number of seconds, not '{value}'", f"unset it, or say {WAIT}=60") from None


@asynccontextmanager
async def reading(choice: Choice) -> AsyncIterator[Crib]:
    """A crib over the store, without sources: looking at sessions starts and imports nothing.

    Raises:
        CommandError: there is nothing to read yet.
    """
    crib = without_sources(choice)
    async with opened(crib.store):
        yield crib


@asynccontextmanager
async def with_store(choice: Choice) -> AsyncIterator[Crib]:
    """The whole crib with its store alone started: what a crash left behind is not taken up.

    Raises:
        CommandError: there is no store yet.
    """
    crib = chosen(choice)
    async with opened(crib.store):
        yield crib


def without_sources(choice: Choice) -> Crib:
    """A crib over the store that was named, or that of the crib; only an object of Python is imported for that."""
    from toolcrib.cli.config.document import NAME

    path = Path(choice.crib or NAME)
    if path.is_file():
        from toolcrib.cli.config.loader import load_without_sources

        return load_without_sources(path, choice.store)
    if choice.crib is None and choice.store is not None:
        from toolcrib.crib import Crib

        return Crib(store=choice.store)
    return chosen(choice)


@asynccontextmanager
async def looking(choice: Choice) -> AsyncIterator[Crib]:
    """The crib with its sources alone, over an empty store: looking at tools touches no session."""
    from toolcrib.store import open_store

    crib = chosen(choice)
    crib._use_store(open_store("memory:"))
    crib.pipeline.engine = None
    async with crib:
        yield crib
