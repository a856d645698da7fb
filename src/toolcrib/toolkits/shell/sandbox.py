"""Run as a program of its own: makes a place in which nothing is but a folder and the system, and runs a program there.

    python -I -S sandbox.py STATUS_FD ORDER_FD

The place has its own users, mounts, processes, host name and, unless told otherwise, network. Its first process ends
when the program does, and the kernel then ends whatever the program left behind; when this process is killed, all of it
is gone as well. The one user of the place is the unprivileged one that the order names, also where root starts this:
root is not in the place, so that nothing there can become it, or leave a file behind that is root's. The order is JSON
on a descriptor, since others can see arguments; `s...;` on the status descriptor says that the place was made and what
else protects it, `m` that the program is not there. Nothing of Toolcrib is imported: this has to start fast, and with
nothing in its environment.
"""

# pathlib takes longer to load than all the rest.
# ruff: noqa: PTH100, PTH102, PTH103, PTH110, PTH112, PTH114, PTH115, PTH120, PTH211

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import confinement  # type: ignore[import-not-found]  # isolated Python has only what was put on its path above

_USER, _MOUNT, _PROCESS, _IPC, _NAME, _NETWORK = 0x10000000, 0x20000, 0x20000000, 0x08000000, 0x04000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE, _NOSUID, _NODEV, _NOEXEC = 4096, 16384, 1 << 18, 2, 4, 8
_READ_ONLY_ATTR, _NOSUID_ATTR, _NODEV_ATTR = 1, 2, 4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_DEATH, _NO_NEW, _DROP = 1, 38, 24
_LAST = 63
_BASE = "/tmp"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "passwd", "group", "nsswitch.conf")
_ETC_NETWORK = ("resolv.conf", "hosts", "ssl", "ca-certificates", "pki", "services", "protocols")
_DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _do(name: str, *args: Any) -> None:
    values = [arg.encode() if isinstance(arg, str) else arg for arg in args]
    if getattr(_libc, name)(*values) < 0:
        raise OSError(ctypes.get_errno(), name)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    _do("mount", source, target, kind, ctypes.c_ulong(flags), data)


def _set(target: str, attributes: int, flags: int = _AT_RECURSIVE) -> None:
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    _do(
        "syscall",
        ctypes.c_long(_MOUNT_SETATTR),
        _AT_FDCWD,
        target,
        flags,
        ctypes.byref(wanted),
        ctypes.c_size_t(32),
    )


def _bind(source: str, target: str, attributes: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, target, None, _BIND | _RECURSIVE)
    _set(target, attributes)


def main() -> None:
    """Makes the place and waits for its end."""
    status, order = map(int, sys.argv[1:3])
    os.set_inheritable(status, False)
    with os.fdopen(order, "rb") as stream:
        settings = json.loads(stream.read())
    settings["privileged"] = os.geteuid() == 0
    if not settings["user"]:
        raise OSError("no program runs as root")
    go, mapped = os.pipe(), os.pipe()
    writer = os.fork()
    if not writer:
        os.read(go[0], 1)
        _map_users(os.getppid(), settings)
        os.write(mapped[1], b"m")
        os._exit(0)
    flags = _USER | _MOUNT | _PROCESS | _IPC | _NAME | (0 if settings["network"] else _NETWORK)
    _do("unshare", flags)
    os.write(go[1], b"g")
    os.close(mapped[1])
    if os.read(mapped[0], 1) != b"m":
        raise OSError("the users could not be mapped")
    os.waitpid(writer, 0)
    _do("prctl", _DEATH, signal.SIGKILL)
    begin = os.pipe()
    first = os.fork()
    if not first:
        _do("prctl", _DEATH, signal.SIGKILL)
        os.close(begin[1])
        if os.read(begin[0], 1) != b"b":  # whoever waited for us is gone already
            os._exit(1)
        _first(status, settings)
    os.close(status)
    os.write(begin[1], b"b")
    os._exit(_code(os.waitpid(first, 0)[1]))


def _map_users(process: int, data: dict[str, Any]) -> None:
    """Lets the place have one user, and nobody else."""
    if not data["privileged"]:
        _put(f"/proc/{process}/setgroups", "deny")
    _put(f"/proc/{process}/gid_map", f"{data['group']} {data['group']} 1")
    _put(f"/proc/{process}/uid_map", f"{data['user']} {data['user']} 1")


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
    os.close(fd)


