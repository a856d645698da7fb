"""An archive in a bucket of whatever speaks the S3 protocol."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from toolcrib._session.archive_files import ENDING, ArchiveFile, ArchiveFiles
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.extras import install

try:
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
    from obstore.store import S3Store
except ImportError:
    raise StoreError(f"An archive in a bucket needs obstore: {install('archive')}") from None

_NONE = (FileNotFoundError, NotFoundError)


class BucketFiles(ArchiveFiles):
    """Objects of a bucket. Endpoint, region and credentials are those of the AWS variables of the environment."""

    def __init__(self, url: str) -> None:
        self.url = url
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        with self._told("used"):
            self._bucket = S3Store.from_url(url, client_options={"allow_http": endpoint.startswith("http://")})

    async def put(self, name: str, data: bytes) -> None:
        """Made on the condition that there is none of that name."""
        with self._told("written to"), contextlib.suppress(AlreadyExistsError):
            await self._bucket.put_async(name, data, mode="create")

    async def get(self, name: str) -> bytes | None:
        """One request."""
        with self._told("read"):
            try:
                return bytes(await (await self._bucket.get_async(name)).bytes_async())
            except _NONE:
                return None

    async def delete(self, name: str) -> None:
        """One request."""
        with self._told("written to"), contextlib.suppress(*_NONE):
            await self._bucket.delete_async(name)

    async def files(self, folder: str = "") -> AsyncIterator[ArchiveFile]:
        """A request for each thousand."""
        with self._told("read"):
            async for page in self._bucket.list(folder or None, chunk_size=1000):
                for one in page:
                    if one["path"].endswith(ENDING):
                        yield ArchiveFile(one["path"], one["size"])

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            why = str(error).partition("\n")[0]
            raise StoreUnavailable(f"The archive {self.url} cannot be {done}: {why}") from None
