"""A real chain for tests and development: anvil, from the npm package that holds its program, without Node.

    with anvil() as chain:
        print(chain.url, chain.accounts[0])

It listens on 127.0.0.1 alone, with an empty environment, and starts with accounts that hold 10,000 ETH each. The
package is fetched once by `npm pack`, compared with the hash that stands here, and kept in a cache folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.testing.services import HOST, Service, ServiceError

FETCH_S = 180.0
ACCOUNTS = (
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
)
"""The first of the accounts that anvil always makes; it signs for them itself."""


class Package(NamedTuple):
    """A package of npm in one version, with the SHA-512 of its archive; without one, the first that came counts."""

    name: str
    version: str
    sha512: str = ""


VERSION = "1.7.1"
SYSTEMS = {
    ("Linux", "x86_64"): "linux-amd64",
    ("Linux", "aarch64"): "linux-arm64",
    ("Darwin", "arm64"): "darwin-arm64",
    ("Darwin", "x86_64"): "darwin-amd64",
    ("Windows", "AMD64"): "win32-amd64",
}
PINNED = {
    "anvil-linux-amd64": "+XmShybEaxfCrr0OUUZwYEy2OnYZt5pHH9TzBtLv3+VrK0O/ANuNSVEahqNhKHlgX7GRJ59383ofNhxkRWIYTg==",
    "forge-linux-amd64": "/HQddyTanVOJKgvilmZrf8VOf7mhvwrWb59W73w5W5flX7b6zNh9CR6hKZzJwiRRi5Sxk/JOFEYIeKsQx7Teqg==",
}
"""Hashes that are known beforehand."""


def program(name: str) -> Path:
    """`anvil` or `forge` for this system, from the cache or from npm.

    Raises:
        ServiceError: there is none for this system, or it cannot be fetched.
    """
    system = SYSTEMS.get((platform.system(), platform.machine()))
    if system is None:
        raise ServiceError(f"There is no {name} for {platform.system()} on {platform.machine()}")
    ending = ".exe" if system.startswith("win32") else ""
    package = Package(f"@foundry-rs/{name}-{system}", VERSION, PINNED.get(f"{name}-{system}", ""))
    return fetched(package, f"package/bin/{name}{ending}")


def fetched(package: Package, member: str) -> Path:
    """A file of a package, from the cache or from npm.

    Raises:
        ServiceError: npm is not here or cannot fetch it, or it is not what its hash says.
    """
    mark = hashlib.sha256(f"{package} {member}".encode()).hexdigest()[:16]
    kept = _cache() / f"{mark}-{Path(member).name}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = _unpacked(_packed(package, Path(folder)), member, Path(folder) / "file")
            made.chmod(0o755)
            made.rename(kept)  # of two that fetch it at once, both leave the same
    return kept


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "toolcrib" / "npm"


def _packed(package: Package, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise ServiceError(f"npm is not here, which fetches {package.name}")
    words = [npm, "pack", "--silent", "--pack-destination", str(folder), f"{package.name}@{package.version}"]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise ServiceError(f"npm did not fetch {package.name} within {FETCH_S:g} s") from None
    archive = next(folder.glob("*.tgz"), None)
    if done.returncode != 0 or archive is None:
        raise ServiceError(f"npm cannot fetch {package.name}@{package.version} here")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != (package.sha512 or _locked(package, digest)):
        raise ServiceError(f"{package.name}@{package.version} is not what its hash says")
    return archive


def _locked(package: Package, digest: str) -> str:
    """The hash of the first download, which is written down then."""
    lock, key = _cache() / "lock.json", f"{package.name}@{package.version}"
    known: dict[str, str] = json.loads(lock.read_text("utf-8")) if lock.exists() else {}
    if key not in known:
        known[key] = digest
        part = lock.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(known, indent=1), "utf-8")
        part.replace(lock)
    return known[key]


def _unpacked(archive: Path, member: str, target: Path) -> Path:
    with tarfile.open(archive) as packed:
        source = packed.extractfile(member)
        if source is None:
            raise ServiceError(f"{archive.name} has no {member}")
        with source, target.open("wb") as out:
            shutil.copyfileobj(source, out)
    return target


class Anvil(Service):
    """A chain of our own that mines as transactions come."""

    name = "anvil"
    accounts = ACCOUNTS

    def __init__(
        self, folder: Path | None = None, *, port: int | None = None, chain_id: int = 31337, ipc: bool = False
    ) -> None:
        super().__init__(folder, port=port)
        self.chain_id = chain_id
        self.ipc = self.folder / "anvil.ipc" if ipc else None
        self._heard = 0

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{HOST}:{self.port}"

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            ServiceError: it refused.
        """
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.url, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = json.load(reply)
        if "error" in answer:
            raise ServiceError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def _command(self) -> list[str]:
        path = str(program("anvil"))
        self._heard = self.log.count(self._ready)
        words = ["--host", HOST, "--port", str(self.port), "--no-cors", "--chain-id", str(self.chain_id)]
        words += [] if self.ipc is None else ["--ipc", str(self.ipc)]
        return ["/usr/bin/env", "-i", f"HOME={self.folder}", path, *words]

    @property
    def _ready(self) -> str:
        return f"Listening on {HOST}:{self.port}"

    def _answers(self) -> bool:
        return self.log.count(self._ready) > self._heard


def anvil(chain_id: int = 31337, *, ipc: bool = False) -> Anvil:
    """A chain of its own, to be used with `with`; with `ipc` it also listens on a socket in its folder, `chain.ipc`.

    Raises:
        ServiceError: it cannot be fetched, or does not start.
    """
    return Anvil(chain_id=chain_id, ipc=ipc)
