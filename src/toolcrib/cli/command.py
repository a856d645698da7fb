"""What all commands share: the options `--crib`, `--json` and `--debug`, how they are run, and how they fail."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from toolcrib.cli.terminal import Choice, CommandError, Terminal, short

FAILED = 1
WAITING = 3
INTERRUPTED = 130
_OURS = Path(__file__).parents[1]
INSTALL = "install it where toolcrib is installed, and try again"

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

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", envvar="TOOLCRIB_STORE", help="A store to take instead of the crib's own."),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="URL", envvar="TOOLCRIB_ENGINE", help="The engine of a cluster, such as nats://host."
    ),
]

_SHARED = {
    "crib": (CribOption, None),
    "store": (StoreOption, None),
    "engine": (EngineOption, None),
    "json": (JsonOption, False),
    "debug": (DebugOption, False),
}


def group(name: str, help: str) -> typer.Typer:
    """A group of commands that shows its list when it is named alone."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)


def command(app: typer.Typer, name: str, *, serves: bool = False, speaks: bool = False) -> Callable[[Command], Command]:
    """Adds an async function as a command; its first parameter is the `Terminal`, what it returns the exit code.

    A parameter of a dataclass stands for its fields, each of which is an option.
    One that `serves` runs for long, on the quickest event loop that is installed. One that `speaks` a protocol on
    standard output looks after that itself.
    """

    def add(function: Command) -> Command:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        own = [option for parameter in parameters for option in _options_of(parameter)]

        def run(ctx: typer.Context, **options: Any) -> None:
            shared = {name: options.pop(name) or (ctx.obj or {}).get(name) for name in _SHARED}
            choice = Choice(*(None if shared[n] is None else str(shared[n]) for n in ("crib", "store", "engine")))
            terminal = Terminal(choice, json=bool(shared["json"]), debug=bool(shared["debug"]))
            if terminal.json and not speaks:
                terminal.keep_output()
            try:
                code = perform(terminal, lambda: function(terminal, **_gathered(parameters, options)), serves=serves)
            finally:
                terminal.give_output_back()
            raise typer.Exit(code)

        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature([_CONTEXT, *(p.replace(kind=p.KEYWORD_ONLY) for p in own), *_OPTIONS])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        app.command(name)(run)
        return function

    return add


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the options that a parameter of a command stands for: itself, or the fields of its dataclass."""
    options = parameter.annotation
    if not (isinstance(options, type) and is_dataclass(options)):
        return [parameter]
    return list(inspect.signature(options, eval_str=True).parameters.values())


def _gathered(parameters: Iterable[inspect.Parameter], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command, with the options of each dataclass put together."""
    arguments = dict(options)
    for parameter in parameters:
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            fields = {option.name: arguments.pop(option.name) for option in _options_of(parameter)}
            arguments[parameter.name] = parameter.annotation(**fields)
    return arguments


_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, (annotation, default) in _SHARED.items()
]


def perform(terminal: Terminal, work: Callable[[], Coroutine[Any, Any, int | None]], *, serves: bool = False) -> int:
    """Run a command and return its exit code; an error is one line with the next step, never a stack trace."""
    _trace(terminal)
    gc.freeze()  # what is loaded by now stays
    gc.enable()
    interrupt = _Interrupt()
    signal.signal(signal.SIGINT, interrupt)
    try:
        with asyncio.Runner(loop_factory=_quickest() if serves else None) as runner:
            return runner.run(interrupt.watch(work)) or 0
    except (asyncio.CancelledError, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), terminal.results.fileno())
        return 0
    except Exception as error:
        logging.getLogger("toolcrib.cli").debug("the command failed", exc_info=error)
        problem = _explained(error)
        terminal.trouble(problem)
        return problem.exit_code


def _quickest() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


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
        leave_at_once()


def leave_at_once() -> NoReturn:
    """Ends the process as a crash would; what was going on is taken up when its session is opened again."""
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # a bar may have hidden the cursor
    os._exit(INTERRUPTED)


def leave(code: int) -> None:
    """Ends the process, also where a tool's thread goes on that nothing can stop; its call has ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read it has left
            pass
    if any(thread.name.startswith("toolcrib-tool") for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)


def _explained(error: Exception) -> CommandError:
    from toolcrib.errors import BadTool, Refused, StoreTooNew, StoreUnavailable, ToolcribError

    match error:
        case CommandError():
            return error
        case Refused():
            return CommandError(error.message, error.hint or "see `toolcrib --help`", exit_code=1, code=error.code)
        case BadTool():
            return CommandError(str(error), "mend the tool's definition and try again", code="bad_tool")
        case StoreTooNew():
            return CommandError(str(error), "update toolcrib, or name another store", exit_code=1, code="store")
        case StoreUnavailable():
            advice = _next(error, "check the store's URL in crib.yaml, or try again")
            return CommandError(str(error), advice, exit_code=1, code="store")
        case ToolcribError():
            return CommandError(str(error), _next(error, "see `toolcrib --help`"), exit_code=1, code="error")
    detail = f"{type(error).__name__}: {error}"
    return CommandError(
        f"Something unexpected happened: {detail}",
        "run it again with --debug and report it",
        exit_code=1,
        code="internal",
    )


def _next(error: Exception, usual: str) -> str:
    """Return the next step; a message that says what to install needs none."""
    return INSTALL if "pip install" in str(error) else usual


class _OneLine(logging.Handler):
    """What a tool raised, for the person at the terminal: the exception and its place, not its stack."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Says it on standard error."""
        text = short(record.getMessage(), 300)
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{short(f'{text}: {where(record.exc_info[1])}', 300)} (--debug shows the stack)"
        self.terminal.say(text, "dim")


def where(error: BaseException) -> str:
    """Describe an exception in one line with the place that raised it; for one of ours, the code that called us."""
    from toolcrib.errors import ToolcribError

    summary = short(f"{type(error).__name__}: {error}", 200)
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        return summary if error.filename is None else f"SyntaxError: {error.msg} ({error.filename}:{error.lineno})"
    if isinstance(error, ToolcribError):
        theirs = [one for one in places if not one[0].startswith("<") and not Path(one[0]).is_relative_to(_OURS)]
        places = theirs or places
    return f"{summary} ({places[-1][0]}:{places[-1][1]})" if places else summary


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
