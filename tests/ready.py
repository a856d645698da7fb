"""A process that has loaded most of what programs need, and forks for each: to load it anew takes most of their time.

A program is still a process of its own, with its own folder, environment and streams. One that a test talks to while it
runs, or that is about its start, is started from nothing.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen

LOADED = (
    "docstring_parser",
    "jsonschema_rs",
    "pydantic.plugin._loader",
    "rich.console",
    "rich.table",
    "toolcrib.agent",
    "toolcrib.cli.app",
    "toolcrib.cli.approvals",
    "toolcrib.cli.audit",
    "toolcrib.cli.calls",
    "toolcrib.cli.sessions",
    "toolcrib.cli.tools",
    "toolcrib.crib",
    "toolcrib.cli.config.loader",
    "toolcrib.policy.rule_policy",
    "toolcrib.sandbox.javascript",
    "toolcrib.definitions.source",
    "toolcrib.sources.functions",
    "toolcrib.store.sqlite.store",
    "typer._adapters",
)
SOON_S = 120


def run(
    module: str, *words: str, folder: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = ""
) -> CompletedProcess[str]:
    """Runs `python -W error -m module` to its end."""
    asked = {"module": module, "words": words, "folder": str(folder or Path.cwd()), "env": dict(env or os.environ)}
    loaded = _loaded()
    try:
        code, out, err = loaded.run(json.dumps(asked), stdin)
    except BaseException:  # it may be at work still
        _loaded.cache_clear()
        loaded.end()
        raise
    return CompletedProcess([module, *words], code, out, err)


@functools.cache
def _loaded() -> "_Loaded":
    return _Loaded()


class _Loaded:
    """The process, which ends with ours at the latest."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(SOON_S)
        argv, fd = [sys.executable, "-W", "error", __file__], theirs.fileno()
        # Its streams are of the kind that programs get, since Python looks at them when it starts.
        self._process = Popen(
            [*argv, str(fd)], stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=[fd], start_new_session=True
        )
        theirs.close()
        atexit.register(self.end)

    def run(self, asked: str, stdin: str) -> tuple[int, str, str]:
        (told, tell), (out, out_end), (err, err_end) = os.pipe(), os.pipe(), os.pipe()
        os.set_blocking(tell, False)
        assert os.write(tell, stdin.encode()) == len(stdin.encode()), "a pipe does not hold so much"
        socket.send_fds(self._socket, [b"!"], [told, out_end, err_end])
        self._socket.sendall(f"{asked}\n".encode())
        for fd in (tell, told, out_end, err_end):
            os.close(fd)
        written = _read(out, err)
        code = self._socket.recv(16)
        assert code, "it cannot be loaded: `python tests/ready.py` says why"
        return int(code), written[out], written[err]

    def end(self) -> None:
        atexit.unregister(self.end)
        with self._socket, self._process:
            os.killpg(self._process.pid, signal.SIGKILL)


def _read(*streams: int) -> dict[int, str]:
    """What is written to them until nobody holds their other ends."""
    written, left = dict.fromkeys(streams, b""), list(streams)
    while left:
        ready, _, _ = select.select(left, [], [], SOON_S)
        assert ready, f"it does not end: {written}"
        for stream in ready:
            read = os.read(stream, 1 << 16)
            written[stream] += read
            if not read:
                left.remove(stream)
                os.close(stream)
    return {stream: text.decode() for stream, text in written.items()}


def main() -> None:
    """Takes programs, one after the other, until nobody is left to give them."""
    del sys.path[0]  # the folder of this file
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as given, given.makefile("r") as lines:
        while True:
            _, fds, _, _ = socket.recv_fds(given, 1, 3)
            if not fds:
                return
            asked = lines.readline()
            process = os.fork()
            if not process:
                break
            for fd in fds:
                os.close(fd)
            given.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    _become(fds, **json.loads(asked))


def _become(fds: Sequence[int], module: str, words: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
    """What `python -m module` is from its start on."""
    for stream, fd in enumerate(fds):
        os.dup2(fd, stream)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.path.insert(0, str(Path.cwd()))
    sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
