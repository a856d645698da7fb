"""The page about MCP says what the code says."""

import dataclasses
import re

import pytest

from tests.docs.test_reference import PAGES, rows
from toolcrib.serve import mcp as serving
from toolcrib.serve.mcp.wire import SUPPORTED
from toolcrib.sources import mcp as using


@pytest.mark.parametrize(("kind", "heading"), [(using.McpClientSettings, "Mcp"), (serving.McpServerSettings, "Server")])
def test_every_setting_has_a_row_with_its_default(kind: type, heading: str) -> None:
    table = rows("mcp", heading)
    own = [field for field in dataclasses.fields(kind) if field.name not in ("command", "url")]
    given = [field for field in own if not (kind is using.McpClientSettings and field.name == "name")]
    assert [field.name for field in given if field.name not in table] == []
    plain = {field.name: f"`{field.default!r}`" for field in given if isinstance(field.default, int | float)}
    assert {name: table[name][1] for name in plain} == plain


def test_every_public_name_and_revision_is_told() -> None:
    names = [*using.__all__, *serving.__all__]
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGES["mcp"])] == []
    assert [revision for revision in SUPPORTED if f"`{revision}`" not in PAGES["mcp"]] == []
