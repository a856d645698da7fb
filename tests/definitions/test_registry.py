"""A registry says which tools an agent has at once; without one everything works."""

from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import RECORDINGS, require_recordings
from toolcrib.definitions.registry import Registry, Thresholds, input_examples, load, read

TOOLS = {
    "read": {"tier": 1},
    "git": {"tier": 2, "tokenCost": 100, "keywords": ["version"], "filter": {"type": "field"}},
    "lookup": {"tier": 2},
    "exa": {"tier": 3, "defer": True, "category": "web-search"},
    "graph": {"tier": 3, "essential": True},
}
PROFILES = {
    "dev": {"always_loaded": ["git", "unknown"], "frequently_used": ["lookup", "exa"], "deferred": ["graph"]},
    "qa": {"always_loaded": ["exa"]},
}


@requirement("yaml.load.1")
def test_a_file_says_what_is_known_of_each_tool(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text(
        "tools:\n  exa: {tier: 3, defer: true, essential: yes, category: web, keywords: [a, b], own: 1}\n  bare:\n"
    )
    registry = load(path)
    exa = registry.tools["exa"]
    assert (exa.tier, exa.defer, exa.essential, exa.category, exa.keywords) == (3, True, False, "web", ("a", "b"))
    assert exa.fields["own"] == 1
    assert registry.tools["bare"].tier is None
    assert registry.warning is None


@requirement("yaml.load.1")
def test_without_a_registry_there_is_nothing_to_warn_of() -> None:
    assert load(None) == Registry()


@requirement("yaml.load.1")
@pytest.mark.parametrize("text", ["tools: [", "- 1\n", "tools: 7\n", "a: 1\na: 2\n", "tools: {x: [1]}\n", "\x00"])
def test_a_registry_that_cannot_be_read_gives_one_warning_and_an_empty_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text(text)
    registry = load(path)
    assert registry.warning is not None
    assert registry.tools == {}
    assert registry.always("dev") == frozenset()


@requirement("yaml.load.1")
def test_an_absent_file_gives_one_warning_however_many_are_absent(tmp_path: Path) -> None:
    registry = load(tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert registry.warning == (
        f"{tmp_path / 'a.yaml'} cannot be read: No such file or directory (and 1 more); tools work without it"
    )


@requirement("yaml.load.1")
def test_what_is_malformed_does_not_spoil_the_rest() -> None:
    registry = read({"tools": {"a": 1, "b": {"tier": "2", "keywords": "x", "filter": 3}}, "profiles": {"dev": []}})
    assert list(registry.tools) == ["b"]
    assert (registry.tools["b"].tier, registry.tools["b"].keywords, registry.tools["b"].filter) == (2, (), None)
    assert registry.warning is not None
    assert "tools.a is no mapping (and 1 more)" in registry.warning


@requirement("yaml.load.1")
def test_a_packs_overrides_replace_entries_by_name(tmp_path: Path) -> None:
    overrides: dict[str, Any] = {
        "extends": "tool-registry",
        "overrides": {
            "tools": {"git": {"tier": 3}, "own": {"tier": 1}},
            "profiles": {"dev": {"always_loaded": ["own"]}},
            "task_bindings": {"b": {"required": ["own"]}},
        },
    }
    registry = read({"tools": TOOLS, "profiles": PROFILES, "task_bindings": {"a": {}, "b": {}}}, overrides)
    assert (registry.tools["git"].tier, registry.tools["git"].keywords) == (3, ())
    assert registry.tools["exa"].category == "web-search"
    assert registry.profiles["dev"].frequently_used == ()
    assert registry.task_bindings == {"a": {}, "b": {"required": ["own"]}}


@requirement("yaml.load.2")
def test_an_agent_has_tier_one_the_essential_its_own_and_the_second_tier_it_names() -> None:
    registry = read({"tools": TOOLS, "profiles": PROFILES})
    assert registry.always() == {"read", "graph"}
    assert registry.always("nobody") == {"read", "graph"}
    assert registry.always("dev") == {"read", "graph", "git", "unknown", "lookup"}
    assert registry.always("qa") == {"read", "graph", "exa"}


def test_filters_are_given_by_the_names_of_their_tools() -> None:
    registry = read({"tools": TOOLS})
    found = {name: entry.filter for name, entry in registry.tools.items() if entry.filter is not None}
    assert found == {"git": {"type": "field"}}


def test_a_tool_is_known_by_its_command_its_file_or_its_name() -> None:
    registry = read({"tools": {"ClickUp": {"tier": 2}, "exa.search": {"tier": 1}, "exa": {"tier": 3}, "Read": {}}})
    found = {
        id: registry.entry(id) for id in ("exa.search", "exa.other", "clickup.create_task", "std.Read", "x.y", "x")
    }
    names = {id: entry and entry.name for id, entry in found.items()}
    assert names == {
        "exa.search": "exa.search",
        "exa.other": "exa",
        "clickup.create_task": "ClickUp",
        "std.Read": "Read",
        "x.y": None,
        "x": None,
    }


@requirement("yaml.load.3")
def test_at_most_three_short_inputs_stand_as_examples() -> None:
    said = [{"description": f"{number}", "input": {"n": number}} for number in range(5)]
    said[1:1] = [{"description": "long", "input": {"text": "x" * 900}}, {"description": "none"}, 7]  # type: ignore[list-item]
    assert [(one.title, one.arguments) for one in input_examples(said)] == [
        ("0", {"n": 0}),
        ("1", {"n": 1}),
        ("2", {"n": 2}),
    ]
    assert input_examples(None) == ()


@requirement("yaml.load.3")
def test_examples_come_from_the_entry_or_from_a_file_of_their_own() -> None:
    own = {"input_examples": [{"description": "own", "input": {}}]}
    other = {"tools": {name: {"examples": [{"description": "other", "input": {}}]} for name in ("a", "b")}}
    registry = read({"tools": {"a": own, "b": {"input_examples": None}}}, examples=other)
    assert [registry.tools[name].examples[0].title for name in ("a", "b")] == ["own", "other"]


@requirement("yaml.use.2")
def test_thresholds_of_advice_can_be_said() -> None:
    assert read({}).thresholds == Thresholds(10, 5, 1, 5)
    said = {
        "promote": {"minUsesPerSession": 3, "minSessions": 2},
        "demote": {"maxUsesPerNSessions": 2, "sessionWindow": "x"},
    }
    assert read({"analytics": {"thresholds": said}}).thresholds == Thresholds(3, 2, 2, 5)
    assert read({"analytics": {"thresholds": [1]}}).thresholds == Thresholds()


@requirement("yaml.load.1", "yaml.load.2")
def test_the_shared_registry_is_read() -> None:
    require_recordings()
    folder = RECORDINGS / "registry"
    registry = load(folder / "tool-registry.yaml", None, folder / "mcp-tool-examples.yaml")
    assert registry.warning is None
    assert len(registry.tools) == 34
    assert {"git", "coderabbit", "context7", "supabase", "browser", "nogic", "code-graph"} <= registry.always("dev")
    assert not {"exa", "n8n", "playwright", "clickup"} & registry.always("dev")
    assert len(registry.tools["context7"].examples) == 3
