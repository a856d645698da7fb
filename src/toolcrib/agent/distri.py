"""What comes from Distri: the keys of its agent files, and objects in the shape of its built-in tools."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from toolcrib.agent.definition import KEYS
from toolcrib.agent.problems import ProblemCollector
from toolcrib.tool import Tool

_OTHERS = (
    *("analysis_model_settings", "append_default_instructions", "available_skills", "browser_config", "browser_hooks"),
    *(
        "compaction_enabled",
        "context_size",
        "enable_reflection",
        "enable_todos",
        "file_system",
        "history_size",
        "hooks",
    ),
    *("icon_url", "include_scratchpad", "include_shell", "mcp_servers", "package_name", "partials", "reflection"),
    *("remote", "skills", "skills_description", "strategy", "tool_delivery_mode", "tool_format", "version"),
    *("user_message_overrides", "write_large_tool_responses_to_fs"),
)
_TOOLS = ("builtin", "packages", "mcp", "external", "dynamic", "delivery_mode", "deferred_threshold")


def translated(fields: Mapping[str, Any], findings: ProblemCollector) -> dict[str, Any]:
    """The data of TOML front matter under our keys; what only Distri knows goes to `metadata`."""
    data = {key: value for key, value in fields.items() if key not in _OTHERS}
    metadata = {key: value for key, value in fields.items() if key in _OTHERS and key not in KEYS}
    if "max_iterations" in data:
        data["max_turns"] = data.pop("max_iterations")
    settings = data.get("model_settings")
    if isinstance(settings, Mapping) and "model" in settings:
        data.setdefault("model", settings["model"])
        data["model_settings"] = {key: value for key, value in settings.items() if key != "model"}
    if isinstance(data.get("tools"), Mapping):
        data["tools"] = _tools(data["tools"], metadata, findings)
    if metadata:
        data["metadata"] = {**metadata, **data.get("metadata", {})}
    return data


def _tools(fields: Mapping[str, Any], metadata: dict[str, Any], findings: ProblemCollector) -> Any:
    findings.keys(fields, (*_TOOLS, "always_full_schema"), ("tools",))
    more = {key: value for key, value in fields.items() if key != "builtin"}
    if more:
        metadata["tools"] = more
    return fields.get("builtin", [])


def from_builtin(name: str, obj: Any) -> Tool:
    """A built-in tool of an object in Distri's shape: `get_tool_definition()` and `execute(args, context)`.

    The definition is that of a chat completion, `{"type": "function", "function": {name, description, parameters}}`.

    Raises:
        BadTool: the definition does not hold.
    """
    definition = obj.get_tool_definition()
    function = definition.get("function", definition)

    async def run(context: Any, values: Mapping[str, Any]) -> Any:
        value = obj.execute(dict(values), context)
        return await value if inspect.isawaitable(value) else value

    made: Tool = Tool(
        name=name,
        namespace="builtin",
        source="builtin",
        description=function.get("description") or name,
        input_schema=function.get("parameters") or {"type": "object", "properties": {}},
        run=run,
    )
    return made
