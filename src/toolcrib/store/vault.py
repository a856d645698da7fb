"""What is kept of secret arguments so that a call can go on: encrypted beside the log, with a key outside of the store.

A value is sealed with AES-256-GCM and bound to its session and id, so that it opens nowhere else. It begins with a mark
and the number of its key; a value without the mark was kept by an earlier release, and is read as it is. What belongs
to a call is deleted with its end (`Write.forgets`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.errors import BadSecretKey
from toolcrib.store import SECRET, Store
from toolcrib.store.private_files import create_private, restrict, state_folder

SecretKey = str | bytes | os.PathLike[str] | Callable[[], str | bytes]
"""A key for secrets: itself, the file that holds it, or a function that knows it, such as one that asks a keyring.

It is a text of 32 characters or more. Several may be given, separated by blanks or lines: the first encrypts, all
decrypt.
"""

NAME = "secrets.key"
SHORTEST = 32
SAME = "give every process over this store the same `secret_key`"
_MARK, _NUMBER, _NONCE = b"\0tcs1", 8, 12


class SealedValue(Exception):
    """A secret value that cannot be read here; the message says why and what to do."""


class _Key(NamedTuple):
    number: bytes
    cipher: Any
    digests: bytes


class Vault:
    """The secret values of the calls of one crib. The key is looked for when it is first needed."""

    def __init__(self, store: Callable[[], Store], key: SecretKey | None = None) -> None:
        self._store = store
        self._source = key
        self._keys: list[_Key] | None = None

    def over(self, store: Store) -> Vault:
        """Return the same for another store."""
        return Vault(lambda: store, self._source)

    def use(self, key: SecretKey | None) -> None:
        """Take another key; None for that of the store."""
        self._source, self._keys = key, None

    def check(self) -> None:
        """Read the key that was given, if there is one.

        Raises:
            BadSecretKey: it cannot be used.
        """
        if self._source is not None:
            self._all()

    @property
    def given(self) -> bool:
        """True if a key was given."""
        return self._source is not None

    def numbers(self) -> list[str]:
        """Return the numbers of the keys, which tell nothing of them; none where no key was given or made yet.

        Raises:
            BadSecretKey: the key cannot be used.
        """
        own = self._store().secret_key
        if self._source is None and own is None and not (state_folder() / NAME).exists():
            return []
        return [key.number.hex() for key in self._all()]

    def problem(self) -> str | None:
        """Return why nothing can be kept here; None where it can."""
        try:
            self._all()
        except BadSecretKey as error:
            return str(error)
        return None

    def sealed(self, session: str, id: str, data: bytes) -> tuple[str, bytes]:
        """Return a value as a write keeps it (`Write.keeps`).

        Raises:
            BadSecretKey: there is no key, and none can be made.
        """
        key, nonce = self._all()[0], secrets.token_bytes(_NONCE)
        return id, _MARK + key.number + nonce + key.cipher.encrypt(nonce, data, _place(session, id))

    async def keep(self, session: str, id: str, data: bytes) -> None:
        """Keep a value at once; the same id again changes nothing.

        Raises:
            BadSecretKey: there is no key, and none can be made.
        """
        await self._store().keep(session, *self.sealed(session, id, data))

    async def kept(self, session: str, id: str) -> bytes | None:
        """Return a value; None where there is none.

        Raises:
            SealedValue: it was encrypted with another key, or changed since.
        """
        kept = await self._store().kept(session, id)
        if kept is None or not kept.startswith(_MARK):
            return kept
        number, rest = kept[len(_MARK) :][:_NUMBER], kept[len(_MARK) + _NUMBER :]
        try:
            keys = {key.number: key for key in self._all()}
        except BadSecretKey as error:
            raise SealedValue(str(error)) from None
        if number not in keys:
            raise SealedValue(f"Secret arguments of this call were encrypted with another key: {SAME}")
        from cryptography.exceptions import InvalidTag

        try:
            value: bytes = keys[number].cipher.decrypt(rest[:_NONCE], rest[_NONCE:], _place(session, id))
        except InvalidTag:
            raise SealedValue("Secret arguments of this call were changed in the store: make the call anew") from None
        return value

    def digest(self, text: str) -> str:
        """Return a digest that tells nothing of a text to whoever does not have the key; any where there is no key."""
        if self.problem() is not None:
            return secrets.token_hex(32)
        return hmac.digest(self._all()[0].digests, text.encode(), "sha256").hex()

    def digests(self, text: str) -> list[str]:
        """Return the digests of a text by all keys: it may have been made before the first one was."""
        keys = self._all() if self.problem() is None else []
        return [hmac.digest(key.digests, text.encode(), "sha256").hex() for key in keys]

    def _all(self) -> list[_Key]:
        if self._keys is None:
            self._keys = [_key(one) for one in self._texts()]
        return self._keys

    def _texts(self) -> list[bytes]:
        source = self._source
        if source is None:
            own = self._store().secret_key
            return [own] if own is not None else _checked(_default(state_folder() / NAME), NAME)
        if isinstance(source, os.PathLike):
            path = Path(source)
            return _checked(_read(path), str(path))
        return _checked(source() if callable(source) else source, "secret_key")


def secret_id(call: str, part: str = "") -> str:
    """Return the id under which something secret of a call is kept: its arguments, or the part that is named."""
    return f"{SECRET}{call}:{part}" if part else f"{SECRET}{call}"


def _place(session: str, id: str) -> bytes:
    return f"{session}\0{id}".encode()


def _key(text: bytes) -> _Key:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    def derived(purpose: bytes) -> bytes:
        return hmac.digest(hashlib.sha256(text).digest(), purpose, "sha256")

    return _Key(derived(b"number")[:_NUMBER], AESGCM(derived(b"arguments")), derived(b"digests"))


def _checked(keys: str | bytes, where: str) -> list[bytes]:
    texts = (keys.encode() if isinstance(keys, str) else keys).split()
    if not texts or any(len(text) < SHORTEST for text in texts):
        advice = "`openssl rand -hex 32` makes one"
        raise BadSecretKey(f"{where}: a key for secrets has {SHORTEST} characters or more; {advice}")
    return texts


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadSecretKey(f"The key for secrets cannot be read from {path}: {error.strerror}") from None


def _default(path: Path) -> bytes:
    """The key of this user, made by whichever process first needs it."""
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            with create_private(made) as file:
                file.write(f"{secrets.token_hex(32)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(made, path)  # of several processes that make one, all use the first
            except FileExistsError:
                pass
            finally:
                made.unlink()
        restrict(path)
    except (OSError, RuntimeError) as error:
        why = f"No key for secrets can be made in {path.parent}: {error}. Give one as `secret_key`"
        raise BadSecretKey(why) from None
    return _read(path)
