"""What an owner brings to a tool: keys and tokens of their own, which nobody else uses and no log shows."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Refused, ToolFailure
from toolcrib.secret_references import is_reference, resolve_secret
from toolcrib.types import Credentials

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts, ServiceToken


async def find_credential(lookup: Credentials | None, owner: str, name: str) -> str:
    """Return the credential of that name that an owner has.

    Raises:
        ToolFailure: `denied`, there is none.
    """
    credential = None if lookup is None else lookup(owner, name)
    if inspect.isawaitable(credential):
        credential = await credential
    if not credential:
        hint = "Ask the operator of this crib to add it." if lookup else "The crib was made without `credentials`."
        raise ToolFailure("denied", f"There is no credential '{name}' of {owner}", hint=hint)
    return await resolve_secret(credential) if is_reference(credential) else credential


async def find_token(accounts: Accounts, owner: str, name: str, refused: str | None = None) -> ServiceToken | None:
    """Return what an owner uses an account with; None where they have to connect it.

    Raises:
        ToolFailure: `unavailable`, nobody can tell, or this program is refused.
    """
    try:
        return await accounts.token(owner, name, refused)
    except Refused as error:
        raise ToolFailure("unavailable", error.message, hint=error.hint, retryable=False) from None


def connect_question(accounts: Accounts, name: str, key: str, scope: str | None = None) -> dict[str, Any]:
    """Return the question that asks an owner to connect an account."""
    link = accounts.link(name, scope)
    more = f" with more rights ({scope})" if scope else ""
    how = f"visit {link}" if link else f"run `toolcrib connect {name}`"
    data = {"account": name, **({"scope": scope} if scope else {}), **({"url": link} if link else {})}
    return {
        "prompt": f"Connect your account {name}{more}: {how}",
        "kind": "external",
        "schema": None,
        "resume": None,
        "data": data,
        "key": key,
        "expires_s": None,
    }


async def check_connected(accounts: Accounts | None, owner: str, data: Any) -> None:
    """Refuse to go on with a call whose owner has not connected yet what its question asks for.

    Raises:
        Refused: `conflict`.
    """
    name = data.get("account") if isinstance(data, dict) else None
    if accounts is None or not isinstance(name, str) or name not in accounts:
        return
    if not await accounts.fits(owner, name, data.get("scope")):
        advice = data.get("url") or f"run `toolcrib connect {name}`"
        raise Refused("conflict", f"{owner} has not connected {name} yet", f"{advice}; the call then goes on by itself")
