"""`toolcrib serve` and `toolcrib mcp`: the crib for other programs, over HTTP and on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.cli.questions import user
from toolcrib.cli.root_permission import check_root
from toolcrib.cli.serve_options import Namespaces, ServeOptions
from toolcrib.cli.server_keys import SHORTEST_KEY, named_keys, server_guard
from toolcrib.cli.server_place import PoolLink, ServerPlace
from toolcrib.cli.terminal import CommandError, Terminal
from toolcrib.extras import install
from toolcrib.store.memory import MemoryStore

if TYPE_CHECKING:
    from toolcrib._call.shared_limits import SharedLimits
    from toolcrib.cli.config.loader import SourceCache
    from toolcrib.cli.config.server import ServeConfig
    from toolcrib.crib import Crib
    from toolcrib.serve.http import Site
    from toolcrib.serve.managed_sources import ManagedSources
    from toolcrib.serve.mcp import McpLibrary, McpServerSettings
    from toolcrib.serve.mcp.peers import McpPeers
    from toolcrib.serve.principal import Guard, Principal
    from toolcrib.toolkits.shell.protections import Protections

log = logging.getLogger("toolcrib.cli")

GRACE_S = 5
LINGER_S = 1.0
"""How long clients have to go on at another process of the port, with a new connection."""
TOKEN = "TOOLCRIB_TOKEN"
"""The variable that holds the start token of a server, where it should be a certain one."""


def begin_log(terminal: Terminal, form: str) -> None:
    """Begins the log of a server.

    Raises:
        CommandError: there is no such form.
    """
    from toolcrib.cli.server_log import FORMATS, start_log

    if form not in FORMATS:
        raise CommandError(f"There is no --log-format {form}", f"it is {' or '.join(FORMATS)}")
    start_log(terminal.crib, "json" if form == "json" else "text", debug=terminal.debug)
    if form == "json":
        terminal.log_remarks(log)


async def stdio(terminal: Terminal, namespace: Namespaces = None) -> None:
    """Serve the crib to one MCP client over standard input and output.

    Until it leaves. `stdio` may be left out.
    """
    with needs():
        from toolcrib.serve.mcp.stdio import serve
    from toolcrib.cli.crib_choice import at_work
    from toolcrib.serve.principal import Principal

    if sys.stdin.isatty() and not terminal.json:
        config, commands = terminal.command("mcp", "config"), terminal.command("mcp", "--help")
        terminal.say(f"An MCP client should be here, and no person: `{config}` prints what to give to one.", "yellow")
        terminal.say(f"`{commands}` lists the commands. Ctrl-D ends this.", "yellow")
    # What is printed from here on is no message, also where a module is imported.
    async with _pipes() as pipes, at_work(terminal.crib, serves=True) as crib:
        settings = _settings(crib, namespace, configured(terminal).mcp)
        await serve(crib, library=_shelf(crib), settings=settings, principal=Principal(user()), pipes=pipes)


@contextlib.asynccontextmanager
async def _pipes() -> AsyncIterator[tuple[Any, Any]]:
    """Standard input and output, by way of pipes where they are something else: a loop can wait for nothing else."""
    from toolcrib.serve.mcp.stdio import own_pipes

    source, target = own_pipes()
    copying = None
    if not _is_pipe(source):
        read, write = os.pipe()
        _copy(source.fileno(), write)
        source = os.fdopen(read, "rb", 0)
    if not _is_pipe(target):
        read, write = os.pipe()
        copying = _copy(read, os.dup(target.fileno()))
        target.close()
        target = os.fdopen(write, "wb", 0)
    try:
        yield source, target
    except BaseException:
        for file in (source, target):  # whoever serves closes them
            file.close()
        raise
    if copying is not None:
        await asyncio.to_thread(copying.join, GRACE_S)


def _is_pipe(file: Any) -> bool:
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _copy(read: int, write: int) -> threading.Thread:
    """Copies one file to another to its end, beside everything else."""

    def run() -> None:
        with contextlib.suppress(OSError), os.fdopen(write, "wb", 0) as into:
            while data := os.read(read, 65536):
                into.write(data)

    thread = threading.Thread(target=run, name="toolcrib-copy", daemon=True)
    thread.start()
    return thread


async def serve(terminal: Terminal, options: ServeOptions) -> None:
    """Serve the crib over HTTP: API, MCP, console and agents.

    Until Ctrl-C or SIGTERM. SIGHUP reads crib.yaml again, and replaces the processes of --workers one after the other.
    Agents are there as AG-UI, AI SDK and A2A.
    """
    options.check()
    check_root(options.allow_root)
    config = options.over(configured(terminal))
    place = ServerPlace.of_environment()
    begin_log(terminal, config.log_format)
    known = named_keys(config.keys if isinstance(config.keys, Path) else None, options.key_env)
    with needs():
        import uvicorn  # noqa: F401 - a missing library is reported before anything starts
    from toolcrib.cli.server_pool import process_count

    if place is None and (count := process_count(config.workers)) > 1:
        await _serve_with_several(terminal, config, count, reload=options.reload)
        return
    await _serve_here(terminal, config, options, place, known)
    if place is None:
        terminal.say("Stopped listening.", "dim")


async def _serve_here(
    terminal: Terminal,
    config: ServeConfig,
    options: ServeOptions,
    place: ServerPlace | None,
    known: Mapping[str, Principal],
) -> None:
    """Serve in this process, alone or as one of a pool."""
    from toolcrib.cli.announcement import Announcement
    from toolcrib.cli.crib_choice import at_work
    from toolcrib.cli.reload import reloading
    from toolcrib.toolkits.shell.protections import probe_protections

    cache: SourceCache = {}
    managed: list[ManagedSources] = []
    limits = None if place is None else place.shared_limits()
    async with (
        at_work(terminal.crib, serves=True, cache=cache, managed=managed, prepare=partial(_share, limits)) as crib,
        reloading(crib, terminal.crib, cache, code=options.reload),
    ):
        guard, token = await _guard(crib, config, options, known)
        async with _listeners(config, token, place) as (listeners, link):
            protections = await probe_protections()
            peers = None if place is None else _peers(place, listeners[1])
            site = _site(crib, config, guard, protections, managed[0], peers)
            if options.mcp:
                site.only_mcp()
            else:
                _mount_console(site)
            site.api.gate.together = limits
            await site.open()
            url = f"http://{_reached_at(config.host)}:{listeners[0].getsockname()[1]}"
            keys = guard is not None and token is None
            crib.accounts.serve_at(config.public_url or url)
            announcement = Announcement(url, token, keys, options.mcp, protections)
            announces = place is None or place.announces
            await _serve(site, listeners, link, (lambda: announcement.say(terminal, site)) if announces else None)


async def _guard(
    crib: Crib, config: ServeConfig, options: ServeOptions, known: Mapping[str, Principal]
) -> tuple[Guard | None, str | None]:
    """Return who decides whom to let in, and the start token where that is what they need."""
    from toolcrib.serve.start_token import StartToken

    required, off = options.auth == "keys", options.auth == "off"
    guard = None if off else await server_guard(crib, config, known, required=required)
    if not _is_local(config.host) and guard is None and not options.insecure:
        advice = "make some with `toolcrib keys add OWNER`, or say --insecure if everybody there may call all tools"
        raise CommandError(f"{config.host} is open to other machines, and there are no keys", advice)
    token = None if options.no_token or guard is not None else await _token(crib)
    return guard if token is None else StartToken(token), token


async def _serve_with_several(terminal: Terminal, config: ServeConfig, count: int, *, reload: bool) -> None:
    """Serves with several processes, each of which takes the same options."""
    from toolcrib.cli.server_pool import ServerPool, listeners

    if reload:
        raise CommandError("--reload is for one process", "leave --workers out, or send SIGHUP instead")
    with _bound(config.host, config.port) as first:
        _listen(first)  # the sockets of a pool could be bound beside those of another server
        with listeners(first, count) as made:
            await ServerPool(terminal, made).run()
    terminal.say("Stopped listening.", "dim")


def _share(limits: SharedLimits | None, crib: Crib) -> None:
    """Has a crib keep to its limits together with those of other processes, where there are some.

    Raises:
        CommandError: they do not share a store.
    """
    if limits is None:
        return
    from toolcrib._call.shared_limits import SharedScheduler

    if isinstance(crib.store, MemoryStore):
        advice = "name one with `store: sqlite:///crib.db` in crib.yaml, or with --store"
        raise CommandError("Several server processes need a store that they share", advice)
    crib.pipeline.scheduler = SharedScheduler(crib.pipeline.limits, crib.pipeline.clock, limits)


@contextlib.asynccontextmanager
async def _listeners(
    config: ServeConfig, token: str | None, place: ServerPlace | None
) -> AsyncIterator[tuple[list[socket.socket], PoolLink | None]]:
    """The socket that listens; in a pool of processes, one more that the others reach, and the link with the pool."""
    if place is None:
        with _bound(config.host, config.port) as listener, _left(listener, token):
            _listen(listener)  # not before: a client that comes without the token is refused for good
            yield [listener], None
        return
    link = await PoolLink.of(place)
    try:
        await link.prepared(token)
        with socket.socket(fileno=place.listener) as listener, _bound("127.0.0.1", 0) as private:
            _listen(listener)
            _listen(private)
            yield [listener, private], link
    finally:
        link.close()


def _peers(place: ServerPlace, private: socket.socket) -> McpPeers:
    from toolcrib.serve.mcp.peers import McpPeers

    peers = McpPeers(place.number, Path(place.folder))
    peers.publish(private.getsockname()[1])
    return peers


async def _token(crib: Crib) -> str:
    """The token of a server without keys: that of the environment, else the one that belongs to the store."""
    from toolcrib.serve.mcp.signed_state import kept_secret
    from toolcrib.serve.start_token import derived

    configured_token = os.environ.get(TOKEN, "").strip()
    if configured_token and len(configured_token) < SHORTEST_KEY:
        raise CommandError(f"{TOKEN} has fewer than {SHORTEST_KEY} characters", "make one with openssl rand -hex 32")
    return configured_token or derived(await kept_secret(crib.store, crib.pipeline.clock.now()))


def _left(listener: socket.socket, token: str | None) -> contextlib.AbstractContextManager[Any]:
    """Leaves the token for programs of the same user on this machine, while the server runs."""
    from toolcrib.client.local import published_token

    return contextlib.nullcontext() if token is None else published_token(listener.getsockname()[1], token)


def _reached_at(host: str) -> str:
    """The host of an address that works on this machine: that of all its networks is none."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def configured(terminal: Terminal) -> ServeConfig:
    """What the crib's file says about serving."""
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.config.loader import hosting
    from toolcrib.cli.config.server import ServeConfig

    path = Path(terminal.crib.crib or NAME)
    return hosting(path) if path.is_file() else ServeConfig()


