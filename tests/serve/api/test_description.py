"""The description of the API is made of the table of routes, and nothing in the table is left out of it."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.shared import nonempty
from toolcrib.serve.api.errors import STATUS
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.router import Table
from toolcrib.serve.api.routes import ROUTES
from toolcrib.types import CODES

DOCUMENT = document(ROUTES)


def references(value: Any) -> set[str]:
    """All that a document refers to."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_route_is_described_and_found() -> None:
    table = Table(ROUTES)
    for route in nonempty(ROUTES):
        said = DOCUMENT["paths"][route.path][route.method.lower()]
        assert said["summary"]
        assert [one["name"] for one in said.get("parameters", ()) if one["in"] == "path"] == route.names
        path = route.path.format(**{name: f"a%2Fb-{name}" for name in route.names})
        assert table.find(route.method, path) == (route, [f"a/b-{name}" for name in route.names])


def test_names_of_operations_differ_and_references_lead_somewhere() -> None:
    names = [said["operationId"] for path in DOCUMENT["paths"].values() for said in path.values()]
    assert len(names) == len(set(names)) == len(ROUTES)
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) <= known
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT)) == msgspec.json.decode(
        msgspec.json.encode(document(ROUTES))
    )


def test_every_code_that_may_refuse_has_a_status() -> None:
    never = {"cancelled", "failed", "unknown"}  # only calls end so
    assert set(CODES) - never <= STATUS.keys()


def test_a_document_for_other_servers_is_described_as_such() -> None:
    route = document(ROUTES)["paths"]["/v1/accounts/client.json"]["get"]
    assert route["responses"]["200"]["content"]["application/json"]["schema"]["type"] == "object"
