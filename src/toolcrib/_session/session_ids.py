"""What a session can be called, and by whom it can be opened."""

from __future__ import annotations

import re
import secrets
from typing import Any

from toolcrib.errors import Refused
from toolcrib.store import OWNER

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,255}")


def session_id(id: str | None, owner: Any, namespaces: Any) -> str:
    """The id that a session is opened with; a new one where none is given.

    Raises:
        Refused: `invalid_arguments`, it cannot be an id; `denied`, it is one of the crib's own.
    """
    if isinstance(namespaces, str) or not isinstance(owner, str):
        raise Refused("invalid_arguments", "namespaces is a list of texts and owner a text")
    id = secrets.token_hex(16) if id is None else id
    if not SESSION_ID.fullmatch(id):
        raise Refused("invalid_arguments", "A session id has 1 to 255 characters of [A-Za-z0-9._:-]")
    if id.startswith(f"{OWNER}.") or owner == OWNER:
        raise Refused("denied", f"The owner '{OWNER}' and sessions '{OWNER}.*' are the crib's own: choose another name")
    return id


def imported_id(id: str, owner: str) -> str:
    """The id that a session is imported with.

    Raises:
        Refused: `invalid_arguments`, it or its owner cannot be that of a session.
    """
    if not SESSION_ID.fullmatch(id) or id.startswith(f"{OWNER}.") or owner == OWNER:
        raise Refused("invalid_arguments", f"A session cannot be '{id}' of '{owner}'", "choose another id")
    return id
