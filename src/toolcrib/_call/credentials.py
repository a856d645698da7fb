"""What an owner brings to a tool: keys and tokens of their own, which nobody else uses and no log shows."""

from __future__ import annotations

import inspect

from toolcrib.errors import ToolFailure
from toolcrib.types import Credentials


async def find_credential(lookup: Credentials | None, owner: str, name: str) -> str:
    """Return the credential of that name that an owner has.

    Raises:
        ToolFailure: `denied`, there is none.
    """
    found = None if lookup is None else lookup(owner, name)
    if inspect.isawaitable(found):
        found = await found
    if not found:
        hint = "Ask the operator of this crib to add it." if lookup else "The crib was made without `credentials`."
        raise ToolFailure("denied", f"There is no credential '{name}' of {owner}", hint=hint)
    return found
