"""What is generated from the types of events is what is committed, and every field is described."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.events.generate import VALUES, files
from toolcrib import events
from toolcrib.events.schema import meanings
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.routes import ROUTES


@pytest.mark.parametrize("path", list(files()), ids=lambda path: path.name)
def test_what_is_committed_is_what_is_generated(path: Path) -> None:
    assert path.read_text("utf-8") == files()[path], "run `make generate`"


@pytest.mark.parametrize("type", [*events.KINDS.values(), *VALUES], ids=lambda type: type.__name__)
def test_every_field_of_an_event_is_described(type: Any) -> None:
    said, fields = meanings(type)
    assert said.endswith(".")
    assert set(fields) == set(type.__struct_fields__)
    assert all(text.endswith(".") for text in fields.values())


def test_the_description_of_the_api_has_the_data_of_every_kind() -> None:
    schemas = document(ROUTES)["components"]["schemas"]
    assert {type.__name__ for type in events.KINDS.values()} <= schemas.keys()
    told = {one["if"]["properties"]["kind"]["const"]: one["then"] for one in schemas["EventForm"]["allOf"]}
    assert told.keys() == events.KINDS.keys()
    assert told["waiting"] == {"properties": {"data": {"$ref": "#/components/schemas/Waiting"}}}


@pytest.mark.parametrize("type", events.KINDS.values(), ids=lambda type: type.kind)
def test_an_event_is_frozen_and_names_its_kind(type: Any) -> None:
    assert type.__struct_config__.frozen
    assert events.KINDS[type.kind] is type


def test_an_event_of_an_unknown_kind_or_with_unknown_fields_is_passed_on() -> None:
    unknown = events.Event(1, 2.0, None, "from_the_future", b'{"a": [1]}')
    assert unknown.data == events.Unknown({"a": [1]})
    assert (unknown.fields, unknown.json) == ({"a": [1]}, b'{"a": [1]}')
    more = events.Event(1, 2.0, "c", "paused", b'{"children":["d"],"why":7}')
    assert more.data == events.Paused(["d"])
    assert more.fields == {"children": ["d"], "why": 7}


def test_data_that_does_not_fit_its_type_is_read_as_far_as_it_does() -> None:
    event = events.Event(1, 2.0, "c", "done", b'{"ok":true,"duration_ms":"soon","handover":7}')
    assert isinstance(event.data, events.Done)
    assert (event.data.ok, event.data.handover) == (True, 7)
    odd: Any = event.data.duration_ms
    assert odd == "soon"
    waiting = events.Event(1, 2.0, "c", "waiting", b'{"question":{"id":"c-1","key":"k"}}').data
    assert isinstance(waiting, events.Waiting)
    assert waiting.question.id == "c-1"
    prompt: Any = waiting.question.prompt
    assert prompt is None


def test_large_values_that_were_left_out_have_their_size() -> None:
    event = events.Event(1, 2.0, "c", "done", b'{"ok":true,"duration_ms":1}', {"data": 70_000})
    assert isinstance(event.data, events.Done)
    assert event.data.data == events.Omitted(70_000)
    assert event.fields["data"] == events.Omitted(70_000)


def test_data_is_written_as_it_was_read() -> None:
    for json in (b'{"text":"so","level":3}', b'{"ok":true,"data":null,"duration_ms":0}', b'{"status":"running"}'):
        kind = {b"t": "notice", b"o": "done", b"s": "progress"}[json[2:3]]
        assert msgspec.json.encode(events.written(events.read(kind, json))) == json
