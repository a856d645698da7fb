"""Machines of their own, as far as the network goes: namespaces joined by a bridge, whose cables can be pulled."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolcrib.testing.services import HOST, NatsServer, PostgresServer

PARTS = range(200, 250)
"""10.<part>.0.0/24: the first that nobody uses here."""


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs `ip`."""
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


def possible() -> str:
    """Why there can be no networks here; empty where there can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    name = f"tc-{secrets.token_hex(3)}"
    try:
        made = ip("netns", "add", name, check=False)
        if made.returncode != 0:
            return f"`ip netns` does not work here: {made.stderr.strip()}"
        pair = ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", check=False)
        ip("link", "del", f"{name}a", check=False)
        ip("netns", "del", name, check=False)
    except FileNotFoundError:
        return "there is no `ip` here"
    return "" if pair.returncode == 0 else f"there are no veth pairs here: {pair.stderr.strip()}"


class Network:
    """A bridge, at whose two addresses the servers listen, and machines that are plugged into it."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(3)
        self._machines: list[str] = []
        used = ip("-4", "-o", "addr").stdout
        self._part = next(part for part in PARTS if f" 10.{part}.0." not in used)
        self.address = f"10.{self._part}.0.1"
        self.second = f"10.{self._part}.0.254"
        self._bridge = f"tc{self._id}"

    def make(self) -> None:
        """Sets the bridge up."""
        ip("link", "add", self._bridge, "type", "bridge")
        for address in (self.address, self.second):
            ip("addr", "add", f"{address}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")

    def machine(self) -> str:
        """A new machine; its namespace."""
        number = len(self._machines) + 2
        name = f"tc{self._id}-{number}"
        self._machines.append(name)
        ip("netns", "add", name)
        ip("link", "add", self._cable(name), "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", self._cable(name), "master", self._bridge)
        ip("link", "set", self._cable(name), "up")
        ip("-n", name, "addr", "add", f"10.{self._part}.0.{number}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")
        return name

    def _cable(self, machine: str) -> str:
        return f"v{machine.removeprefix('tc')}"

    def cut(self, machine: str) -> None:
        """Pulls its cable: nobody is told, packets are gone."""
        ip("link", "set", self._cable(machine), "down")

    def lose(self, machine: str, address: str) -> None:
        """It no longer reaches that address, and all others as before."""
        ip("-n", machine, "route", "add", "blackhole", address)

    def find(self, machine: str, address: str) -> None:
        """It reaches it again."""
        ip("-n", machine, "route", "del", "blackhole", address)

    def heal(self, machine: str) -> None:
        """Puts it in again."""
        ip("link", "set", self._cable(machine), "up")

    def remove(self) -> None:
        """Leaves nothing behind."""
        for machine in self._machines:
            ip("link", "del", self._cable(machine), check=False)
            ip("netns", "del", machine, check=False)
        ip("link", "del", self._bridge, check=False)


@contextmanager
def network() -> Iterator[Network]:
    """One that is gone at the end."""
    made = Network()
    try:
        made.make()
        yield made
    finally:
        made.remove()


def _there(url: str, address: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.replace(HOST, address)).geturl()


class OpenPostgres(PostgresServer):
    """One that others may reach, with its password."""

    def __init__(self, address: str, **given: Any) -> None:
        super().__init__(**given)
        self._address = address

    @property
    def far(self) -> str:
        """Its URL for other machines."""
        return _there(self.url, self._address)

    def _command(self) -> list[str]:
        return [word.replace(f"={HOST}", f"={HOST},{self._address}") for word in super()._command()]

    def _make(self, data: Path) -> None:
        super()._make(data)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {self._address}/24 scram-sha-256\n")


class OpenNats(NatsServer):
    """One that others may reach."""

    def __init__(self, address: str, **given: Any) -> None:
        super().__init__(**given)
        self._address = address

    @property
    def far(self) -> str:
        """Its URL for other machines."""
        return _there(self.url, self._address)

    def _command(self) -> list[str]:
        words = super()._command()
        path = Path(words[-1])
        path.write_text(path.read_text().replace(f'"{HOST}:', '"0.0.0.0:'), "utf-8")
        return words
