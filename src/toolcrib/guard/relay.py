"""Hands a hook to the resident process of its crib, with nothing imported but the standard library.

Where there is none, or it does not answer, the hook is judged in this process. The folder of the sockets must be the
user's own and closed to others, else it is not used.
"""

from __future__ import annotations

import _socket  # `socket` makes enums of all its constants, which takes a third of the time of a hook
import os
import stat
import sys
import zlib

FOLDER = "TOOLCRIB_GUARD_FOLDER"
"""The variable that names the folder of the sockets; without it, one in the runtime folder of the user."""

RESIDENT = "TOOLCRIB_GUARD_RESIDENT"
"""The variable that turns the resident process off: 0."""

MOST = 16 * 1024 * 1024
CONNECT_S = 1.0
ANSWER_S = 20.0
OPTIONS = ("--crib", "--ask", "--wait", "--event")


class HookArguments:
    """The words after `toolcrib guard`, as far as they can be read without a library."""

    __slots__ = ("client", "options")

    def __init__(self, client: str, options: dict[str, str]) -> None:
        self.client, self.options = client, options

    @property
    def crib(self) -> str | None:
        """The file that was named."""
        return self.options.get("--crib") or os.environ.get("TOOLCRIB_CRIB") or None

    @property
    def wait(self) -> float:
        """For how long an answer of a person is waited for."""
        try:
            return max(float(self.options.get("--wait", "0")), 0.0)
        except ValueError:
            return 0.0


def parse(words: list[str]) -> HookArguments | None:
    """Return the words of a hook, or None for what the command itself has to look at."""
    client, options, rest = "", {}, iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in OPTIONS:
            option = value if equals else next(rest, None)
            if option is None:
                return None
            options[name] = option
        elif word.startswith("-") or client:
            return None
        else:
            client = word
    return HookArguments(client, options) if client else None


def folder() -> str:
    """Return the folder of the sockets, which may not be there yet."""
    named = os.environ.get(FOLDER)
    if named:
        return named
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/toolcrib" if runtime else f"/tmp/toolcrib-{os.getuid()}"


def is_private(path: str) -> bool:
    """True if a folder is the user's own, no link, and closed to everybody else."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def socket_path(crib: str, version: str) -> str:
    """Return the socket of a crib: one for each file, version and Python.

    A checksum is enough, and loads no library: whoever answers there answers for the file of its own crib alone.
    """
    text = "\0".join((os.path.realpath(crib), sys.executable))
    return f"{folder()}/guard-{version}-{zlib.crc32(os.fsencode(text)):08x}.sock"


def relay(words: list[str]) -> int | None:
    """Have the resident process answer the hook on standard input; None where it is to be judged here.

    What was read of standard input is put back for who judges it.
    """
    hook = parse(words)
    if hook is None or hook.crib is None or os.environ.get(RESIDENT) == "0" or not hasattr(_socket, "AF_UNIX"):
        return None
    if not is_private(folder()):
        return None
    from toolcrib import __version__

    connection = _connected(socket_path(hook.crib, __version__))
    if connection is None:
        return None
    payload = sys.stdin.buffer.read()
    try:
        connection.settimeout(ANSWER_S + hook.wait)
        head = "\0".join((os.path.realpath(hook.crib), *words)).encode("utf-8", "surrogateescape")
        answer = _exchange(connection, head, payload)
    finally:
        connection.close()
    if answer is None:
        put_back(payload)
        return None
    code, output, error = answer
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    sys.stderr.buffer.write(error)
    sys.stderr.flush()
    return code


def put_back(payload: bytes) -> None:
    """Let standard input begin again with what was read of it."""
    import io

    sys.stdin = io.TextIOWrapper(io.BytesIO(payload), encoding="utf-8", errors="surrogateescape")


def _connected(path: str) -> _socket.socket | None:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(CONNECT_S)
    try:
        connection.connect(path)
    except OSError:  # there is no resident process
        connection.close()
        return None
    return connection


def _exchange(connection: _socket.socket, *parts: bytes) -> tuple[int, bytes, bytes] | None:
    if any(len(part) > MOST for part in parts):
        return None
    try:
        for part in parts:
            connection.sendall(len(part).to_bytes(4, "big") + part)
        code = _received(connection, 1)[0]
        output, error = (_received(connection, int.from_bytes(_received(connection, 4), "big")) for _ in range(2))
    except (OSError, EOFError):
        return None
    return code, output, error


def _received(connection: _socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = connection.recv(min(left, 65536))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
