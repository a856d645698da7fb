"""History as every provider takes it: each call is followed by its one result, and no result stands alone."""

from __future__ import annotations

from collections.abc import Iterable

from toolcrib.agent.models import Message

INTERRUPTED = "[Tool execution was interrupted]"


def repaired(messages: Iterable[Message], waiting: Iterable[str] = ()) -> list[Message]:
    """Results behind their call, in the order of the calls; a call without one gets the text `INTERRUPTED`.

    Results without a call and second results are left out. A call that still waits is no orphan.
    """
    given, open_ = list(messages), frozenset(waiting)
    results: dict[str, Message] = {}
    for message in given:
        if message.role == "tool" and message.call is not None:
            results.setdefault(message.call, message)
    mended: list[Message] = []
    answered: set[str] = set()
    for message in given:
        if message.role == "tool":
            continue
        mended.append(message)
        for call in message.calls:
            if call.id in answered or (call.id in open_ and call.id not in results):
                continue
            answered.add(call.id)
            mended.append(results.get(call.id) or Message("tool", INTERRUPTED, call=call.id))
    return mended
