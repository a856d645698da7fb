"""Skills of an MCP server for models: one tool that lists them in its description and reads them file by file.

MCP clients of the crib get the same skills by the extension of the protocol. A file counts only as it was listed: where
the server gives out another text than the one whose digest it listed, nothing is given to the model.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp.request_tools import READ
from toolcrib.sources.mcp.settings import legal
from toolcrib.sources.skills import FILE, MOST_SHOWN, frontmatter, offer
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Limits, Result, block

if TYPE_CHECKING:
    from toolcrib.sources.mcp.server import McpClient

NAME = "read_skill"
LONGEST = 1024
"""Characters of a description that are shown."""


class _File(NamedTuple):
    uri: str
    digest: str | None = None
    size: Any = None


class _Skill(NamedTuple):
    name: str
    description: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, _File]


def _skills(entries: Iterable[Mapping[str, Any]]) -> dict[str, _Skill]:
    """The skills that have a name and a description; of two with one name the first counts."""
    skills: dict[str, _Skill] = {}
    for entry in entries:
        front, listed = entry.get("frontmatter"), entry.get("resources")
        front = front if isinstance(front, Mapping) else {}
        name, description = front.get("name"), front.get("description")
        if isinstance(name, str) and isinstance(description, str):
            files = _files(entry["uri"], listed if isinstance(listed, list) else [])
            skills.setdefault(name, _Skill(name, description[:LONGEST], front, files))
    return skills


def _files(uri: str, listed: Iterable[Any]) -> dict[str, _File]:
    """The files of a skill by their paths in it, its `SKILL.md` first."""
    base = uri.rpartition("/")[0] + "/"
    files = {FILE: _File(uri)}
    for one in listed:
        address = one.get("uri") if isinstance(one, Mapping) else None
        if isinstance(address, str) and address.startswith(base):
            digest = one.get("digest")
            path = FILE if address == uri else unquote(address.removeprefix(base))
            files[path] = _File(address, digest if isinstance(digest, str) else None, one.get("size"))
    return files


def skill_tool(
    server: McpClient, entries: Iterable[Mapping[str, Any]], *, trusted: bool, limits: Limits
) -> Tool | None:
    """The tool that reads the skills of a server; None where it has none."""
    skills = _skills(entries)
    if not skills:
        return None

    async def run(ctx: Any, values: Mapping[str, Any]) -> Result:
        return await _read(server, skills, values, ctx)

    name = legal(server.settings.name)
    description, schema = offer({one.name: (one.description, one.files[FILE].digest) for one in skills.values()})
    tool: Tool = Tool(
        name=NAME,
        namespace=name,
        description=description,
        input_schema=schema,
        annotations=Annotations(read_only=True),
        effect=None if trusted else "once",
        limits=limits,
        metadata={"mcp": {"server": name}},
        run=run,
        upstream=name,
        source=name,
        trusted=trusted,
    )
    return tool


async def _read(server: McpClient, skills: Mapping[str, _Skill], values: Mapping[str, Any], ctx: Any) -> Result:
    skill = skills.get(values["skill"])
    if skill is None:
        known = ", ".join(list(skills)[:MOST_SHOWN])
        raise ToolFailure("not_found", f"There is no skill '{values['skill']}'", hint=f"There are: {known}")
    path = values.get("file") or FILE
    file = skill.files.get(path)
    if file is None:
        known = ", ".join(list(skill.files)[:MOST_SHOWN])
        raise ToolFailure("not_found", f"The skill {skill.name} has no file '{path}'", hint=f"It has: {known}")
    raw = await server.request(READ, {"uri": file.uri}, ctx)
    content = _content(raw, file)
    problem = _difference(skill, path, file, _bytes(content))
    if problem is not None:
        message = f"{path} of the skill {skill.name} is not what the server listed: {problem}"
        raise ToolFailure(
            "unavailable", message, hint="Have the server's tools listed again, and look at what changed."
        )
    if "text" not in content:
        kind = str(content.get("mimeType") or "application/octet-stream")
        return Result(None, [block("resource", uri=file.uri, mime_type=kind, blob=content["blob"])])
    others = [other for other in skill.files if other != FILE]
    more = f"Other files of the skill: {', '.join(others[:MOST_SHOWN])}" if path == FILE and others else None
    return Result(content["text"], message=more)


def _difference(skill: _Skill, path: str, file: _File, data: bytes | None) -> str | None:
    """Return what is not as it was listed; what nobody vouched for is not given out either."""
    if data is None:
        return "it has no content"
    if file.digest is None:
        return "no digest is listed"
    if file.size is not None and file.size != len(data):
        return "its size is another"
    if file.digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
        return "its digest is another"
    if path == FILE and _frontmatter(data) != skill.frontmatter:
        return "its frontmatter is another"
    return None


def _frontmatter(data: bytes) -> dict[str, Any] | None:
    try:
        return frontmatter(data.decode())
    except ValueError:
        return None


def _content(raw: Mapping[str, Any], file: _File) -> Mapping[str, Any]:
    """What the server gave for an address; nothing where it gave something else."""
    listed = raw.get("contents")
    contents = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return next((one for one in contents if one.get("uri") == file.uri), {})


def _bytes(content: Mapping[str, Any]) -> bytes | None:
    """The bytes of a file; None where there are none."""
    if isinstance(text := content.get("text"), str):
        return text.encode()
    try:
        return base64.b64decode(content["blob"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        return None
