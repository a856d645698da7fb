"""What a call needs: `domain:action[:resource]`, made from the templates of its tool and its parsed arguments.

The domain tells how a resource is written in one form: `fs:` paths, `net:` targets, `exec:cmd:` programs, anything else
as it is. What stands here is what grants and rules decide about; whether it is granted is in `grants`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import msgspec

from toolcrib.policy import globs, paths, shell, urls
from toolcrib.policy.argument_kinds import Kind, declared, note
from toolcrib.policy.errors import BadRule, UnfitArgument

FAMILIES = ("fs:read", "fs:write", "net:egress", "exec:cmd", "secrets:read")
"""The capabilities that presets and toolkits speak of; any other is of a project's own."""

_PLACE = re.compile(r"\$\{(?P<folder>[^{}]*)\}|\{(?P<argument>[^{}]*)\}")
_ARGUMENT = re.compile(r"[\w-]+(?:\.[\w-]+|\[(?:\*|\d+)\])*")
_STEP = re.compile(r"\[(\*|\d+)\]|([\w-]+)")


class Capability(NamedTuple):
    """One thing that a call needs, or a set of them.

    Where `within` is not None, the resource is a pattern and all is asked for that it means; of paths `within` is the
    folder in which all of them lie.
    """

    domain: str
    action: str
    resource: str | None = None
    within: str | None = None

    @property
    def text(self) -> str:
        """Its form in messages and in the log."""
        return self.family if self.resource is None else f"{self.family}:{self.resource}"

    @property
    def family(self) -> str:
        """Domain and action."""
        return f"{self.domain}:{self.action}"

    @property
    def grant(self) -> str:
        """The pattern of a grant that covers exactly this."""
        if self.resource is None or self.within is not None or self.domain == "net":
            return self.text
        return f"{self.family}:{globs.escaped(self.resource)}"


def parse(text: str) -> Capability:
    """Read a capability as it stands; `canonical` brings it into the form that grants look at.

    Raises:
        BadRule: it has not the form `domain:action[:resource]`, or asks for more than one action.
    """
    domain, action, *more = text.split(":", 2)[:3] if ":" in text else (text, "")
    if not domain or not action or more == [""]:
        raise BadRule(text, "a capability is domain:action or domain:action:resource")
    if globs.is_pattern(domain) or globs.is_pattern(action):
        raise BadRule(text, "a capability names one domain and one action")
    if not more:
        return Capability(domain, action)
    named = domain == "net" and more[0] == "private"
    return Capability(domain, action, more[0], "" if named or globs.is_pattern(more[0]) else None)


def canonical(capability: Capability, folders: paths.Folders, trusted: frozenset[str] = shell.TRUSTED) -> Capability:
    """The same in the one form that grants look at.

    Raises:
        Unfit: its resource is none of its domain.
    """
    domain, action, resource, within = capability
    if resource is None:
        return capability
    if domain == "fs":
        return _files(action, resource, within is not None, folders)
    if domain == "net":
        return _target(action, resource, within is not None)
    if is_program(domain, action) and within is None:
        return Capability(domain, action, shell.program(resource, trusted))
    return capability


def is_program(domain: str, action: str) -> bool:
    """True if resources of this family are programs."""
    return domain == "exec" and action == "cmd"


def _files(action: str, resource: str, pattern: bool, folders: paths.Folders) -> Capability:
    wanted = paths.asked(resource, folders) if pattern else None
    if wanted is not None:
        return Capability("fs", action, wanted.text, wanted.folder)
    return Capability("fs", action, paths.canonical(resource, folders))


def _target(action: str, resource: str, pattern: bool) -> Capability:
    if not pattern:
        return Capability("net", action, urls.requested(resource).text)
    try:
        return Capability("net", action, urls.grant(resource).text, "")
    except BadRule as error:
        raise UnfitArgument(error.problem) from None


class _Argument(NamedTuple):
    """A place-holder of a template."""

    path: str
    steps: tuple[str | int | None, ...]


class _Folder(NamedTuple):
    """A folder of the session in a template."""

    name: str


_Part = str | _Argument | _Folder


