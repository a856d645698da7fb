"""Calls that wait until their owner has connected an account: they go on by themselves when that has happened."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort

log = logging.getLogger("toolcrib.accounts")


async def resume_connected(crib: CribPort, account: str, owner: str) -> None:
    """Answer the questions of an owner's calls that ask for an account which they have connected.

    Of several processes that do so, the store lets one.
    """
    for row in await crib.store.calls_of_owner(owner, ("waiting",)):
        session = await crib._session_table.attached(row.session)
        if session is None or crib.ending:
            continue
        question = (await session._history(row)).question
        data = None if question is None else question.data
        if question is None or not isinstance(data, Mapping) or data.get("account") != account:
            continue
        try:
            await session.answer(question.id, "accept", actor=owner, key=f"account:{question.id}")
        except Refused as refused:
            log.debug("call %s waits on: %s", row.id, refused)
