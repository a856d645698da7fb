"""What stands for a program of `tests/ready.py` where others start it, as `python -I -S` with the socket and its words.

It asks for a fork that has its streams, folder and environment, sends it the signals that it is sent, and ends as it
ends. It loads next to nothing, since that is its purpose.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which take longer to load than all of this
import _socket
import marshal
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)


def ask(place: str, words: Sequence[str], folder: str, env: dict[str, str], fds: Sequence[int]) -> _socket.socket:
    """Ask for a program, which lives as long as the connection; its id, and later its exit code, come as lines."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(place)
    request = marshal.dumps((list(words), folder, env))
    passed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
    connection.sendall(request)
    return connection


def line(connection: _socket.socket) -> int:
    """The number in the next line, or that of a program that was killed if there is none."""
    told = b""
    while not told.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            return -int(_signal.SIGKILL)
        told += byte
    return int(told)


def main() -> NoReturn:
    """Be the program."""
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to load than all of this
    connection = ask(sys.argv[1], sys.argv[2:], folder, dict(os.environ), (0, 1, 2))
    for stream in range(3):
        os.close(stream)
    process = line(connection)

    def pass_on(number: int, _: Any) -> None:
        os.kill(process, number)

    for number in PASSED_ON:
        _signal.signal(number, pass_on)
    code = line(connection)
    if code < 0:
        if -code in PASSED_ON:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