class _Template(NamedTuple):
    """A template that was read."""

    text: str
    domain: str
    action: tuple[_Part, ...]
    resource: tuple[_Part, ...] | None

    @property
    def arguments(self) -> tuple[_Argument, ...]:
        """Its place-holders, in order."""
        return tuple(part for part in (*self.action, *(self.resource or ())) if isinstance(part, _Argument))

    @property
    def kind(self) -> Kind:
        """What it tells of the argument in its resource."""
        if self.domain in ("fs", "net"):
            return "path" if self.domain == "fs" else "url"
        may_be_cmd = self.action == ("cmd",) or any(not isinstance(part, str) for part in self.action)
        return "command" if self.domain == "exec" and may_be_cmd else "text"


@lru_cache(4096)
def _template(text: str) -> _Template:
    domain, action, *more = text.split(":", 2)[:3] if ":" in text else (text, "")
    if not domain or not action or more == [""]:
        raise BadRule(text, "a capability is domain:action or domain:action:resource")
    if _PLACE.search(domain) or globs.is_pattern(domain) or globs.is_pattern(_PLACE.sub("", action)):
        raise BadRule(text, "a capability names its domain and its action without wildcards")
    resource = tuple(_parts(more[0], text)) if more else None
    return _Template(text, domain, tuple(_parts(action, text)), resource)


def _parts(piece: str, text: str) -> Iterator[_Part]:
    at = 0
    for place in _PLACE.finditer(piece):
        yield from _literal(piece[at : place.start()], text)
        at = place.end()
        name = place["argument"]
        if name is None:
            yield _Folder(place["folder"])
        elif _ARGUMENT.fullmatch(name):
            yield _Argument(name, tuple(key or (None if i == "*" else int(i)) for i, key in _STEP.findall(name)))
        else:
            raise BadRule(text, f"{name!r} is no path of an argument")
    yield from _literal(piece[at:], text)


def _literal(piece: str, text: str) -> Iterator[str]:
    if "{" in piece or "}" in piece:
        raise BadRule(text, "a brace has no partner")
    if piece:
        yield piece


def families(templates: Iterable[str]) -> list[str]:
    """The families that a tool needs before its arguments are known; one that they decide ends with `*`.

    Raises:
        BadRule: a template cannot be read.
    """
    read = [_template(text) for text in templates]
    ends = [(template.domain, *template.action) for template in read]
    named = [
        f"{domain}:{parts[0] if len(parts) == 1 and isinstance(parts[0], str) else '*'}" for domain, *parts in ends
    ]
    return list(dict.fromkeys(named))


def kinds_of(templates: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Kind]:
    """The kind of each argument whose kind is told: by its schema, else by the templates that name it.

    Raises:
        BadRule: a template cannot be read, or names an argument that cannot be given.
    """
    by_schema = declared(schema)
    by_template: dict[str, Kind] = {}
    for template in map(_template, templates):
        for argument in template.arguments:
            if schema.get("additionalProperties") is False and argument.steps[0] not in schema.get("properties", ()):
                raise BadRule(template.text, f"there is no argument {argument.path!r}")
        for part in template.resource or ():
            if isinstance(part, _Argument) and not _known_kind(by_schema, part.path):
                note(by_template, part.path, template.kind)
    return by_template | by_schema


def _known_kind(kinds: Mapping[str, str], path: str) -> str | None:
    """A list may tell the kind of its elements, and the elements that of their list."""
    return kinds.get(path) or kinds.get(path.removesuffix("[*]")) or kinds.get(f"{path}[*]")


def derive(
    templates: Iterable[str],
    args: Mapping[str, Any],
    folders: paths.Folders,
    kinds: Mapping[str, str] | None = None,
    trusted: frozenset[str] = shell.TRUSTED,
    *,
    known: bool = False,
) -> list[Capability]:
    """The capabilities of one call, canonical, in order and without repetition.

    `kinds` says what the schema says of arguments; for others the template does. `known` adds the files and hosts that
    well-known programs name in their words.

    Raises:
        Unfit: an argument cannot be judged: the call is `invalid_arguments`.
        BadRule: a template cannot be read.
    """
    maker = _Maker(args, folders, kinds or {}, trusted, known)
    return list(dict.fromkeys(capability for text in templates for capability in maker.of(_template(text))))


_LEADS = {
    "path": "fs:read",
    "glob": "fs:read",
    "cwd": "fs:read",
    "url": "net:egress",
    "command": "exec:cmd",
    "argv": "exec:cmd",
}


