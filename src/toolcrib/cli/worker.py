"""`toolcrib worker`: a node of a cluster, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.root_permission import AllowRoot, check_root
from toolcrib.cli.serve import begin_log, configured
from toolcrib.cli.serve_options import LogFormat
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.cli.config.loader import SourceCache
    from toolcrib.crib import Crib

ROLES = ("worker", "api")


async def worker(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    label: Annotated[
        str | None, typer.Option("--label", help="What people call it; its name is unique anyway.")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="worker, or api for a node that runs no calls.")] = "worker",
    slots: Annotated[int, typer.Option("--slots", min=1, help="How many calls it runs at once.")] = 256,
    grace: Annotated[float, typer.Option("--grace", min=0, help="Seconds for what runs when told to stop.")] = 30.0,
    allow_root: AllowRoot = False,
    log_format: LogFormat = None,
) -> None:
    """Run calls of the cluster: one more node. Ctrl-C or SIGTERM lets it finish what it has."""
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.cli.telemetry import exported

    if role not in ROLES:
        raise CommandError(f"There is no role '{role}'", f"--role is {' or '.join(ROLES)}")
    check_root(allow_root)
    begin_log(terminal, log_format or configured(terminal).log_format)
    cache: SourceCache = {}
    crib = chosen(terminal.crib, cache)
    _prepare(crib, label, role, slots)
    with exported(crib, terminal.crib):
        await _work(terminal, crib, role, grace, cache)


async def _work(terminal: Terminal, crib: Crib, role: str, grace: float, cache: SourceCache) -> None:
    from toolcrib.cli.crib_choice import manage, started
    from toolcrib.cli.reload import reloading

    sources = manage(crib, terminal.crib)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    starting = asyncio.ensure_future(started(crib))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():  # a stop signal while it waited for others
        starting.cancel()
        await asyncio.wait({starting})
        return
    starting.result()
    await sources.start()
    _calm()
    sweeping = asyncio.ensure_future(crib._sweeper.hourly())
    try:
        async with reloading(crib, terminal.crib, cache):
            terminal.result({"ready": crib.pipeline.worker, "role": role}, f"ready {crib.pipeline.worker}")
            await stop.wait()
        terminal.say(f"{crib.pipeline.worker} takes no more calls, and leaves within {grace:g} s", "dim")
    finally:
        sweeping.cancel()
        await sources.stop()
        await crib.stop(grace)


def _calm() -> None:
    """What is there now stays; looking through it for garbage again and again would cost a tenth of a busy worker."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _prepare(crib: Crib, label: str | None, role: str, slots: int) -> None:
    from toolcrib.engine.nats import Nats

    engine = crib.pipeline.engine
    if not isinstance(engine, Nats):
        advice = "name one: --engine nats://host:4222, or engine: in crib.yaml"
        raise CommandError("A worker needs the engine of a cluster, and there is none", advice)
    engine.works = role == "worker"
    engine.slots = slots
    engine.label = label or engine.label
