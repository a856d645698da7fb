"""Paths as they are matched: absolute, without dots and links, in NFC; and globs over such paths.

What a path is called is never trusted, only where it leads. A path whose meaning depends on who reads it (`..` behind a
link, a name that is a link in one Unicode form alone) is refused rather than guessed.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from toolcrib.policy import globs
from toolcrib.policy.errors import BadRule, UnfitArgument

EVERYTHING = "/**"
"""The glob of all paths."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where relative paths and `~` start, and how links are followed.

    `resolve` follows the links of the part of an absolute path that exists. The folders themselves are resolved once.
    """

    workspace: str
    home: str | None = None
    resolve: Callable[[str], str] = field(default=os.path.realpath)

    def __post_init__(self) -> None:
        for name in ("workspace", "home"):
            folder = getattr(self, name)
            if folder is None and name == "home":
                continue
            if not folder.startswith("/"):
                raise BadRule(folder, f"the {name} must be an absolute path")
            object.__setattr__(self, name, _real(folder, self.resolve))

    def substituted(self, pattern: str) -> str:
        """A pattern with `${workspace}` and `${home}` replaced; wildcards in a folder's own name mean themselves.

        Raises:
            BadRule: it names another folder, or a home that is not known.
        """

        def folder(match: re.Match[str]) -> str:
            value = {"workspace": self.workspace, "home": self.home}.get(match[1])
            if value is None or not match[0].endswith("}"):
                raise BadRule(pattern, f"'{match[0]}' is not known", position=match.start())
            follows = pattern[match.end() : match.end() + 1]
            return globs.escaped("" if value == "/" and follows == "/" else value)

        return re.sub(r"\$\{([^}]*)\}?", folder, pattern)


def canonical(path: str, folders: Folders) -> str:
    """Where a path leads.

    Raises:
        Unfit: it is empty, holds NUL, is no Unicode, or would lead elsewhere for another reader.
    """
    return _real(_absolute(path, folders), folders.resolve)


def is_canonical(path: str) -> bool:
    """True if a path is absolute and written without dots, repeated slashes and other Unicode forms."""
    return path.startswith("/") and "\0" not in path and unicodedata.normalize("NFC", _normal(path)) == path


def _absolute(path: str, folders: Folders) -> str:
    if not path:
        raise UnfitArgument("a path is empty")
    if path.startswith("/"):
        return path
    if path != "~" and not path.startswith("~/"):
        return f"{folders.workspace}/{path}"
    if folders.home is None:
        raise UnfitArgument("'~' means nothing here: no home folder is known")
    return folders.home + path[1:]


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _real(path: str, resolve: Callable[[str], str]) -> str:
    """The path behind all links, which must be the same for who removes the dots first and who follows links first."""
    if "\0" in path:
        raise UnfitArgument("a path holds a NUL character")
    resolved = _resolved(_normal(path), resolve)
    if "/.." in path and _resolved(path, resolve) != resolved:
        raise UnfitArgument(f"the path {path!r} has '..' behind a link; name the folder itself")
    real = unicodedata.normalize("NFC", resolved)
    if real != resolved or not unicodedata.is_normalized("NFC", path):
        for form in (unicodedata.normalize("NFC", _normal(path)), real):
            if unicodedata.normalize("NFC", _resolved(form, resolve)) != real:
                raise UnfitArgument(f"the path {path!r} leads elsewhere in another Unicode form")
    return real


def _resolved(path: str, resolve: Callable[[str], str]) -> str:
    try:
        resolved = resolve(path)
        resolved.encode()
    except (OSError, ValueError):
        raise UnfitArgument(f"the path {path!r} cannot be looked up") from None
    return _normal(resolved)


class PathGlob(NamedTuple):
    """A glob over canonical paths; `name` says that it is about the file name alone."""

    text: str
    prefix: str  # of `key(path)`
    exact: bool
    subtree: bool
    name: bool
    matches: Callable[[str], object]

    def __call__(self, path: str) -> bool:
        """True if the path is covered."""
        return bool(self.matches(key(path)))

    def covers_below(self, folder: str) -> bool:
        """True if everything in a folder is covered."""
        return self.subtree and self(folder)

    @property
    def full(self) -> str:
        """The pattern from the root, or the name alone; nothing where it covers everything."""
        return "**" if self.text == EVERYTHING else self.text


def key(path: str) -> str:
    """A path as globs look at it: every segment ends with a slash."""
    return path if path == "/" else path + "/"


def glob(pattern: str, folders: Folders) -> PathGlob:
    """The test whether a canonical path is covered by a pattern.

    Raises:
        BadRule: it is empty, holds NUL, or goes up behind a wildcard.
    """
    if not pattern or "\0" in pattern:
        raise BadRule(pattern, "a path pattern is neither empty nor holds NUL")
    expanded = unicodedata.normalize("NFC", folders.substituted(pattern))
    name = "/" not in expanded and expanded not in ("*", "**", ".", "..", "~")
    whole = f"/**/{expanded}" if name else _rooted(expanded, folders)
    return _compiled(_segments(whole, pattern), name)


def _rooted(pattern: str, folders: Folders) -> str:
    if pattern in ("*", "**"):
        return EVERYTHING
    if pattern.endswith("/"):
        pattern += "**"
    if pattern.startswith("/"):
        return pattern
    if pattern != "~" and not pattern.startswith("~/"):
        return f"{globs.escaped(folders.workspace)}/{pattern}"
    if folders.home is None:
        raise BadRule(pattern, "no home folder is known")
    return globs.escaped(folders.home) + pattern[1:]


def _segments(whole: str, pattern: str) -> list[str]:
    segments: list[str] = []
    for segment in whole.split("/"):
        if segment == "..":
            if segments and globs.is_pattern(segments[-1]):
                raise BadRule(pattern, "'..' cannot follow a wildcard")
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return segments


def _compiled(segments: list[str], name: bool) -> PathGlob:
    groups: list[list[str]] = [[]]
    prefix, exact = "/", True
    for segment in segments:
        tokens = list(globs.parse(segment))
        begun = globs.opening(tokens)
        if exact:
            exact = len(begun) == len(tokens)
            prefix += begun + "/" if exact else begun
        if segment == "**":
            groups.append([])
        else:
            groups[-1].append(f"(?>{globs.sequence(tokens, '[^/]')}(?=/))/")
    text = segments[-1] if name else "/" + "/".join(segments)
    subtree = segments[-1:] == ["**"]
    if exact:
        return PathGlob(text, prefix, True, False, name, prefix.__eq__)
    if subtree and len(segments) == prefix.count("/"):
        return PathGlob(text, prefix, False, True, name, lambda path: path.startswith(prefix))
    return PathGlob(text, prefix, False, subtree, name, re.compile(_expression(groups)).match)


def _expression(groups: list[list[str]]) -> str:
    """As for `globs.sequence`: between two `**` stand segments of a fixed number, so the first place is good."""
    joined = ["".join(group) for group in groups]
    if len(joined) == 1:
        return f"(?s:/{joined[0]})\\Z"
    middle = "".join(f"(?>(?:[^/]+/)*?{group})" for group in joined[1:-1] if group)
    last = f"(?:[^/]+/)*{joined[-1]}" if joined[-1] else ".*"
    return f"(?s:/{joined[0]}{middle}{last})\\Z"


def behind_links(glob: PathGlob, folders: Folders) -> str | None:
    """The same pattern for what its folder really is, if that folder is reached through a link."""
    folder = glob.prefix if glob.exact else glob.prefix[: glob.prefix.rindex("/") + 1]
    try:
        real = key(canonical(folder, folders))
    except UnfitArgument:
        return None
    if real == folder or glob.name:
        return None
    rest = glob.text[len(globs.escaped(folder)) :]
    return globs.escaped(real) + rest if rest else globs.escaped(real.rstrip("/") or "/")


class PathSet(NamedTuple):
    """The paths that a glob among the arguments asks for: all of them lie in `folder`."""

    text: str
    folder: str


_BRACES = re.compile(r"\{([^{}]*)\}")


def asked(pattern: str, folders: Folders) -> PathSet | None:
    """The set that a glob asks for, or None where it has no wildcard and is an ordinary path.

    Raises:
        Unfit: it may leave the folder that it begins with.
    """
    mark = re.search(r"[*?\[{\\]", pattern)
    if mark is None:
        return None
    start = pattern.rfind("/", 0, mark.start()) + 1
    rest = [segment for segment in pattern[start:].split("/") if segment not in ("", ".")]
    if "\0" in pattern or any(_may_go_up(segment) for segment in rest):
        raise UnfitArgument(f"the pattern {pattern!r} may lead out of its folder")
    folder = canonical(pattern[:start] or ".", folders)
    below = unicodedata.normalize("NFC", "/".join(rest))
    return PathSet(f"{globs.escaped(folder).rstrip('/')}/{below}", folder)


def _may_go_up(segment: str) -> bool:
    """True if a segment may be read as dots alone, by whoever reads escapes, classes and braces in it."""
    outside = _BRACES.sub("", segment)
    if "{" in outside or "}" in outside or ".." in "".join(_BRACES.findall(segment)):
        return True
    groups = [group.split(",") for group in _BRACES.findall(segment)]
    return _only_dots(outside) and all(any(_only_dots(choice) for choice in group) for group in groups)


def _only_dots(text: str) -> bool:
    return re.sub(r"[\[\]\\.~]", "", text) == ""


NOWHERE = Folders("/nonexistent/workspace", "/nonexistent/home", str)
"""The folders of whoever named none: they hold nothing that a grant could give away."""