def _site(
    crib: Crib,
    config: ServeConfig,
    guard: Guard | None,
    protections: Protections,
    sources: ManagedSources,
    peers: McpPeers | None,
) -> Site:
    """Return the site with all endpoints."""
    from toolcrib.serve.http import Site
    from toolcrib.serve.origins import LOCAL

    return Site(
        crib,
        library=_shelf(crib),
        mcp=_settings(crib, config.namespaces, config.mcp),
        guard=guard,
        hosts=[*LOCAL, *config.hosts] if _is_local(config.host) or config.hosts else ["*"],
        origins=config.origins,
        limits=config.bounds(),
        protections=protections._asdict(),
        sources=sources,
        trace_url=config.trace_url,
        peers=peers,
    )


def _mount_console(site: Site) -> None:
    """Serve the console too, where it was built."""
    from toolcrib.console import console

    try:
        site.mount("/", console())
    except FileNotFoundError as error:  # a checkout whose console was not built
        log.info("%s", error)


async def _serve(
    site: Site, listeners: list[socket.socket], link: PoolLink | None, announce: Callable[[], None] | None
) -> None:
    """Serves until a signal; a second Ctrl-C does not wait for connections."""
    from toolcrib.serve.http import server, settle

    def ready() -> None:
        if announce is not None:
            announce()
        if link is not None:
            link.serving(lambda: made.handle_exit(signal.SIGTERM, None))

    settle()
    linger_s = 0.0 if link is None else LINGER_S
    made = server(site, ready, linger_s=linger_s, loop="none", lifespan="off", log_config=None, log_level="critical")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, made.handle_exit, number, None)
    await made.serve(listeners)


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Return a socket that holds the address, and that nobody reaches before it listens."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise _taken(host, port, error) from None
        yield listener


