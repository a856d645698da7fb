"""The client tools that stand for what coding agents do. They have the names and needs of the toolkits' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.tool import Tool
from toolcrib.types import Annotations


def _schema(required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


_PATH = {"path": {"type": "string"}}
_CHANGES = {"effect": "once", "annotations": {"destructive": True}}
_LOOKS = {"effect": "read", "annotations": {"read_only": True}}

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "shell",
        "description": "A command that a coding agent runs.",
        "input_schema": _schema(
            "command", command={"type": "string"}, cwd={"type": "string", "x-toolcrib-kind": "cwd"}
        ),
        "capabilities": ("exec:cmd:{command}",),
        **_CHANGES,
    },
    {
        "name": "read_file",
        "description": "A file that a coding agent reads.",
        "input_schema": _schema("path", **_PATH),
        "capabilities": ("fs:read:{path}",),
        **_LOOKS,
    },
    {
        "name": "list_dir",
        "description": "A folder whose names a coding agent lists.",
        "input_schema": _schema("path", **_PATH),
        "capabilities": ("fs:read:{path}",),
        **_LOOKS,
    },
    {
        "name": "grep",
        "description": "A folder that a coding agent searches, with all that is below it.",
        "input_schema": _schema("path", **_PATH),
        "capabilities": ("fs:read:{path}/**",),
        **_LOOKS,
    },
    {
        "name": "write_file",
        "description": "A file that a coding agent writes.",
        "input_schema": _schema("path", **_PATH),
        "capabilities": ("fs:write:{path}",),
        **_CHANGES,
    },
    {
        "name": "edit_file",
        "description": "A file that a coding agent changes.",
        "input_schema": _schema("path", **_PATH),
        "capabilities": ("fs:read:{path}", "fs:write:{path}"),
        **_CHANGES,
    },
    {
        "name": "http_fetch",
        "description": "An address that a coding agent reaches.",
        "input_schema": _schema("url", url={"type": "string"}),
        "capabilities": ("net:egress:{url}",),
        "effect": "once",
        "annotations": {"open_world": True},
    },
    {
        "name": "call_tool",
        "description": "Another tool of a coding agent, by its name there.",
        "input_schema": _schema("name", name={"type": "string"}, arguments={"type": "object"}),
        "effect": "once",
        "annotations": {"destructive": True, "requires_confirmation": True},
    },
)


def hook_tools() -> list[Tool]:
    """Return what the steps of coding agents are judged as, for rules to be held against."""
    return [
        Tool(
            **{**one, "annotations": Annotations(**one["annotations"]), "namespace": "client", "source": "client"},
            trusted=False,
        )
        for one in TOOLS
    ]