def resolve(
    templates: Iterable[str],
    args: Mapping[str, Any],
    folders: paths.Folders,
    kinds: Mapping[str, str],
    trusted: frozenset[str] = shell.TRUSTED,
) -> tuple[str, ...]:
    """What a call comes down to, for people and to be compared: capabilities, and where other arguments lead."""
    templates = tuple(templates)
    covered = {part.path for text in templates for part in _template(text).arguments}
    lines = [one.text for one in _derived(templates, args, folders, kinds, trusted)]
    for path, kind in kinds.items():
        if kind in _LEADS and path not in covered and path.removesuffix("[*]") not in covered:
            derived = _derived((f"{_LEADS[kind]}:{{{path}}}",), args, folders, kinds, trusted)
            lines += [f"{path}: {one.text.split(':', 2)[-1]}" for one in derived]
    return tuple(dict.fromkeys(lines))


def _derived(
    templates: Iterable[str],
    args: Mapping[str, Any],
    folders: paths.Folders,
    kinds: Mapping[str, str],
    trusted: frozenset[str],
) -> list[Capability]:
    """The same as `derive`; nothing where an argument cannot be judged, which has been told elsewhere."""
    try:
        return derive(templates, args, folders, kinds, trusted, known=True)
    except (UnfitArgument, BadRule):
        return []


class _Maker:
    """Makes capabilities from the arguments of one call."""

    __slots__ = ("_args", "_folders", "_kinds", "_known", "_trusted")

    def __init__(
        self,
        args: Mapping[str, Any],
        folders: paths.Folders,
        kinds: Mapping[str, str],
        trusted: frozenset[str],
        known: bool,
    ) -> None:
        self._args, self._folders, self._kinds, self._trusted, self._known = args, folders, kinds, trusted, known

    def of(self, template: _Template) -> Iterator[Capability]:
        """Those of one template: one for each combination of values; none where a value is absent."""
        arguments = template.arguments
        if not arguments:
            yield from self._made(template, {})
            return
        for values in product(*(self._values(one) for one in arguments)):
            yield from self._made(template, dict(zip(arguments, values, strict=True)))

    def _values(self, argument: _Argument) -> list[Any]:
        """Every value of an argument; the words of a command are one."""
        values = list(_values(self._args, argument.steps, argument.path))
        return [shell.line(values)] if values and self._kind(argument, "text") == "argv" else values

    def _made(self, template: _Template, values: Mapping[_Argument, Any]) -> Iterator[Capability]:
        action = "".join(part if isinstance(part, str) else self._ordinary(part, values) for part in template.action)
        if template.resource is None:
            yield Capability(template.domain, action)
        elif template.domain == "fs":
            yield self._file(action, template.resource, values)
        elif template.domain == "net":
            yield self._net(action, template.resource, values)
        elif is_program(template.domain, action) and values:
            yield from self._exec(template.resource, values)
        else:
            yield self._other(template.domain, action, template.resource, values)

    def _file(self, action: str, parts: tuple[_Part, ...], values: Mapping[_Argument, Any]) -> Capability:
        pattern = any(
            self._kind(part, "path") == "glob" if isinstance(part, _Argument) else _has_marks(part) for part in parts
        )
        texts = []
        for part in parts:
            text = self._plain(part, "path", values)
            raw = isinstance(part, str) or (isinstance(part, _Argument) and self._kind(part, "path") == "glob")
            texts.append(text if raw or not pattern else globs.escaped(text))
        return _files(action, "".join(texts), pattern, self._folders)

    def _net(self, action: str, parts: tuple[_Part, ...], values: Mapping[_Argument, Any]) -> Capability:
        resource = "".join(self._plain(part, "url", values) for part in parts)
        if any(isinstance(part, _Argument) and self._kind(part, "url") != "text" for part in parts):
            return Capability("net", action, urls.canonical(resource).text)
        return _target(action, resource, not values and parse(f"net:{action}:{resource}").within is not None)

    def _exec(self, parts: tuple[_Part, ...], values: Mapping[_Argument, Any]) -> Iterator[Capability]:
        """A command is taken apart, a text is a program; what claims to be anything else counts as both."""
        text = "".join(self._plain(part, "command", values) for part in parts)
        kinds = {self._kind(part, "command") for part in parts if isinstance(part, _Argument)}
        if not kinds <= {"command", "argv"}:
            yield Capability("exec", "cmd", shell.program(text, self._trusted))
        if kinds != {"text"}:
            yield from self._command(text)

    def _command(self, text: str) -> Iterator[Capability]:
        """Programs and redirections; a file whose place is only known when the command runs may be any file."""
        command = shell.analyse(text, self._trusted)
        rehomed = "HOME" in text
        starts_in = [
            str(self._args[name]) for name, kind in self._kinds.items() if kind == "cwd" and self._args.get(name)
        ]
        for domain, action, resource in shell.capabilities(command, known=self._known):
            if domain != "fs":
                capability = Capability(domain, action, resource, "" if resource == "*" else None)
                yield capability if domain == "exec" else canonical(capability, self._folders)
            elif _is_elsewhere(resource, command.moves, rehomed):
                yield Capability("fs", action, paths.EVERYTHING, "/")
            else:
                place = resource if resource.startswith("~") else posixpath.join(*starts_in, resource)
                yield _files(action, place, globs.is_pattern(resource), self._folders)

    def _other(self, domain: str, action: str, parts: tuple[_Part, ...], values: Mapping[_Argument, Any]) -> Capability:
        resource = "".join(self._plain(part, "text", values) for part in parts)
        if not values:
            return canonical(parse(f"{domain}:{action}:{resource}"), self._folders)
        if len(parts) == 1 and isinstance(parts[0], _Argument):
            kind = self._kind(parts[0], "text")
            if kind == "path":
                return Capability(domain, action, paths.canonical(resource, self._folders))
            if kind == "url":
                return Capability(domain, action, urls.canonical(resource).text)
        return Capability(domain, action, resource)

    def _kind(self, part: _Argument, otherwise: Kind) -> str:
        return _known_kind(self._kinds, part.path) or otherwise

    def _plain(self, part: _Part, otherwise: Kind, values: Mapping[_Argument, Any]) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, _Folder):
            return self._folder(part)
        kind = self._kind(part, otherwise)
        judged = otherwise == "command" if kind in ("command", "argv") else kind in ("path", "glob", "url")
        if not judged:
            return self._ordinary(part, values)
        if not isinstance(values[part], str):
            raise UnfitArgument(f"{part.path}: a {kind} is a text")
        return str(values[part])

    def _ordinary(self, part: _Part, values: Mapping[_Argument, Any]) -> str:
        if not isinstance(part, _Argument):
            return self._plain(part, "text", values)
        if self._kind(part, "text") == "secret":
            raise UnfitArgument(f"{part.path}: a secret cannot be part of a capability")
        value = values[part]
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if not text or ":" in text or "*" in text:
            raise UnfitArgument(f"{part.path}: {text[:60]!r} cannot be judged: it is empty or holds ':' or '*'")
        return text

    def _folder(self, part: _Folder) -> str:
        value = {"workspace": self._folders.workspace, "home": self._folders.home}.get(part.name)
        if value is None:
            raise BadRule(f"${{{part.name}}}", "this folder is not known")
        return value


