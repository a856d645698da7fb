"""`toolcrib cluster`: a whole cluster on this machine, to try and to develop with, and a look at any cluster."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.root_permission import AllowRoot, check_root
from toolcrib.cli.terminal import Choice, CommandError, Terminal, compact

if TYPE_CHECKING:
    from toolcrib.cli.cluster_processes import ProcessGroups
    from toolcrib.cli.cluster_status import ClusterMonitor, ClusterView
    from toolcrib.crib import Crib
    from toolcrib.session import Session
    from toolcrib.tool import Tool

app = group("cluster", "Run a cluster on this machine, or look at one.")
GRACE_S = 30.0
BEAT_S = 0.05
ENOUGH = 2000
"""With so many calls queued, a load waits until the workers have caught up."""

API = "api-1"


@command(app, "up")
async def up(
    terminal: Terminal,
    workers: Annotated[int, typer.Option("--workers", min=1, help="How many workers.")] = 2,
    load: Annotated[float, typer.Option("--load", min=0, help="Calls a second that the API node submits.")] = 0,
    data: Annotated[
        Path | None, typer.Option("--data", help="Where the data is kept. Without it: .toolcrib/cluster by crib.yaml.")
    ] = None,
    allow_root: AllowRoot = False,
) -> None:
    """Start a cluster here, and watch it until Ctrl-C. It is PostgreSQL, NATS, an API node and workers.

    With --store or --engine that service is not started but the one they name is used.
    """
    from toolcrib.cli.crib_choice import chosen

    check_root(allow_root)
    choice = _known(terminal.crib)
    crib = chosen(Choice(choice.crib))
    if load and not _examples(crib):
        raise _nothing_to_load()
    if not terminal.json and terminal.out.is_terminal:
        terminal.together = True  # messages then appear above the table
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    folder = _folder(data, choice)
    async with _running(terminal, choice, folder, _commands(workers, load)) as (crew, choice):
        _greet(terminal, crib, choice, folder)
        crew.mind()
        async with _looking(choice, crib, crew) as looking:
            await _show(terminal, looking, choice, stop)


@command(app, "status")
async def status(terminal: Terminal) -> None:
    """Show the nodes of a cluster and what they have to do. --store names it, or the crib does."""
    from toolcrib.cli.cluster_status import LANE_COLUMNS, NODE_COLUMNS
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.cli.store import without_password

    crib, choice = None, terminal.crib
    if choice.store is None or choice.crib is not None:
        crib = chosen(choice)
        choice = choice._replace(store=crib.store.url)
    async with _looking(choice, crib) as looking:
        view = await looking.look()
    if terminal.json:
        terminal.data(_json(view, choice._replace(store=without_password(choice.store or ""))))
        return
    terminal.text(view.summary(), "bold")
    terminal.table(NODE_COLUMNS, view.node_rows())
    if view.lanes:
        terminal.text("")
        terminal.table(LANE_COLUMNS, view.lane_rows())


@command(app, "load")
async def load(
    terminal: Terminal,
    rate: Annotated[float, typer.Option("--rate", min=0.1, help="Calls a second.")] = 10,
    label: Annotated[str, typer.Option("--label", help="What people call this node.")] = API,
) -> None:
    """Submit calls to a cluster until told to stop. They are its read-only tools with their examples."""
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.engine.nats import Nats

    crib = chosen(terminal.crib)
    engine, examples = crib.pipeline.engine, _examples(crib)
    if not isinstance(engine, Nats):
        raise CommandError(
            "A load needs the engine of a cluster, and there is none", "name one: --engine nats://host:4222"
        )
    if not examples:
        raise _nothing_to_load()
    engine.works, engine.label = False, label
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with crib:
        terminal.text(f"ready {crib.pipeline.worker}")
        sessions = [await crib.open(owner=f"load-{n}", namespaces=("*",)) for n in range(8)]
        await _submit(crib, sessions, examples, rate, stop)


# What is run


def _known(choice: Choice) -> Choice:
    """The person's crib, or the demo's where there is none."""
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.crib_choice import DEMO

    return choice if choice.crib is not None or Path(NAME).is_file() else choice._replace(crib=DEMO)


def _folder(data: Path | None, choice: Choice) -> Path:
    """Make the folder of all data, and have version control ignore it."""
    beside = Path(choice.crib).parent if choice.crib and Path(choice.crib).is_file() else Path()
    folder = (data or beside / ".toolcrib" / "cluster").resolve()
    (folder / "log").mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", "utf-8")
    return folder


def _commands(workers: int, load: float) -> list[dict[str, list[str]]]:
    """The nodes by label, in the groups in which they start."""
    api = ["cluster", "load", "--rate", f"{load:g}"] if load else ["worker", "--role", "api"]
    worker = ["worker", "--role", "worker", "--grace", f"{GRACE_S:g}"]
    return [{API: api}, {f"worker-{n}": worker for n in range(1, workers + 1)}]


@asynccontextmanager
async def _running(
    terminal: Terminal, choice: Choice, folder: Path, commands: list[dict[str, list[str]]]
) -> AsyncIterator[tuple[ProcessGroups, Choice]]:
    """Run the processes, and yield them with what their nodes join; they are stopped in reverse order."""
    from toolcrib.cli.cluster_processes import NodeProcess, ProcessGroups, ServiceProcess
    from toolcrib.testing.services import NatsServer, PostgresServer

    crew = ProcessGroups(terminal.say)
    try:
        if choice.store is None:
            postgres = PostgresServer(folder / "postgres")
            await crew.start(ServiceProcess(postgres, "store"))
            choice = choice._replace(store=postgres.url)
        if choice.engine is None:
            nats = NatsServer(folder / "nats")
            await crew.start(ServiceProcess(nats, "engine"))
            choice = choice._replace(engine=nats.url)
        # Others may read the words of a command, and a URL may hold a password; its environment they cannot read.
        variables = {"TOOLCRIB_CRIB": choice.crib, "TOOLCRIB_STORE": choice.store, "TOOLCRIB_ENGINE": choice.engine}
        env = {**os.environ, **{name: value for name, value in variables.items() if value}}
        for group in commands:
            nodes = [
                NodeProcess(
                    label, [sys.executable, "-m", "toolcrib", *words, "--label", label], env, folder / "log", GRACE_S
                )
                for label, words in group.items()
            ]
            await crew.start(*nodes)
        yield crew, choice
    finally:
        try:
            terminal.say("Stopping: workers first, services last", "bold")
        finally:  # nobody may read it any more
            await crew.stop()


def _greet(terminal: Terminal, crib: Crib, choice: Choice, folder: Path) -> None:
    """Says how to use it."""
    named = f" --crib {shlex.quote(choice.crib)}" if choice.crib else ""
    lines = [
        f"The cluster is up; its data and logs are in {folder}. In another terminal:",
        f"  export TOOLCRIB_STORE={shlex.quote(choice.store or '')}",
        f"  export TOOLCRIB_ENGINE={shlex.quote(choice.engine or '')}",
        *(f"  toolcrib{named} call {tool.id} {shlex.quote(compact(args))}" for tool, args in _examples(crib)[:1]),
        f"  toolcrib{named} sessions list",
        "  toolcrib cluster status",
        "Ctrl-C stops it.",
    ]
    for line in lines:
        terminal.say(line)


# What is shown


@asynccontextmanager
async def _looking(
    choice: Choice, crib: Crib | None, crew: ProcessGroups | None = None
) -> AsyncIterator[ClusterMonitor]:
    from toolcrib.cli.cluster_status import ClusterMonitor, opened

    def lane_of(tool: str) -> str:
        known = None if crib is None else crib.catalog.get(tool)
        return tool if known is not None and known.limits.concurrency is not None else "default"

    urls = {"postgres": choice.store, "nats": choice.engine}
    services = {label: url for label, url in urls.items() if url is not None}
    async with opened(choice.store or "") as store:
        yield ClusterMonitor(store, services, lane_of, [] if crew is None else crew.children)


async def _show(terminal: Terminal, looking: ClusterMonitor, choice: Choice, stop: asyncio.Event) -> None:
    with _screen(terminal, choice) as (draw, every):
        while not stop.is_set():
            draw(await looking.look())
            await _pause(stop, every)


@contextmanager
def _screen(terminal: Terminal, choice: Choice) -> Iterator[tuple[Callable[[ClusterView], None], float]]:
    """How a view is shown, and how often: a table that lives, lines through a pipe, or JSON."""
    if terminal.json:
        yield (lambda view: terminal.data(_json(view, choice))), 1.0
    elif not terminal.out.is_terminal:
        yield (lambda view: terminal.text(view.line())), 2.0
    else:
        from rich.live import Live

        with Live(console=terminal.out, auto_refresh=False) as live:
            yield (lambda view: live.update(view.drawn(), refresh=True)), 0.5


def _json(view: ClusterView, choice: Choice) -> dict[str, Any]:
    return {**view._asdict(), "store": choice.store, "engine": choice.engine}


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        pass


# What is submitted


def _examples(crib: Crib) -> list[tuple[Tool, Any]]:
    """Tools that change nothing, with arguments to call them by."""
    tools = [tool for tool in crib.catalog.view(("*",)).tools if tool.does == "read" and tool.run is not None]
    return [(tool, dict(tool.knowledge.examples[0].arguments)) for tool in tools if tool.knowledge.examples]


def _nothing_to_load() -> CommandError:
    return CommandError("This crib has no read-only tool with an example", "give one `examples=[{...}]`")


async def _submit(
    crib: Crib, sessions: list[Session], examples: list[tuple[Tool, Any]], rate: float, stop: asyncio.Event
) -> None:
    from toolcrib.errors import ToolcribError

    turns = zip(itertools.cycle(sessions), itertools.cycle(examples), strict=False)
    loop = asyncio.get_running_loop()
    due, last = 0.0, loop.time()
    while not stop.is_set():
        now = loop.time()
        due, last = min(due + rate * (now - last), rate), now
        batch = list(itertools.islice(turns, int(due)))
        due -= len(batch)
        try:
            await asyncio.gather(*(session.submit(tool.id, args) for session, (tool, args) in batch))
            if await _queued(crib) > ENOUGH:
                await _pause(stop, 1.0)
        except ToolcribError:  # the store is away; a load is no reason to end
            await _pause(stop, 1.0)
        await _pause(stop, BEAT_S)


async def _queued(crib: Crib) -> int:
    counts: dict[str, dict[str, int]] = await crib.store.counts()  # type: ignore[attr-defined]  # an engine needs such a store
    return sum(of.get("queued", 0) for of in counts.values())