def _first(status: int, data: dict[str, Any]) -> None:
    """The first process of the place: sets it up, starts the program, and lets nothing outlive it."""
    try:
        opened = _opened(data)
    except PermissionError:  # whoever starts this may not get there, and the user of the place may
        opened = None
    if data["privileged"]:
        os.setgroups([])
        os.setresgid(data["group"], data["group"], data["group"])
        os.setresuid(data["user"], data["user"], data["user"])
    _furnish(data, *(opened or _opened(data)))
    program = os.fork()
    if not program:
        _become(status, data)
    os.close(status)
    while True:
        ended, how = os.wait()
        if ended == program:
            os._exit(_code(how))


def _opened(data: dict[str, Any]) -> tuple[int, list[tuple[str, int]]]:
    """The folder and what else is visible, which will be hidden by what is mounted over them."""
    held = os.open(data["root"], os.O_PATH | os.O_DIRECTORY)
    return held, [(path, os.open(path, os.O_PATH)) for path in data["visible"]]


def _furnish(data: dict[str, Any], held: int, seen: list[tuple[str, int]]) -> None:
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", _BASE, "tmpfs", _NOSUID | _NODEV, "size=4m,mode=755")
    for path in _SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), _BASE + path)
        elif os.path.isdir(path):
            _bind(path, _BASE + path, _READ_ONLY_ATTR | _NOSUID_ATTR | _NODEV_ATTR)
    os.mkdir(f"{_BASE}/etc")
    for name in (*_ETC, *(_ETC_NETWORK if data["network"] else ())):
        if os.path.exists(f"/etc/{name}"):
            _bind(f"/etc/{name}", f"{_BASE}/etc/{name}", _READ_ONLY_ATTR | _NOSUID_ATTR | _NODEV_ATTR)
    _devices()
    _fresh("/tmp")
    for path, fd in seen:
        os.makedirs(os.path.dirname(_BASE + path), exist_ok=True)
        _bind(f"/proc/self/fd/{fd}", _BASE + path, _READ_ONLY_ATTR | _NOSUID_ATTR | _NODEV_ATTR)
    _bind(f"/proc/self/fd/{held}", _BASE + data["root"], _NOSUID_ATTR | _NODEV_ATTR)
    os.makedirs(f"{_BASE}/proc", exist_ok=True)
    try:
        _mount("proc", f"{_BASE}/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
        _put(f"{_BASE}/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass  # a container that hides a part of it lets nobody see it anew; most programs do without
    _set(_BASE, _READ_ONLY_ATTR, 0)
    os.chdir(_BASE)
    _do("pivot_root", ".", ".")
    _do("umount2", ".", 2)


def _devices() -> None:
    os.mkdir(f"{_BASE}/dev")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{_BASE}/dev/{name}", _NOSUID_ATTR)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"{_BASE}/dev/{name}")
    _fresh("/dev/shm")


def _fresh(path: str) -> None:
    os.makedirs(_BASE + path, exist_ok=True)
    _mount("tmpfs", _BASE + path, "tmpfs", _NOSUID | _NODEV, "size=64m,mode=1777")


def _become(status: int, data: dict[str, Any]) -> None:
    """Gives up all rights and becomes the program."""
    for name, most in data["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    os.chdir(data["cwd"])
    _give_up()
    active = "l" if confinement.keep_writes_within([data["root"], "/tmp", "/dev/shm"]) else ""
    active += "c" if confinement.filter_system_calls() else ""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    os.write(status, f"s{active};".encode())
    try:
        os.execvpe(data["argv"][0], data["argv"], data["env"])
    except OSError as error:
        os.write(status, f"m{error.strerror}".encode())
        os._exit(127)


def _give_up() -> None:
    """Gives up every capability, for good."""
    for capability in range(_LAST + 1):
        _libc.prctl(_DROP, capability, 0, 0, 0)  # those that this kernel does not know are not there
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _do("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    _do("prctl", _NO_NEW, 1, 0, 0, 0)


def _code(how: int) -> int:
    return 128 + os.WTERMSIG(how) if os.WIFSIGNALED(how) else os.WEXITSTATUS(how)


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:  # noqa: BLE001 - whoever started this reads it on the status descriptor
        os.write(int(sys.argv[1]), f"e{error}".encode()[:200])
        os._exit(1)
