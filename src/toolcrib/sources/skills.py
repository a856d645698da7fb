"""Skills: folders with a `SKILL.md` that say how something is done, as a source. They are read piece by piece.

A model sees names and descriptions in the description of one tool, `skills.read`, reads a `SKILL.md` by it when it
needs one, and the files that this names after that. MCP clients get the same as the skills extension of the protocol
has it, with the digest of each file. A file that is no part of its skill, by a link for example, does not exist here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from toolcrib import yaml
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.findings import Finding
from toolcrib.media import encoded
from toolcrib.schema import nearest
from toolcrib.sources import OK, Health, Source, left_out
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Result, block

FILE = "SKILL.md"
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
MOST_SHOWN = 100
READ = "read"
KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""What a `SKILL.md` says of itself, as skills are specified."""

PLACE = ("skills",)
_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_FRONT = re.compile(r"\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)

log = logging.getLogger("toolcrib.skills")


class SkillFile(NamedTuple):
    """A file of a skill, and what it looked like when it was listed."""

    path: Path
    digest: str
    size: int


class Skill(NamedTuple):
    """A skill: what its `SKILL.md` says of itself, and its files by their paths in it."""

    name: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, SkillFile]


class Skills(Source):
    """The skills in folders: `Skills("skills")` has one for each folder below `skills` with a `SKILL.md`."""

    def __init__(self, *folders: str | Path, name: str = "skills", trusted: bool = True) -> None:
        if not folders:
            raise BadTool(name, "skills", "say a folder with skills in it", name)
        self.name = name
        self.namespaces = (name,)
        self.pinned = not trusted
        self._trusted = trusted
        self._folders = [Path(folder) for folder in folders]
        self._skills: dict[str, Skill] = {}
        self._empty: list[Path] = []
        self._left_out: tuple[str, ...] = ()
        self._changed: Callable[[Iterable[Tool]], None] | None = None

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tool; the folders are looked at."""
        self._changed = changed
        self._skills = await asyncio.to_thread(self._scan)
        return [self._tool()]

    async def stop(self) -> None:
        """There is nothing to let go of."""
        self._changed = None

    async def findings(self) -> Sequence[Finding]:
        """Return the folders in which there is no skill, those that are none, and keys that are almost others."""
        return [
            *left_out(self, self._left_out),
            *(one for skill in self._skills.values() for one in self._keys(skill)),
            *(
                Finding("NO_SKILL", "warning", f"{self.name}: no folder of {one} has a {FILE}", "config", setting=PLACE)
                for one in self._empty
            ),
        ]

    def _keys(self, skill: Skill) -> Iterator[Finding]:
        for key in skill.frontmatter:
            close = [] if key in KEYS else nearest(str(key), KEYS, 1)
            if close:
                message = f"{self.name}: {skill.name}: {FILE} has the key '{key}', which nobody reads"
                yield Finding("UNKNOWN_KEY", "warning", message, "config", nearest=close[0], setting=PLACE)

    async def refresh(self) -> None:
        """Looks at the folders again."""
        before, self._skills = self._skills, await asyncio.to_thread(self._scan)
        if before != self._skills and self._changed is not None:
            self._changed([self._tool()])

    def health_of(self, tool: Tool | None) -> Health:
        """Whether some folders are no skills, and why."""
        return Health("degraded", "; ".join(self._left_out[:3])) if self._left_out else OK

    def entries(self) -> Iterator[dict[str, Any]]:
        """The skills as the extension of the protocol lists them."""
        for skill in self._skills.values():
            files = [
                {"uri": self.uri(skill.name, path), "digest": file.digest, "size": file.size}
                for path, file in skill.files.items()
            ]
            yield {"uri": self.uri(skill.name), "frontmatter": skill.frontmatter, "resources": files}

    def uri(self, skill: str, path: str = FILE) -> str:
        """The address of a file of a skill."""
        return f"skill://{self.name}/{skill}/{quote(path)}"

    def find(self, uri: str) -> dict[str, str] | None:
        """The arguments of the tool that reads an address; None where it is no file of a skill here."""
        for skill in self._skills.values():
            for path in skill.files:
                if self.uri(skill.name, path) == uri:
                    return {"skill": skill.name, "file": path}
        return None

    def _tool(self) -> Tool:
        skills = self._skills.values()
        description, schema = offer(
            {one.name: (one.frontmatter["description"], one.files[FILE].digest) for one in skills}
        )
        tool: Tool = Tool(
            name=READ,
            namespace=self.name,
            description=description,
            input_schema=schema,
            annotations=Annotations(read_only=True),
            metadata={"skills": self.name},
            run=self._read,
            source=self.name,
            trusted=self._trusted,
        )
        return tool

    async def _read(self, ctx: Any, values: Mapping[str, Any]) -> Result:
        skill = self._skills.get(values["skill"])
        if skill is None:
            known = ", ".join(self._skills) or "none"
            raise ToolFailure("not_found", f"There is no skill '{values['skill']}'", hint=f"There are: {known}")
        path = values.get("file") or FILE
        file = skill.files.get(path)
        if file is None:
            known = ", ".join(skill.files)
            raise ToolFailure("not_found", f"The skill {skill.name} has no file '{path}'", hint=f"It has: {known}")
        return await asyncio.to_thread(self._content, skill, path, file)

    def _content(self, skill: Skill, path: str, file: SkillFile) -> Result:
        try:
            data = file.path.read_bytes()
        except OSError:
            data = b""
        if _digest(data) != file.digest:
            problem = f"{path} of the skill {skill.name} changed since the skill was listed"
            raise ToolFailure("unavailable", problem, hint="List the skills again, and look at what changed.")
        others = [other for other in skill.files if other != FILE]
        message = f"Other files of the skill: {', '.join(others)}" if path == FILE and others else None
        mime_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
        try:
            return Result(data.decode(), message=message)
        except UnicodeDecodeError:
            content = block("resource", uri=self.uri(skill.name, path), mime_type=mime_type, blob=encoded(data))
            return Result(None, [content])

    # What lies in the folders

    def _scan(self) -> dict[str, Skill]:
        skills: dict[str, Skill] = {}
        left_out = []
        listed = {folder: sorted(folder.glob(f"*/{FILE}")) for folder in self._folders}
        self._empty = [folder for folder, files in listed.items() if not files]
        for files in listed.values():
            for file in files:
                try:
                    skill = _skill(file.parent)
                except ValueError as error:
                    left_out.append(f"{file.parent.name}: {error}")
                else:
                    skills.setdefault(skill.name, skill)
        for line in left_out if tuple(left_out) != self._left_out else ():
            log.warning("this is no skill: %s", line)
        self._left_out = tuple(left_out)
        return skills


def offer(skills: Mapping[str, tuple[Any, str | None]]) -> tuple[str, dict[str, Any]]:
    """Return description and input schema of a tool that reads these skills, each with its description and digest."""
    shown = [f"- {name}: {description}" for name, (description, _) in skills.items()]
    if len(shown) > MOST_SHOWN:
        shown[MOST_SHOWN:] = [f"- and {len(shown) - MOST_SHOWN} more"]
    listed = "\n".join(shown) or "There are none."
    schema = {
        "type": "object",
        "properties": {"skill": {"type": "string"}, "file": {"type": "string", "default": FILE}},
        "required": ["skill"],
        # Another text makes another tool, which has to be accepted.
        "x-toolcrib-skills": {name: digest for name, (_, digest) in skills.items()},
    }
    advice = "Read a skill before you do what it is for: its SKILL.md first, other files when that names them."
    return f"{advice}\n{listed}", schema


def _skill(folder: Path) -> Skill:
    """Raises `ValueError` where a folder is no skill."""
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ValueError("its name has other characters than small letters, digits and single hyphens between them")
    files = dict(_files(folder))
    if FILE not in files:
        raise ValueError(f"{FILE} is no file in it")
    front = frontmatter(files[FILE].path.read_text("utf-8"))
    if front.get("name") != name:
        raise ValueError(f"its {FILE} says that it is {front.get('name')!r}")
    if not isinstance(front.get("description"), str) or not front["description"].strip():
        raise ValueError(f"its {FILE} has no description")
    return Skill(name, front, {FILE: files.pop(FILE), **files})


def frontmatter(text: str) -> dict[str, Any]:
    """Return the YAML that a `SKILL.md` begins with.

    Raises:
        ValueError: it does not begin with any.
    """
    match = _FRONT.match(text)
    document = None if match is None else yaml.parse(match[1])
    if document is None or document.problems or not isinstance(document.value, Mapping):
        raise ValueError(f"{FILE} does not begin with YAML between two lines of ---")
    data: dict[str, Any] = yaml.thaw(document.value)
    return data


def _files(folder: Path) -> Iterator[tuple[str, SkillFile]]:
    """The files of a skill, without what links lead to and what begins with a dot."""
    root, total = folder.resolve(), 0
    for number, path in enumerate(sorted(one for one in folder.rglob("*") if _is_own(one, folder, root)), 1):
        total += path.stat().st_size
        if number > MOST_FILES or total > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_FILES} files or {MOST_BYTES // 1024 // 1024} MB")
        data = path.read_bytes()
        yield path.relative_to(folder).as_posix(), SkillFile(path, _digest(data), len(data))


def _is_own(path: Path, folder: Path, root: Path) -> bool:
    inside = path.relative_to(folder)
    hidden = any(part.startswith(".") for part in inside.parts)
    return not hidden and path.is_file() and path.resolve() == root / inside


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
