"""The store that a command looks at. Nothing else of the crib is loaded for it: no source, secret, policy or agent."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from toolcrib.cli.terminal import Choice, CommandError

if TYPE_CHECKING:
    from toolcrib.store import Store


def chosen_store(choice: Choice) -> Store:
    """The store that was named, or else that of the crib; not started yet.

    Only a crib that is an object of Python has to be imported for that.

    Raises:
        CommandError: there is no crib.
    """
    from toolcrib.cli.config.document import NAME, store_url
    from toolcrib.store import open_store

    path = Path(choice.crib or NAME)
    if choice.store is not None and (choice.crib is None or path.is_file()):
        return open_store(choice.store)
    if path.is_file():
        return open_store(store_url(path) or "memory:")
    from toolcrib.cli.crib_choice import chosen

    return chosen(choice).store


@asynccontextmanager
async def reading_store(choice: Choice) -> AsyncIterator[Store]:
    """The store, open for who looks at it.

    Raises:
        CommandError: there is nothing to read yet.
    """
    store = chosen_store(choice)
    async with opened(store):
        yield store


@asynccontextmanager
async def opened(store: Store, *, make: bool = False) -> AsyncIterator[None]:
    """Open a store; one that does not exist is created only on request.

    Raises:
        CommandError: it does not exist.
    """
    if not make and (path := missing(store)) is not None:
        advice = "the first `toolcrib call` makes it; is this the right crib?"
        raise CommandError(f"There is no store yet: {path} does not exist", advice, exit_code=1, code="not_found")
    await store.start(f"w-{secrets.token_hex(8)}")
    try:
        yield
    finally:
        await store.close()


def missing(store: Store) -> Path | None:
    """The file of a store that was not made yet."""
    path = file_of(store)
    return None if path is None or path.exists() else path


def file_of(store: Store) -> Path | None:
    """The file of a store that is one."""
    url = store.url
    return Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])) if url.startswith("sqlite:///") else None
