"""A process that has loaded everything a node needs, with the shim before the system's calls, and forks the nodes.

A node is thus running within milliseconds of its start. All nodes end with this process, and it ends with the harness.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.shared import ROOT

LOADED = (
    "asyncpg",
    "docstring_parser",
    "jsonschema_rs",
    "nats",
    "pydantic.plugin._loader",
    "tests.faults.node",
    "toolcrib.policy.rule_policy",
    "toolcrib.store.postgres.store",
    "toolcrib.store.sqlite.store",
)
PR_SET_PDEATHSIG = 1


class Child:
    """A node that runs. Its handle stays its own when its number is taken by another process."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self.halted = False
        self._handle: int | None = None
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:
            pass  # it has ended already

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.send(0)

    def send(self, number: int) -> bool:
        """Sends it a signal; whether it was there."""
        if self._handle is None:
            return False
        try:
            signal.pidfd_send_signal(self._handle, number)
        except ProcessLookupError:
            os.close(self._handle)
            self._handle = None
            return False
        return True

    def kill(self) -> None:
        """Kills it, and returns when it is gone."""
        import select

        handle = self._handle
        if self.send(signal.SIGKILL) and handle is not None:
            select.select([handle], [], [], 60)
        while self.lives:
            os.sched_yield()

    def halt(self) -> None:
        """Stops it wherever it is; it does not know."""
        self.halted = self.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """It goes on as if nothing had happened."""
        self.send(signal.SIGCONT)
        self.halted = False


class Forkserver:
    """Starts nodes."""

    def __init__(self, shim: Path | None) -> None:
        self._socket, theirs = socket.socketpair()
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if shim is not None:
            env["LD_PRELOAD"] = str(shim)
        fd = theirs.fileno()
        words = [sys.executable, "-m", "tests.faults.forkserver", str(fd)]
        self._process = subprocess.Popen(
            words, env=env, cwd=ROOT, pass_fds=[fd], start_new_session=True, stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._lines = self._socket.makefile("r")

    def start(self, config: dict[str, Any], log: Path) -> Child:
        """Forks a node; it is not ready yet."""
        self._socket.sendall(f"{json.dumps({'config': config, 'log': str(log)})}\n".encode())
        pid = self._lines.readline()
        assert pid, "the forkserver has ended; its message stands above"
        return Child(int(pid), log)

    def close(self) -> None:
        """Ends it and all nodes."""
        self._lines.close()
        self._socket.close()
        self._process.wait()


def serve(fd: int) -> None:
    """Forks until nobody is left to ask."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets nodes that have ended
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=fd) as harness, harness.makefile("r") as lines:
        for line in lines:
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                break
            harness.sendall(f"{pid}\n".encode())
        else:
            return
    _become(request["config"], request["log"])


def _become(config: dict[str, Any], log: str) -> None:
    """What a node is from its start on."""
    system = ctypes.CDLL(None)
    system.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(handle, stream)
    shim = config["shim"]
    if shim is not None:
        paths = [shim[name].encode() for name in ("page", "below", "journal")]
        system.faults_attach(*paths, int(shim["sockets"]))
    from tests.faults.node import main

    main(config)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