def _has_marks(part: _Part) -> bool:
    return isinstance(part, str) and globs.is_pattern(part)


def _is_elsewhere(resource: str, moves: bool, rehomed: bool) -> bool:
    """True if the shell alone knows where a redirection leads: `~bob/x`, `~+`, or from where it went or calls home."""
    if resource.startswith("~"):
        return rehomed or (resource != "~" and not resource.startswith("~/"))
    return resource == paths.EVERYTHING or (moves and not resource.startswith("/"))


def _values(value: Any, steps: tuple[str | int | None, ...], path: str) -> Iterator[Any]:
    """Every value at a place, none where it is absent; a value of another shape is never passed over."""
    if value is None:
        return
    if isinstance(value, list | tuple):
        yield from _elements(value, steps, path)
    elif not steps:
        if isinstance(value, Mapping):
            raise UnfitArgument(f"{path}: an object cannot be judged")
        yield value
    elif steps[0] is None:
        yield from _values(value, steps[1:], path)
    elif isinstance(value, Mapping) and isinstance(steps[0], str):
        yield from _values(value.get(steps[0]), steps[1:], path)
    else:
        raise UnfitArgument(f"{path}: what stands there cannot be judged")


def _elements(value: Collection[Any], steps: tuple[str | int | None, ...], path: str) -> Iterator[Any]:
    """A list where none is expected counts with all its elements."""
    chosen, rest = list(value), steps
    if steps and isinstance(steps[0], int):
        chosen, rest = chosen[steps[0] : steps[0] + 1], steps[1:]
    elif steps and steps[0] is None:
        rest = steps[1:]
    for element in chosen:
        yield from _values(element, rest, path)
