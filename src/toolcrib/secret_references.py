"""Secrets by reference: a text that says where a secret is, looked up each time that it is needed.

`env:NAME` is a variable of the environment, `file:PATH` what a file holds, `op://vault/item/field` an item of 1Password
(by its program `op`), `vault://path#field` a secret of HashiCorp Vault (by VAULT_ADDR and VAULT_TOKEN), and
`keyring:service/name` an entry of the keychain of this system (by the library `keyring`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.extras import install

SCHEMES = ("env:", "file:", "op://", "vault://", "keyring:")
LARGEST = 64 * 1024
PROGRAM_S = 30.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_reference(text: str) -> bool:
    """True if a text says where a secret is, and is none itself."""
    return text.startswith(SCHEMES)


async def resolve_secret(text: str) -> str:
    """Return the secret that a text means; one that is no reference means itself.

    Raises:
        ToolFailure: `unavailable`, the secret is not there. What it says holds the reference, and never a secret.
    """
    for scheme, look_up in _LOOKUPS.items():
        if text.startswith(scheme):
            value = (await look_up(text.removeprefix(scheme))).strip("\r\n")
            if not value:
                raise _missing(text, "it is empty")
            return value
    return text


def _missing(reference: str, problem: str) -> ToolFailure:
    hint = "Whoever runs the crib looks at the reference, and at what it leads to."
    return ToolFailure("unavailable", f"The secret {reference} cannot be read: {problem}", hint=hint, retryable=False)


async def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name) or name not in os.environ:
        raise _missing(f"env:{name}", "the variable is not set")
    return os.environ[name]


async def _file(name: str) -> str:
    def read() -> str:
        with Path(name).expanduser().open("rb") as file:
            return file.read(LARGEST).decode()

    try:
        return await asyncio.to_thread(read)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is no text"
        raise _missing(f"file:{name}", problem) from None


async def _one_password(name: str) -> str:
    reference = f"op://{name}"
    try:
        process = await asyncio.create_subprocess_exec(
            "op",
            "read",
            "--no-newline",
            reference,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        raise _missing(reference, "there is no program `op`") from None
    try:
        async with asyncio.timeout(PROGRAM_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise _missing(reference, f"`op` took longer than {PROGRAM_S:g} s") from None
    if process.returncode:
        raise _missing(reference, f"`op read` ended with {process.returncode}; is it signed in?")
    return output.decode(errors="replace")


async def _hashicorp_vault(name: str) -> str:
    from toolcrib.http import Anywhere, Client, Request, Unanswered

    reference = f"vault://{name}"
    address, token = os.environ.get("VAULT_ADDR"), os.environ.get("VAULT_TOKEN")
    path, _, field = name.partition("#")
    if not address or not token:
        raise _missing(reference, "VAULT_ADDR and VAULT_TOKEN have to be set")
    if not field:
        raise _missing(reference, "it names no field: vault://path#field")
    request = Request.to(f"{address.rstrip('/')}/v1/{quote(path)}", headers={"X-Vault-Token": token})
    try:
        response = await Client(largest=LARGEST, redirects=0).send(request, Anywhere(), total_s=PROGRAM_S)
    except Unanswered as error:
        raise _missing(reference, error.message) from None
    try:
        data = msgspec.json.decode(response.body)["data"]
        value = data["data"][field] if isinstance(data.get("data"), dict) else data[field]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        raise _missing(reference, f"there is no such field (HTTP {response.status})") from None
    return str(value)


async def _keychain(name: str) -> str:
    reference = f"keyring:{name}"
    service, _, user = name.rpartition("/")
    try:
        import keyring  # type: ignore[import-not-found,unused-ignore]  # an extra
    except ImportError:
        raise _missing(reference, f"it needs keyring: {install('keyring')}") from None
    try:
        value: str | None = await asyncio.to_thread(keyring.get_password, service, user)
    except Exception as error:  # noqa: BLE001 - each keychain has errors of its own
        raise _missing(reference, type(error).__name__) from None
    if value is None:
        raise _missing(reference, "the keychain has no such entry")
    return value


_LOOKUPS: dict[str, Callable[[str], Awaitable[str]]] = {
    "env:": _variable,
    "file:": _file,
    "op://": _one_password,
    "vault://": _hashicorp_vault,
    "keyring:": _keychain,
}
