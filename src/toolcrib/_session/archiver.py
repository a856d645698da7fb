"""Sessions that nobody used for long go into files, and come back when somebody asks for one.

The order makes it safe to be killed at any moment: a file is written before its session leaves the store, in one
transaction with the note of where it is; and it is not deleted when the session comes back.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import re
import zlib
from collections.abc import AsyncIterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from toolcrib._session import archive
from toolcrib._session.archive_files import ArchiveFiles, FolderFiles, folder_of, name_of
from toolcrib.errors import Refused, StoreError
from toolcrib.store import Archive, SessionRow
from toolcrib.store.archive_index import ArchivedSession, ArchiveIndex

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort

AT_ONCE = 32
"""Sessions that are read and written as files at the same time."""

TOGETHER = 16
"""Sessions that leave the store in one transaction, for which other writers wait."""

log = logging.getLogger("toolcrib")


class UnusedFiles(NamedTuple):
    """Files of an archive that belong to no archived session, and their bytes."""

    names: list[str]
    size: int


class SessionArchiver:
    """Moves sessions of a crib into the files of an archive and back."""

    def __init__(self, crib: CribPort, files: ArchiveFiles) -> None:
        self._crib = crib
        self.files = files

    @property
    def index(self) -> ArchiveIndex:
        """The archived sessions of the store.

        Raises:
            StoreError: the store cannot note them.
        """
        index = self._crib.store.archive_index
        if index is None:
            raise StoreError(f"The store {self._crib.store.url} has no place to note what is in an archive")
        return index

    # Away

    async def put_away(self, before: float, now: float, *, dry_run: bool = False) -> int:
        """Moves sessions without an event since `before`, with nothing open, into files; how many."""
        count, past = 0, None
        while page := await self.index.idle(before, 2 * AT_ONCE, past):
            past = page[-1]
            count += len(page) if dry_run else await self._put_away(page, now)
        return count

    async def _put_away(self, rows: Sequence[SessionRow], now: float) -> int:
        limit = asyncio.Semaphore(AT_ONCE)

        async def written(row: SessionRow) -> ArchivedSession:
            async with limit:
                return await self._written(row, now)

        entries, count = await asyncio.gather(*map(written, rows)), 0
        for first in range(0, len(entries), TOGETHER):
            gone = await self.index.put_away(entries[first : first + TOGETHER])
            count += len(gone)
            for id in gone:
                self._crib._let_go(id)
        return count

    async def _written(self, row: SessionRow, now: float) -> ArchivedSession:
        """The note of a session whose file is written."""
        packed, digest = BytesIO(), hashlib.sha256()
        with gzip.GzipFile("", "wb", 6, packed, 0) as lines:
            # By the time of its last use, so that the same session makes the same file again.
            async for line in archive.export(self._crib.store, row, row.updated_at):
                digest.update(line)
                await asyncio.to_thread(lines.write, line) if len(line) > 100_000 else lines.write(line)
        data = packed.getvalue()
        entry = ArchivedSession(row, now, digest.hexdigest(), len(data))
        await self.files.put(name_of(row.id, entry.sha256), data)
        return entry

    # Back

    async def bring_back(self, id: str) -> bool:
        """Makes an archived session one of the store again; True if there may be one of that id now.

        Raises:
            StoreUnavailable: the archive cannot be read.
            StoreError: its file is gone or damaged.
        """
        entry = await self.index.find(id)
        if entry is None:
            return False
        whole = await self._read(entry)
        if await self.index.bring_back(entry, whole):
            log.info("session %s came back from the archive", id)
        return True

    async def _read(self, entry: ArchivedSession) -> Archive:
        """An archived session from its file, which is checked."""
        name = name_of(entry.session.id, entry.sha256)
        data = await self.files.get(name)
        if data is None:
            raise StoreError(f"Session '{entry.session.id}' is not in the archive {self.files.url}: {name} is gone")
        try:
            return await asyncio.to_thread(_whole, entry, data)
        except (OSError, EOFError, zlib.error, Refused, ValueError) as error:
            where = f"{name} in the archive {self.files.url}"
            raise StoreError(f"Session '{entry.session.id}' cannot be read from {where}: {error}") from None

    # Looking after it

    async def every(self, owner: str | None = None) -> AsyncIterator[ArchivedSession]:
        """All archived sessions, by their ids."""
        last = ""
        while page := await self.index.page(owner, last):
            for entry in page:
                yield entry
            last = page[-1].session.id

    async def problem(self, entry: ArchivedSession) -> str | None:
        """What is wrong with the file of an archived session.

        Raises:
            StoreUnavailable: the archive cannot be read.
        """
        try:
            await self._read(entry)
        except StoreError as error:
            if type(error) is not StoreError:  # the archive is away, which says nothing of the file
                raise
            return str(error)
        return None

    async def unused(self) -> UnusedFiles:
        """Files that no archived session needs now; a backup of the store may need them."""
        needed = {name_of(entry.session.id, entry.sha256) async for entry in self.every()}
        files = [file async for file in self.files.files() if file.name not in needed]
        return UnusedFiles([file.name for file in files], sum(file.size for file in files))

    async def forget(self, id: str) -> None:
        """Deletes every file of a session, which was deleted."""
        for file in [file async for file in self.files.files(folder_of(id))]:
            await self.files.delete(file.name)


def open_archive(url: str) -> ArchiveFiles:
    """The archive that a URL names: `s3://bucket/prefix` or `file:///folder`.

    Raises:
        StoreError: it names none.
    """
    if re.fullmatch(r"s3://[A-Za-z0-9][A-Za-z0-9.-]+(/\S*)?", url):
        from toolcrib._session.archive_bucket import BucketFiles

        return BucketFiles(url)
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/") and parts.path != "/":
        return FolderFiles(url, Path(unquote(parts.path)))
    raise StoreError(f"Unknown archive '{url}'. Use s3://bucket/prefix or file:///folder")


def archiver_of(crib: CribPort, url: str | None) -> SessionArchiver | None:
    """Return what moves sessions of a crib into the archive of that URL, and has its store ask for them.

    Raises:
        StoreError: it names none, or the store cannot note what is there.
    """
    if url is None:
        return None
    archiver = SessionArchiver(crib, open_archive(url))
    _ = archiver.index
    crib.store.recall = archiver.bring_back
    return archiver


def _whole(entry: ArchivedSession, data: bytes) -> Archive:
    text = gzip.decompress(data)
    if hashlib.sha256(text).hexdigest() != entry.sha256:
        raise ValueError("its checksum does not fit")
    contents = archive.read(text.splitlines(keepends=True))
    rows = [call.row() for call in archive.folded(entry.session.id, contents.events).values()]
    return Archive(entry.session, contents.events, rows, contents.cursors, contents.kept)
