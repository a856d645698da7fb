"""Whom a server lets in: named keys of a file or a variable, keys of the store, tokens of a provider."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.cli.questions import user
from toolcrib.cli.terminal import CommandError

if TYPE_CHECKING:
    from toolcrib.cli.config.server import ServeConfig
    from toolcrib.crib import Crib
    from toolcrib.serve.principal import Guard, Principal

SHORTEST_KEY = 16
DIGEST = "sha256:"


async def server_guard(
    crib: Crib, config: ServeConfig, known: Mapping[str, Principal], *, required: bool
) -> Guard | None:
    """Return the guard: it takes named keys, keys of the store, and tokens of a provider."""
    from toolcrib.cli.config.server import STORE
    from toolcrib.serve.keyring import Keyring
    from toolcrib.serve.keys import ApiKeys
    from toolcrib.serve.principal import Guards

    guards: list[Guard] = [ApiKeys(known)] if known else []
    ring = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    await ring.load()
    if required or config.keys == STORE or ring.keys:
        guards.append(ring)
    provider = config.provider()
    if provider is not None:
        guards.append(provider)
    return None if not guards else guards[0] if len(guards) == 1 else Guards(guards)


def named_keys(file: Path | None, variable: str | None) -> dict[str, Principal]:
    """Who is let in, by the digests of their keys. The key in a variable is that of whoever serves."""
    from toolcrib.serve.principal import ADMIN, Principal

    known: dict[str, Principal] = {}
    if variable is not None:
        key = os.environ.get(variable, "").strip()
        if not key:
            raise CommandError(f"The variable {variable} is not set", "put a key into it: openssl rand -hex 32")
        known[_kept(key, variable)] = Principal(user(), roles=frozenset({ADMIN}), auth="key")
    if file is not None:
        known |= {kept: Principal(name, auth="key") for name, kept in _lines(file)}
    return known


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """The names and digests of a file of keys; a key that stands alone is that of whoever serves."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read {file}: {error}", "--key-file takes a file with lines of NAME KEY") from None
    any_key = False
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise CommandError(f"{file}:{number}: expected NAME KEY", "write a name, a space and its key")
        any_key = True
        yield (words[0] if len(words) == 2 else user()), _kept(words[-1], f"{file}:{number}")
    if not any_key:
        raise CommandError(f"{file} holds no key", "write a line for each: NAME KEY")


def _kept(key: str, where: str) -> str:
    """The digest of a key, which may be given instead of it."""
    from toolcrib.serve.keys import digest

    if key.startswith(DIGEST):
        return key.removeprefix(DIGEST).lower()
    if len(key) < SHORTEST_KEY:
        advice = "a key has to be long and random: openssl rand -hex 32"
        raise CommandError(f"{where}: this key has fewer than {SHORTEST_KEY} characters", advice)
    return digest(key)
