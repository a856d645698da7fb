"""What a hook of a coding agent is about, and what is answered, in one form for all of them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolcrib.policy import globs

Phase = Literal["before", "permission", "after", "end", "other"]
Effect = Literal["allow", "deny", "ask", "defer"]

READS = frozenset({"read_file", "list_dir", "grep"})
"""The tools that change nothing and tell nobody; everything else acts."""

_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>\"'`]+")
_MARKS = re.compile(r"[*?\[{]")


class BadHook(Exception):
    """What came on standard input is no hook of this client."""


class AgentAct(NamedTuple):
    """One thing that an agent is about to do: the client tool that stands for it, and its arguments."""

    tool: str
    arguments: dict[str, Any]

    @property
    def acts(self) -> bool:
        """True unless it only reads."""
        return self.tool not in READS


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One hook: when it comes, in which conversation, and what the agent is about to do or has done.

    Without acts the tool is one that neither runs, reads, writes nor reaches anything by itself.
    """

    client: str
    name: str
    phase: Phase
    session: str
    tool: str = ""
    acts: tuple[AgentAct, ...] = ()
    id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Judgement(NamedTuple):
    """What is answered, and why; `question` is the one in the inbox."""

    effect: Effect
    reason: str = ""
    question: str | None = None


_ORDER = ("defer", "allow", "ask", "deny")


def strictest(judgements: Iterable[Judgement]) -> Judgement:
    """Return the strictest of several judgements, the first of equals."""
    return max(judgements, key=lambda one: _ORDER.index(one.effect))


# Acts


def command(text: Any, cwd: str) -> AgentAct:
    """Return a command; a list of words is one without a shell.

    Raises:
        BadHook: it is neither.
    """
    if isinstance(text, list) and text and all(isinstance(word, str) for word in text):
        from toolcrib.policy.shell import line

        text = line(text)
    return AgentAct("shell", {"command": _text(text, "command"), "cwd": cwd})


def file(tool: str, path: Any, cwd: str) -> AgentAct:
    """Return what is done with one file or folder.

    Raises:
        BadHook: there is no path.
    """
    place = _text(path, "path")
    return AgentAct(tool, {"path": place if place.startswith("~") else posixpath.join(cwd, place)})


def search(path: Any, cwd: str, pattern: Any = None) -> AgentAct:
    """Return a search through all files below the folder that a path and a pattern lead to.

    Raises:
        BadHook: one of them is no text.
    """
    folder = posixpath.join(cwd, "." if path is None else _text(path, "path"))
    if pattern is not None:
        parts = _text(pattern, "pattern").split("/")
        fixed = next((at for at, part in enumerate(parts) if _MARKS.search(part)), len(parts) - 1)
        prefix = "/".join(parts[:fixed])
        folder = posixpath.join(folder, prefix or ("/" if parts[0] == "" else "."))
        if ".." in parts[fixed:] or "{" in "".join(parts[:-1]):
            folder = "/"
    return AgentAct("grep", {"path": posixpath.normpath(folder)})


def patch(text: Any, cwd: str) -> list[AgentAct]:
    """Return the files that a patch of the form `*** Update File: ...` changes.

    Raises:
        BadHook: it names none.
    """
    names = list(dict.fromkeys(_PATCHED.findall(_text(text, "patch"))))
    if not names:
        raise BadHook("the patch names no file")
    return [file("edit_file", name, cwd) for name in names]


def fetch(*texts: Any) -> list[AgentAct]:
    """Return the addresses that are reached: a URL as it is, or those in a text.

    Raises:
        BadHook: there is none.
    """
    named = [one for one in texts if isinstance(one, str) and one]
    if len(named) == 1 and "://" in named[0] and not re.search(r"\s", named[0]):
        return [AgentAct("http_fetch", {"url": named[0]})]
    urls = list(dict.fromkeys(url for one in named for url in _URL.findall(one)))
    if not urls:
        raise BadHook("it names no address")
    return [AgentAct("http_fetch", {"url": url}) for url in urls]


def other(name: str, arguments: Any) -> AgentAct:
    """Return a tool that the guard cannot look into."""
    shown = arguments if isinstance(arguments, Mapping) else {} if arguments is None else {"input": arguments}
    return AgentAct("call_tool", {"name": name, "arguments": dict(shown)})


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadHook(f"its {what} is no text")
    return value


def escaped(path: str) -> str:
    """Return a path as a pattern that means it alone."""
    return globs.escaped(path)
