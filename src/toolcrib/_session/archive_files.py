"""The files of an archive: in a bucket that speaks the S3 protocol, or in a folder.

Each is written once, under a name that its content decides, and never changed. So a file that is there already is the
same, a writer that was killed leaves nothing that harms, and a backup of the store finds the files that it names.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from toolcrib.errors import StoreUnavailable
from toolcrib.store.backup import synced
from toolcrib.store.private_files import create_private

ENDING = ".jsonl.gz"


class ArchiveFile(NamedTuple):
    """A file of an archive: its name and how many bytes it has."""

    name: str
    size: int


class ArchiveFiles(ABC):
    """Where files of sessions are; `url` names it."""

    url: str

    @abstractmethod
    async def put(self, name: str, data: bytes) -> None:
        """Writes a file, durably; one that is there stays as it is.

        Raises:
            StoreUnavailable: it cannot be written.
        """

    @abstractmethod
    async def get(self, name: str) -> bytes | None:
        """The content of a file, if it is there.

        Raises:
            StoreUnavailable: it cannot be read.
        """

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Deletes a file, if it is there.

        Raises:
            StoreUnavailable: it cannot be deleted.
        """

    @abstractmethod
    def files(self, folder: str = "") -> AsyncIterator[ArchiveFile]:
        """The files in a folder, or all.

        Raises:
            StoreUnavailable: they cannot be listed.
        """


def folder_of(session: str) -> str:
    """Return the folder of a session: a digest, so that any id is a name and no part of the archive is a busy one."""
    digest = hashlib.sha256(session.encode()).hexdigest()[:32]
    return f"{digest[:2]}/{digest}"


def name_of(session: str, sha256: str) -> str:
    """Return the name of the file with that content of a session."""
    return f"{folder_of(session)}/{sha256}{ENDING}"


class FolderFiles(ArchiveFiles):
    """Files in a folder, which only their owner may read."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder

    async def put(self, name: str, data: bytes) -> None:
        """Appears under its name when all of it is on the disk."""
        with self._told("written to"):
            await asyncio.to_thread(self._put, self._folder / name, data)

    def _put(self, path: Path, data: bytes) -> None:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        try:
            with create_private(part) as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent, self._folder):  # each may be new
            synced(folder)

    async def get(self, name: str) -> bytes | None:
        """From the disk."""
        with self._told("read"):
            try:
                return await asyncio.to_thread((self._folder / name).read_bytes)
            except FileNotFoundError:
                return None

    async def delete(self, name: str) -> None:
        """From the disk."""
        with self._told("written to"):
            await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)

    async def files(self, folder: str = "") -> AsyncIterator[ArchiveFile]:
        """From the disk."""
        with self._told("read"):
            paths = await asyncio.to_thread(lambda: sorted((self._folder / folder).rglob(f"*{ENDING}")))
            for path in paths:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    yield ArchiveFile(path.relative_to(self._folder).as_posix(), path.stat().st_size)

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise StoreUnavailable(f"The archive {self._folder} cannot be {done}: {why}") from None
