"""What a model reads of calls that go on while it does: how they ended, and what they told on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.transcript import CallNote
from toolcrib.events import MessageAdded
from toolcrib.interop import aomi
from toolcrib.store.codec import encode

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver

MOST = 16 * 1024
"""So many bytes of what a call told are read at a time, the newest; what came before is counted."""

PAGE = 1000


class BackgroundCall(NamedTuple):
    """A call in the background: what a model knows it by, the run that made it, and its own wake policy."""

    id: str
    tool: str
    provider_id: str | None
    run: str | None
    wake: str | None


async def late_messages(driver: Driver, run: AgentRun | None, id: str = "") -> list[MessageAdded]:
    """What the model of a run has to read of calls in the background; without a run, that of one about to start."""
    ended = [note for note, _ in driver.conversation.late.values() if _reads(driver, run, note.run)]
    notes: list[dict[str, Any]] = []
    for call in [*_going(driver), *map(_call, ended)]:
        if _tells(driver, call) and _reads(driver, run, call.run):
            notes += await _told(driver, call)
    notes += [{"content": _result(note), "results": [note.id]} for note in ended]
    reader = id or (run.id if run else None)
    return [MessageAdded(role="note", run=reader, **one) for one in notes]


def _reads(driver: Driver, run: AgentRun | None, caller: str | None) -> bool:
    """True if that run reads of the calls of another: a child of its own, and the foreground of all others."""
    owner = driver.conversation.runs.get(caller or "")
    whose = owner if owner is not None and owner.finished is None and owner.parent is not None else None
    return whose is (None if run is None or run.parent is None else run)


def _result(note: CallNote) -> str | None:
    ended = note.result
    assert ended is not None
    about: dict[str, Any] = {"tool_name": note.tool, "id": note.id, "call_id": note.provider_id}
    if ended.failure is not None:
        return aomi.model_text({**about, "result": {"error": ended.failure.message}})
    return aomi.model_text({**about, "result": ended.text if ended.data is None and ended.content else ended.data})


# What is told on the way


def _call(note: CallNote) -> BackgroundCall:
    return BackgroundCall(note.id, note.tool, note.provider_id, note.run, note.wake)


def _tells(driver: Driver, call: BackgroundCall) -> bool:
    tool = driver.session._view.names.get(call.tool)
    return tool is not None and tool.deliver == "all" and (call.wake or tool.wake) != "silent"


def _going(driver: Driver) -> Iterator[BackgroundCall]:
    """The calls that go on in the background, here and elsewhere."""
    live = driver.session.live
    for note in driver.conversation.calls.values():
        if note.background and note.state in ("open", "waiting") and note.id not in live:
            yield _call(note)
    for one in live.values():
        if one.background:
            yield BackgroundCall(one.id, one.tool_id, one.request.options.provider_id, one.run, one.wake)


async def _told(driver: Driver, call: BackgroundCall) -> list[dict[str, Any]]:
    """What a call told since its model was asked last, in one note; nothing where it told nothing."""
    chunks: list[Any] = []
    after = heard = driver.conversation.heard.get(call.id, 0)
    await driver.log.store.flush()
    while page := await driver.log.store.read(driver.session.id, after, limit=PAGE, call=call.id):
        for event in page:
            if event.kind in ("started", "answered"):
                chunks = []  # it began anew, and tells all again
            elif event.kind == "output":
                _add(chunks, event.fields)
                heard = event.seq
        after = page[-1].seq
    if not chunks:
        return []
    shown, left = _newest(chunks)
    which = f"call_id={call.provider_id or 'none'}" + (f"; {left} before left out" if left else "")
    text = f"Output of {call.tool} with id {call.id} ({which}): {json.dumps(shown, ensure_ascii=False, indent=2)}"
    return [{"content": f"[[SYSTEM]] {aomi.harmless(text)}", "told": {call.id: heard}}]


def _add(chunks: list[Any], data: dict[str, Any]) -> None:
    """A value is a chunk; text that comes in pieces is one as long as nothing else comes in between."""
    if "delta" not in data:
        chunks.append(data["value"])
    elif chunks and isinstance(chunks[-1], _Text):
        chunks[-1] = _Text(chunks[-1] + data["delta"])
    else:
        chunks.append(_Text(data["delta"]))


class _Text(str):
    """Text in pieces, unlike a text that was told whole."""

    __slots__ = ()


def _newest(chunks: list[Any]) -> tuple[list[Any], int]:
    """The last chunks that fit, and how many came before; of one that does not fit alone, its end."""
    left, first = MOST, len(chunks)
    while first and (left := left - len(encode(chunks[first - 1]))) >= 0:
        first -= 1
    if first == len(chunks):
        return [encode(chunks[-1])[-MOST:].decode("utf-8", "replace")], first - 1
    return chunks[first:], first
