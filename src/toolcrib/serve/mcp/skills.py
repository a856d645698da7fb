"""Skills for MCP clients, as the extension of the protocol has them: of folders of the crib, and of its servers."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.crib import Crib
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.upstreams import Upstreams
from toolcrib.serve.mcp.wire import INVALID_PARAMS, ProtocolError
from toolcrib.sources.skills import READ, Skills
from toolcrib.tool import Tool
from toolcrib.types import Result

SKILLS = "io.modelcontextprotocol/skills"
DIRECTORY = "inode/directory"

Entry = Mapping[str, Any]


class SkillShelf:
    """All skills that a crib knows of."""

    def __init__(self, crib: Crib, upstreams: Upstreams) -> None:
        self._crib = crib
        self._upstreams = upstreams

    def __bool__(self) -> bool:
        return any(True for _ in self._sources) or self._upstreams.have_skills

    @property
    def _sources(self) -> Iterator[Skills]:
        return (source for source in self._crib.registry.sources if isinstance(source, Skills))

    async def refresh(self) -> None:
        """Looks at the folders again."""
        for source in self._sources:
            await source.refresh()

    def _tool(self, mcp_session: McpSession, source: Skills) -> Tool | None:
        tool = mcp_session.session.tool(f"{source.name}.{READ}")
        return tool if tool is not None and mcp_session.shows(tool) else None

    def entries(self, mcp_session: McpSession) -> list[Entry]:
        """The skills that can be seen, by address; the first of an address counts."""
        entries: dict[str, Entry] = {}
        for source in self._sources:
            if self._tool(mcp_session, source) is not None:
                entries |= {entry["uri"]: entry for entry in source.entries() if entry["uri"] not in entries}
        entries |= {entry["uri"]: entry for entry in self._upstreams.skills(mcp_session) if entry["uri"] not in entries}
        return [entries[uri] for uri in sorted(entries)]

    def entry(self, mcp_session: McpSession, uri: str) -> Entry:
        """One of them.

        Raises:
            ProtocolError: there is no such skill.
        """
        for entry in self.entries(mcp_session):
            if entry["uri"] == uri:
                return entry
        raise ProtocolError(INVALID_PARAMS, f"Unknown skill: {uri}", {"uri": uri})

    def file(self, mcp_session: McpSession, uri: str) -> tuple[Tool, dict[str, str]] | None:
        """The tool and the arguments that read a file of a skill of the crib's own; None where it is none."""
        for source in self._sources:
            tool, arguments = self._tool(mcp_session, source), source.find(uri)
            if tool is not None and arguments is not None:
                return tool, arguments
        return None

    def directory(self, mcp_session: McpSession, uri: str) -> list[dict[str, Any]]:
        """What lies in a folder of a skill.

        Raises:
            ProtocolError: it is no folder of one.
        """
        base, children = uri.rstrip("/") + "/", dict[str, dict[str, Any]]()
        for entry in self.entries(mcp_session):
            for file in entry["resources"] if isinstance(entry["resources"], list) else ():
                if file["uri"].startswith(base) and base.startswith(entry["uri"].rpartition("/")[0]):
                    name, _, below = file["uri"].removeprefix(base).partition("/")
                    child = base + name
                    kind = DIRECTORY if below else mime_type(name)
                    children[child] = {"uri": child, "name": name, "mimeType": kind}
                    if not below:
                        children[child]["size"] = file["size"]
        if not children:
            raise ProtocolError(INVALID_PARAMS, f"This is no folder of a skill: {uri}", {"uri": uri})
        return [children[child] for child in sorted(children)]


def mime_type(path: str) -> str:
    """The kind of a file, by its name."""
    return "text/markdown" if path.endswith(".md") else mimetypes.guess_type(path)[0] or "text/plain"


def contents(result: Result, uri: str) -> dict[str, Any]:
    """A file that was read, as a client gets it."""
    if result.content:
        block = result.content[0]
        return {"uri": uri, "mimeType": block["mime_type"], "blob": block["blob"]}
    return {"uri": uri, "mimeType": mime_type(uri), "text": result.data}
