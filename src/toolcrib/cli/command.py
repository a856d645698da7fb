"""What all commands share: the options `--crib`, `--json` and `--debug`, how they are run, and how they fail."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from toolcrib.cli.terminal import Terminal, Trouble, short

INTERRUPTED = 130

Command = Callable[..., Coroutine[Any, Any, int | None]]
CribOption = Annotated[
    str | None,
    typer.Option(
        "--crib",
        metavar="FILE|MODULE:NAME",
        envvar="TOOLCRIB_CRIB",
        help="A crib.yaml, or a Crib object (or a function that makes one). Without it: ./crib.yaml.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show stack traces.")]

_SHARED = {"crib": (CribOption, None), "json": (JsonOption, False), "debug": (DebugOption, False)}


def group(name: str, help: str) -> typer.Typer:
    """A group of commands that shows its list when it is named alone."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)


def command(app: typer.Typer, name: str) -> Callable[[Command], Command]:
    """Adds an async function as a command; its first parameter is the `Terminal`, what it returns the exit code."""

    def add(function: Command) -> Command:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        def run(ctx: typer.Context, **given: Any) -> None:
            shared = {name: given.pop(name) or (ctx.obj or {}).get(name) for name in _SHARED}
            terminal = Terminal(shared["crib"], json=bool(shared["json"]), debug=bool(shared["debug"]))
            raise typer.Exit(perform(terminal, lambda: function(terminal, **given)))

        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature([_CONTEXT, *(p.replace(kind=p.KEYWORD_ONLY) for p in own), *_OPTIONS])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        app.command(name)(run)
        return function

    return add


_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, (annotation, default) in _SHARED.items()
]


def perform(terminal: Terminal, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Runs a command to its exit code; whatever goes wrong is said in a line with the next step, never as a stack."""
    _trace(terminal)
    interrupt = _Interrupt()
    signal.signal(signal.SIGINT, interrupt)
    try:
        return asyncio.run(interrupt.watch(work)) or 0
    except (asyncio.CancelledError, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        logging.getLogger("toolcrib.cli").debug("the command failed", exc_info=error)
        problem = _explained(error)
        terminal.trouble(problem)
        return problem.exit_code


class _Interrupt:
    """Ctrl-C: the first asks the command to stop, the second ends the process at once, as a crash would.

    An exception thrown into the event loop is no way to stop: it may hit a tool's body, where it ends that call alone.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None

    async def watch(self, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int | None:
        """Does the work, in a task that can be stopped."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        return await work()

    def __call__(self, number: int, frame: object) -> None:
        """Takes the signal."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
            return
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # a bar may have hidden the cursor
        os._exit(INTERRUPTED)


def leave(code: int) -> None:
    """Ends the process, also where a tool's thread goes on that nothing can stop; its call has ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            pass
    if any(thread.name.startswith("toolcrib-tool") for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)


def _explained(error: Exception) -> Trouble:
    from toolcrib.errors import BadTool, Refused, StoreTooNew, StoreUnavailable, ToolcribError

    match error:
        case Trouble():
            return error
        case Refused():
            return Trouble(error.message, error.hint or "see `toolcrib --help`", exit_code=1, code=error.code)
        case BadTool():
            return Trouble(str(error), "mend the tool's definition and try again", code="bad_tool")
        case StoreTooNew():
            return Trouble(str(error), "update toolcrib, or name another store", exit_code=1, code="store")
        case StoreUnavailable():
            return Trouble(str(error), "check the store's URL in crib.yaml, or try again", exit_code=1, code="store")
        case ToolcribError():
            return Trouble(str(error), "see `toolcrib --help`", exit_code=1, code="error")
    said = f"{type(error).__name__}: {error}"
    return Trouble(
        f"Something unexpected happened: {said}",
        "run it again with --debug and report it",
        exit_code=1,
        code="internal",
    )


class _OneLine(logging.Handler):
    """What a tool raised, for the person at the terminal: the exception and its place, not its stack."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Says it on standard error."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {where(record.exc_info[1])}"
        self.terminal.say(f"{short(text, 300)} (--debug shows the stack)", "dim")


def where(error: BaseException) -> str:
    """An exception in one line, with the place that raised it."""
    said = short(f"{type(error).__name__}: {error}", 200)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return said if trace is None else f"{said} ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def _trace(terminal: Terminal) -> None:
    """The runtime's own trace: in full with `--debug`, else a line each, and nothing where only JSON is wanted."""
    logger = logging.getLogger("toolcrib")
    logger.propagate = False
    handler: logging.Handler = logging.NullHandler()
    if terminal.debug:
        handler = logging.StreamHandler()
    elif not terminal.json:
        handler = _OneLine(terminal)
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if terminal.debug else logging.WARNING)
