"""Changes to the files of clients: what is not meant stays as it is."""

import json

import pytest

from tests.requirements import requirement
from toolcrib.cli.clients import settings_text
from toolcrib.cli.clients.settings_text import Form

ENTRY = {"command": "python", "args": ["-m", 'a "b" \\ c'], "env": {"KEY": "${KEY}"}}

JSONC = """\
{
    // servers of mine
    "mcpServers": {
        "first": {"command": "x"}, // the first
        /* the second */
        "second": {"command": "y"} // no comma
    },
    "theme": "dark", // a comma at the end
}
"""
TOML = """\
# mine
model = "o9"

[mcp_servers.docs]  # the docs
command = "docs"

# how the terminal looks
[tui]
theme = "dark"
"""
YAML = """\
GOOSE_MODEL: m  # mine
extensions:
  # built in
  developer:
    enabled: true
    type: builtin
# the end
"""
TEXTS: list[tuple[Form, str, str]] = [
    ("json", JSONC, "mcpServers"),
    ("json", JSONC.replace("\n", "\r\n"), "mcpServers"),
    ("json", '{"mcpServers": {"a": {}}, "b": [1, 2]}', "mcpServers"),
    ("json", '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}\n', "mcpServers"),
    ("json", "{\n  // nothing yet\n}\n", "mcpServers"),
    ("json", '{"mcpServers": {}}', "mcpServers"),
    ("json", "", "mcpServers"),
    ("toml", TOML, "mcp_servers"),
    ("toml", "", "mcp_servers"),
    ("yaml", YAML, "extensions"),
    ("yaml", "extensions: {a: {enabled: false}}  # in one line\n", "extensions"),
    ("yaml", "GOOSE_MODEL: m", "extensions"),
]


@requirement("adapters.install.2")
@pytest.mark.parametrize(("form", "text", "section"), TEXTS)
def test_an_entry_is_added_and_nothing_else_changes(form: Form, text: str, section: str) -> None:
    made = settings_text.insert(form, text, (section, "crib"), ENTRY)
    old, new = settings_text.read(form, text), settings_text.read(form, made)
    assert new == {**old, section: {**old.get(section, {}), "crib": ENTRY}}
    lines = made.replace(",", "").splitlines()
    if text.count("\n") > 1:
        assert [line for line in text.replace(",", "").splitlines() if line not in lines] == []


@requirement("adapters.install.2")
@pytest.mark.parametrize(("form", "text", "section"), TEXTS)
def test_what_was_added_can_be_removed(form: Form, text: str, section: str) -> None:
    made = settings_text.insert(form, text, (section, "crib"), ENTRY)
    again = settings_text.insert(form, made, (section, "crib"), ENTRY | {"command": "other"})
    assert settings_text.read(form, again)[section]["crib"]["command"] == "other"
    bare = settings_text.remove(form, again, (section, "crib"))
    left = settings_text.read(form, bare)
    assert {k: v for k, v in left.items() if v} == {k: v for k, v in settings_text.read(form, text).items() if v}
    if text in (JSONC, TOML, YAML):
        assert bare == text


@requirement("adapters.install.2")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_entries_of_lists_are_removed_one_by_one(number: int) -> None:
    text = '{"hooks": {"E": [\n  {"a": 1}, // one\n  {"b": 2},\n  {"c": 3} // three\n]}}'
    made = settings_text.remove("json", text, ("hooks", "E", number))
    assert len(json.loads(settings_text.fragment("json", (), settings_text.read("json", made)))["hooks"]["E"]) == 2
    more = settings_text.insert("json", made, ("hooks", "E", 2), {"d": 4})
    assert settings_text.read("json", more)["hooks"]["E"][2] == {"d": 4}


@requirement("adapters.install.2")
@pytest.mark.parametrize(
    ("form", "text", "section"),
    [
        ("json", '{"mcpServers": 3}', "mcpServers"),
        ("json", '{"mcpServers": {', "mcpServers"),
        ("json", "[1]", "mcpServers"),
        ("json", "{a: 1}", "mcpServers"),
        ("json", '{"a" 1}', "mcpServers"),
        ("json", '{"a": }', "mcpServers"),
        ("json", '{"a": 1 "b": 2}', "mcpServers"),
        ("json", "{} {}", "mcpServers"),
        ("toml", "mcp_servers = {}", "mcp_servers"),
        ("toml", "= 3", "mcp_servers"),
        ("yaml", "extensions: [a]", "extensions"),
        ("yaml", "a: [", "extensions"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(form: Form, text: str, section: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        settings_text.insert(form, text, (section, "crib"), ENTRY)