def _listen(listener: socket.socket) -> None:
    try:
        listener.listen(2048)
    except OSError as error:  # somebody else was bound to the same address, and was faster
        host, port, *_ = listener.getsockname()
        raise _taken(host, port, error) from None


def _taken(host: str, port: int, error: OSError) -> CommandError:
    reason = error.strerror or str(error)
    return CommandError(f"Cannot listen on {host} port {port}: {reason}", "name another with --host and --port")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shelf(crib: Crib) -> McpLibrary | None:
    """The prompts and resources that are among the sources of a crib."""
    from toolcrib.serve.mcp import McpLibrary

    return next((source for source in crib.registry.sources if isinstance(source, McpLibrary)), None)


def _settings(crib: Crib, namespaces: Sequence[str] | None, settings: Mapping[str, Any]) -> McpServerSettings:
    from toolcrib.serve.mcp import McpServerSettings

    chosen = tuple(namespaces or ())
    if not chosen and crib.default_namespaces == ("default",):  # nothing was configured
        chosen = ("*",)
    return McpServerSettings(namespaces=chosen or None, **settings)


@contextlib.contextmanager
def needs(extra: str = "serve") -> Iterator[None]:
    """Tell a person how to install the extra that an import inside would need.

    Raises:
        CommandError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        advice = install(extra)
        raise CommandError(f"This needs {missing.name}, which is not installed", advice, exit_code=1) from None
