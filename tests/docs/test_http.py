"""The page on the HTTP API says what the table of routes, the codes and the limits say."""

from __future__ import annotations

import dataclasses
import re

from tests.docs.test_reference import rows
from tests.shared import ROOT
from toolcrib.cli.config.model import JwtSection, ServeSection
from toolcrib.serve.api.errors import STATUS
from toolcrib.serve.api.limits import ServeLimits
from toolcrib.serve.api.routes import ROUTES
from toolcrib.serve.principal import KNOWN

PAGE = (ROOT / "docs/reference/http.md").read_text("utf-8")


def test_every_route_has_a_row_with_its_scope_and_no_row_is_left() -> None:
    table = {name: cells for name, cells in rows("http", "Routes").items() if " /v1/" in name}
    expected = {
        f"{route.method} {route.path}": "none" if route.right is None else f"`{route.right}`"
        for route in ROUTES
        if route.path.startswith("/v1/")
    }
    assert {name: cells[1] for name, cells in table.items()} == expected


def test_every_code_has_a_row_with_its_status() -> None:
    assert {code: cells[1] for code, cells in rows("http", "Errors").items()} == {c: str(s) for c, s in STATUS.items()}


def test_every_limit_of_the_server_has_a_row_with_its_default() -> None:
    expected = {field.name: f"`{field.default!r}`" for field in dataclasses.fields(ServeLimits)}
    assert {name: cells[1] for name, cells in rows("http", "ServeLimits").items()} == expected


def test_every_scope_and_every_key_of_serve_is_told() -> None:
    assert rows("http", "Who is let in").keys() >= KNOWN
    table = rows("http", "serve in crib.yaml")
    assert set(ServeSection.model_fields) <= table.keys()
    assert [word for word in JwtSection.model_fields if f"`{word}`" not in table["auth"][1]] == []


def test_every_number_of_the_server_is_named() -> None:
    source = (ROOT / "src/toolcrib/serve/metrics.py").read_text("utf-8")
    assert {name for name in re.findall(r'"(toolcrib_\w+)"', source) if f"`{name}`" not in PAGE} == set()
