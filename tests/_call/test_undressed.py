"""What a model adds to arguments because its view of a schema asked for it, taken off before they are checked."""

import pytest

from toolcrib import Tool
from toolcrib._call.request import undressed
from toolcrib.store.codec import decode

LOOK: Tool = Tool(
    name="look",
    description="Look.",
    input_schema={
        "type": "object",
        "properties": {"place": {"type": "string"}, "deep": {"type": "boolean"}},
        "required": ["place"],
    },
)


@pytest.mark.parametrize(
    ("given", "left", "label"),
    [
        (b'{"place": "here"}', {"place": "here"}, ""),
        (b'{"place": "here", "topic": "Look around"}', {"place": "here"}, "Look around"),
        (b'{"place": "here", "\\u0074opic": "Look around"}', {"place": "here"}, "Look around"),
        (b'{"place": "here", "deep": null}', {"place": "here"}, ""),
        (b'{"place": null}', {"place": None}, ""),
        (b'{"place": "the topic is \\u006eull"}', {"place": "the topic is null"}, ""),
    ],
)
def test_a_topic_and_empty_options_are_taken_off(given: bytes, left: object, label: str) -> None:
    text, said = undressed(LOOK, given, "")
    assert (decode(text), said) == (left, label)


@pytest.mark.parametrize("given", [b'{"place": "here" }', b"[1, 2]", b'"topic"', b'{"topic": ', b"null"])
def test_arguments_with_nothing_to_take_off_keep_their_bytes(given: bytes) -> None:
    assert undressed(LOOK, given, "mine") == (given, "mine")
