"""What an owner brings to a tool: keys and tokens of their own, which nobody else uses and no log shows."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from toolcrib.errors import ToolFailure

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall


async def credential(live: LiveCall, name: str) -> str:
    """The credential of that name that the owner of the session has; from here on the call keeps it to itself.

    Raises:
        ToolFailure: `denied`, there is none.
    """
    lookup, owner = live.pipeline.credentials, live.session.owner
    found = None if lookup is None else lookup(owner, name)
    if inspect.isawaitable(found):
        found = await found
    if not found:
        hint = "Ask the operator of this crib to add it." if lookup else "The crib was made without `credentials`."
        raise ToolFailure("denied", f"There is no credential '{name}' of {owner}", hint=hint)
    if found not in live.secrets:
        live.secrets = (*live.secrets, found)
    return found
