"""The order desk behind `toolcrib serve`: with its console, and with some work done before anybody looks."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import webbrowser
from asyncio.subprocess import DEVNULL, create_subprocess_exec
from pathlib import Path

from toolcrib import By, Session
from toolcrib.cli.crib_choice import DEMO
from toolcrib.cli.serve import serve
from toolcrib.cli.serve_options import ServeOptions
from toolcrib.cli.terminal import Choice, Terminal
from toolcrib.crib import Crib
from toolcrib.demo import crib
from toolcrib.serve.mcp.signed_state import kept_secret
from toolcrib.serve.start_token import derived
from toolcrib.toolkits.shell.command_user import runs_as_root

OWNER = "ada"
PATIENCE_S = 20.0
TRY = (
    ("Tools", "choose desk.refund, take the arguments of its example, and run it"),
    ("Inbox", "refunds and an address wait for you; the arguments can be changed first"),
    ("Live", "run desk.export and watch its rows come"),
    ("Sessions", "monday: move the slider to see how it was at any moment"),
    ("Agents", "talk to the desk: where is B-1? money back for A-7, please"),
)


class _Desk(Terminal):
    """The terminal of the server, which says what to try once there is something to open."""

    def __init__(self, folder: Path, address: str, *, debug: bool) -> None:
        super().__init__(Choice(DEMO), debug=debug)
        self._folder, self._address = folder, address

    def ready(self) -> None:
        """Say what to try, and open it where there is a desktop."""
        self.text(f"\nOpen {self._address}", "bold")
        for name, what in TRY:
            self.text(f"  {name:9} {what}", "cyan")
        self.text(f"  Its files are in {self._folder}. Another terminal works on the same desk:")
        self.text(f"  TOOLCRIB_DEMO={self._folder} toolcrib --crib {DEMO} approvals list\n", "cyan")
        if sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
            webbrowser.open(self._address)


async def run(terminal: Terminal, folder: Path, port: int) -> None:
    """Serve until Ctrl-C; the folder is an absolute path."""
    screen = Terminal(terminal.crib, debug=terminal.debug, together=True)
    screen.text("The order desk is getting ready ...", "dim")
    wanted, port = port, _free(port)
    if wanted not in (0, port):
        screen.text(f"  Somebody has port {wanted}: this is another.", "yellow")
    address = f"http://127.0.0.1:{port}/?token={await _furnished(folder)}"
    if runs_as_root():
        screen.text(
            "  You are root, and the demo goes on as root (TOOLCRIB_ALLOW_ROOT=1). A server of yours should not.",
            "yellow",
        )
    os.environ.pop("TOOLCRIB_TOKEN", None)
    os.environ["TOOLCRIB_DEMO"] = str(folder)
    options = ServeOptions(host="127.0.0.1", port=port, auth="off", allow_root=True)
    await serve(_Desk(folder, address, debug=terminal.debug), options)


def _free(port: int) -> int:
    """The port, or any other one where somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        free: int = probe.getsockname()[1]
    return free


async def _furnished(folder: Path) -> str:
    """Does a day's work at a desk that is new; the start token of its server."""
    async with crib(folder) as counter:
        token = derived(await kept_secret(counter.store, counter.pipeline.clock.now()))
        if await counter.store.session("monday") is not None:
            return token
        async with asyncio.timeout(PATIENCE_S):
            await _monday(await counter.open("monday", owner=OWNER))
            await _talk(counter)
            await _lost(counter, folder)
    return token


async def _monday(session: Session) -> None:
    by = By("user", OWNER)
    for tool, args in (
        ("look_up", {"order": "A-7"}),
        ("track", {"order": "A-8"}),
        ("track", {"order": "A-8"}),
        ("track", {"order": "A-8"}),
        ("export", {"rows": 6, "pause": 0}),
        ("look_up", {"order": "Z-9"}),
    ):
        await session.call(f"desk.{tool}", args, by=by)
    paid = await session.submit("desk.refund", {"order": "A-7", "cents": 900}, by=by)
    await _answer(session, paid.id, "accept", "the wrench was scratched")
    kept = await session.submit("desk.refund", {"order": "B-1", "cents": 18_500}, by=by)
    await _answer(session, kept.id, "decline", "it was used")
    await session.submit("desk.refund", {"order": "A-8", "cents": 450}, by=by)
    await session.submit("desk.readdress", {"order": "B-1"}, by=by)
    await _await_questions(session, 2)


async def _talk(counter: Crib) -> None:
    session = await counter.open("chat-with-the-desk", owner=OWNER)
    await session.send("What was bought with A-7?")
    await session.send("And money back for it, 300 cents?")


async def _lost(counter: Crib, folder: Path) -> None:
    """A process that prints a label is killed: whether it was printed, nobody knows."""
    session = await counter.open("printer", owner=OWNER)
    row = await counter.store.session("printer")
    command = (sys.executable, "-m", "toolcrib.demo.crash", str(folder), "printer", OWNER)
    process = await create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL)
    try:
        async for event in session.events(row.seq if row else 0):
            if event.kind == "progress":
                break
    finally:
        process.kill()
        await process.wait()


async def _answer(session: Session, call: str, action: str, reason: str) -> None:
    async for event in session.events(call=call):
        if event.kind == "waiting":
            await session.answer(event.fields["question"]["id"], action, actor="bob", reason=reason)


async def _await_questions(session: Session, count: int) -> None:
    async for event in session.events():
        if event.kind == "waiting" and len(await session.questions()) >= count:
            return
