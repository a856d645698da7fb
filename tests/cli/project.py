"""A small project in a folder of its own, and commands run in it."""

import json
import os
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests import ready

SOURCE = '''
import asyncio
from pathlib import Path
from typing import Any

from toolcrib import Context, Tool, ToolFailure, tool

PAID = Path(__file__).parent / "paid.txt"


@tool(namespace="shop", read_only=True, examples=[{"order": "7"}])
async def find(order: str, deep: bool = False) -> dict[str, Any]:
    """Find an order.

    Args:
        order: The order's number.
    """
    if order == "0":
        raise ToolFailure("not_found", "There is no order 0", hint="Orders start at 1.")
    return {"order": order, "deep": deep}


@tool(namespace="shop", destructive=True)
async def refund(ctx: Context, order: str, cents: int) -> str:
    """Pay money back."""
    ctx.progress("paying", 0.5)
    with PAID.open("a") as book:
        book.write(f"{cents}\\n")
    return f"paid {cents}"


@tool(namespace="shop", read_only=True)
async def rows(ctx: Context, count: int = 3) -> Any:
    """Stream rows."""
    for row in range(count):
        ctx.progress(f"row {row}", loaded=row + 1, total=count)
        yield {"row": row}


@tool(namespace="shop", read_only=True)
async def speak(ctx: Context, text: str = "hello") -> None:
    """Say something."""
    ctx.output(text)


@tool(namespace="shop", read_only=True)
async def wait_for_ever(ctx: Context) -> None:
    """Never ends."""
    ctx.progress("waiting")
    await asyncio.Event().wait()


@tool(namespace="shop", read_only=True, output_bytes=1000, background=True)
async def report() -> list[int]:
    """More than fits into a result."""
    return list(range(1000))


@tool(namespace="mail")
async def send(ctx: Context) -> dict[str, Any]:
    """Send a letter."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 2}, "copies": {"type": "integer", "default": 1}},
        "required": ["city"],
    }
    answer = await ctx.ask("Where to?", schema=schema)
    return {"sent": answer.value}


@tool(namespace="mail")
async def send_two(ctx: Context) -> list[Any]:
    """Send two letters."""
    first, second = await ctx.call("mail.send"), await ctx.call("shop.refund", {"order": "7", "cents": 1})
    return [first.text, second.text]


sign = Tool(name="sign", namespace="mail", description="Sign by hand.", output_schema={"type": "integer"})


@tool(namespace="mail", read_only=True)
async def broken() -> None:
    """Breaks."""
    raise ValueError("the text of the error")
'''
CONFIG = """\
sources: [shop_tools]
store: sqlite:///shop.db
"""
LONGEST_S = 300


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Project:
    """A folder with tools and a `crib.yaml`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("shop_tools.py", SOURCE)
        self.write("crib.yaml", CONFIG)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        # Python takes a module of the same length, written within the same second, for the one that it compiled.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        return path

    def run(self, *words: str, stdin: str = "", code: int | None = 0) -> Ran:
        """Runs `toolcrib` to its end; where `code` is given, that must be its exit code."""
        done = ready.run("-m", "toolcrib", *words, folder=self.folder, env=environment(), stdin=stdin)
        ran = Ran(done.returncode, done.stdout, done.stderr)
        assert code in (None, ran.code), ran
        return ran

    @contextmanager
    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> Iterator[ready.Program]:
        """Runs `toolcrib` beside the test; what is left of it at the end is killed."""
        argv, env = ["-m", "toolcrib", *words], environment()
        with ready.Program(argv, cwd=self.folder, env=env, stdin=stdin, stderr=subprocess.PIPE) as process:
            overdue = threading.Timer(LONGEST_S, process.kill)  # who reads from it would wait for ever
            overdue.start()
            try:
                yield process
            finally:
                overdue.cancel()
                process.kill()

    @property
    def paid(self) -> list[str]:
        """What the refunds really did."""
        book = self.folder / "paid.txt"
        return book.read_text().split() if book.exists() else []

    def wait_for_refund(self) -> dict[str, Any]:
        """A refund that waits for its confirmation."""
        ran = self.run("call", "refund", "-a", "order=7", "-a", "cents=500", "--json", code=3)
        waiting: dict[str, Any] = ran.json
        return waiting


def command(*words: str) -> list[str]:
    """The command line, with warnings as errors."""
    return [sys.executable, "-W", "error", "-m", "toolcrib", *words]


def environment() -> dict[str, str]:
    """The environment, without what would colour or choose."""
    unwanted = ("TOOLCRIB_CRIB", "TOOLCRIB_DEMO", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONWARNINGS")
    return {name: value for name, value in os.environ.items() if name not in unwanted} | {"TERM": "xterm-256color"}


def until(stream: IO[str] | None, text: str) -> str:
    """Reads lines up to the one that holds a text."""
    read = ""
    for line in stream or ():
        read += line
        if text in line:
            return read
    raise AssertionError(f"{text!r} never came: {read}")


class Screen:
    """The command on a terminal of its own: what it shows is read, keys are pressed."""

    def __init__(self, words: Sequence[str], folder: Path, **env: str) -> None:
        self._fd, inner = os.openpty()
        termios.tcsetwinsize(self._fd, (40, 100))
        self._process = ready.Program(
            ["-m", "toolcrib", *words], cwd=folder, env=environment() | env, stdin=inner, stdout=inner, stderr=inner
        )
        os.close(inner)
        self.shown = ""
        self._seen = 0

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def expect(self, text: str) -> "Screen":
        """Reads until a text is shown, past the last one expected."""
        while text not in self.shown[self._seen :]:
            assert self._read(), f"{text!r} never came: {self.shown}"
        self._seen = self.shown.index(text, self._seen) + len(text)
        return self

    def press(self, keys: str) -> "Screen":
        """Types."""
        os.write(self._fd, keys.encode())
        return self

    def ended(self) -> int:
        """Reads all that is left; the exit code."""
        while self._read():
            pass
        return self._process.wait(timeout=120)

    def _read(self) -> bool:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([self._fd], [], [], 1.0)[0]:
                try:
                    piece = os.read(self._fd, 65536)
                except OSError:  # how a terminal says that nobody is left on the other side
                    return False
                self.shown += piece.decode("utf-8", "replace")
                return bool(piece)
        return False
