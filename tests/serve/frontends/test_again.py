"""A body that runs again, after a crash or an answer, puts out all again: front ends show it once."""

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Event
from toolcrib._call.history import History
from toolcrib.serve.frontends.agui import AguiRun
from toolcrib.serve.frontends.aisdk import MessageParts
from toolcrib.store.codec import encode

ACCEPTED = {"tool": "shop.find", "label": "Find", "args": {}, "by": {"kind": "user", "name": ""}, "digest": "d"}
STARTED = {"attempt": 1, "args": {}, "digest": "d", "timeout_s": 60}
QUESTION = {"id": "c1-1", "call": "c1", "kind": "external", "key": "k", "prompt": "?", "asked_at": 1, "expires_at": 9}
ANSWER = {"question": "c1-1", "action": "accept", "actor": "ada", "key": "k1"}
AGAIN: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "after a crash": [("started", {**STARTED, "attempt": 2})],
    "after an answer": [("waiting", {"question": QUESTION}), ("answered", ANSWER)],
}


def story(again: str) -> list[Event]:
    """A call that put out a text, and after that the same text and more."""
    first: list[tuple[str, dict[str, Any]]] = [("accepted", ACCEPTED), ("started", STARTED), ("output", {"delta": "a"})]
    then = [*AGAIN[again], ("output", {"delta": "a"}), ("output", {"delta": "b"})]
    return [Event(number, 1.0, "c1", kind, encode(data)) for number, (kind, data) in enumerate([*first, *then], 1)]


@requirement("reliability.proof.16")
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("front", ["ag-ui", "ai-sdk"])
def test_a_front_end_shows_what_is_put_out_again_once(front: str, again: str) -> None:
    sink: Any = AguiRun(None, "t", "r") if front == "ag-ui" else MessageParts("desk", "s")  # type: ignore[arg-type]  # it is not asked
    last = b""
    for event in story(again):
        last = b"".join(sink.take(event)) or last
    assert b'"ab"' in last


@requirement("reliability.proof.16")
@pytest.mark.parametrize("again", ["after a crash"])
def test_the_last_output_is_that_of_the_newest_run(again: str) -> None:
    history = History("s", story(again)[:4])
    assert (history.outputs, history.last_output) == (0, None)
    history.advance(story(again)[4])
    assert (history.outputs, history.last_output) == (1, "a")
