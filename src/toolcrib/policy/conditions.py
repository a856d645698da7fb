"""What a condition says of the values of one call, by the kind of each argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.origins.index import leaves
from toolcrib.policy import expressions, globs, paths, shell, urls
from toolcrib.policy.origin_conditions import came_from
from toolcrib.policy.patterns import Condition, Op, Step, steps
from toolcrib.tool import canonical

if TYPE_CHECKING:
    from toolcrib.origins.index import OriginIndex

_OPERATOR = re.compile(r"\|\||&&|\|&|[|;&<>`\n]|\$\(")
_SPACED = re.compile(r"(\|\||&&|\|&|>>|<<|[|;&<>])")
_BLANKS = re.compile(r"[ \t]+")
_BETWEEN = re.compile(r" (?:;|&&|\|\||&) |\n")


class Unit(NamedTuple):
    """What rules are decided for: one segment of a command, or the whole line."""

    command: str
    text: str
    whole: bool = False


class Value(NamedTuple):
    """One value at a path, as text, with its kind; a path is what it leads to."""

    kind: str
    text: str


@dataclass(slots=True)
class CallArguments:
    """The arguments of one call as conditions see them."""

    args: Mapping[str, Any]
    kinds: Mapping[str, str]
    primary: str | None
    folders: paths.Folders
    trusted: frozenset[str] = shell.TRUSTED
    origins: OriginIndex | None = None
    by_agent: bool = False
    unit: Unit | None = None
    _evasive: bool | None = None
    _real: dict[str, str] = field(default_factory=dict)

    def command(self, text: str) -> shell.ShellCommand:
        """The analysis of one command."""
        return shell.analyse(text, self.trusted)

    @property
    def evasive(self) -> bool:
        """True if a command says too little of what it will do: it is opaque, or changes how programs are found."""
        if self._evasive is None:
            commands = [self.command(text) for text in self.commands()]
            self._evasive = any(command.opaque or command.unsafe_env for command in commands)
        return self._evasive

    def commands(self) -> list[str]:
        """Every argument of kind command or argv, as a command line, without repetition."""
        commands: dict[str, None] = {}
        for path, kind in self.kinds.items():
            if kind not in ("command", "argv"):
                continue
            for _, value in _walk(self.args, steps(path), ""):
                lines = [shell.line(_words(value))] if kind == "argv" else _words(value)
                commands.update(dict.fromkeys(one for one in lines if isinstance(one, str)))
        return list(commands)

    def groups(self, condition: Condition) -> Iterator[list[Value]]:
        """The values at the path of a condition; a list that nobody spread is one group."""
        if condition.path is None:
            place: tuple[Step, ...] = () if self.primary is None else (self.primary,)
        else:
            place = condition.steps
        if not place:
            return
        for path, value in _walk(self.args, place, ""):
            group = self._group(path, value)
            if group:
                yield group

    def leaves(self, condition: Condition) -> Iterator[Any]:
        """The single values at the path of a condition, as they were given."""
        for _, value in _walk(self.args, condition.steps, ""):
            yield from (one for one in leaves(value) if one is not None)

    def _group(self, path: str, value: Any) -> list[Value]:
        if self.kinds.get(path) == "argv":
            return self._segments(shell.line(_words(value)))
        if isinstance(value, list):
            each = [self._group(f"{path}[*]", element) for element in value if not isinstance(element, list)]
            return [one for group in each for one in group]
        kind = self.kinds.get(path) or self.kinds.get(path.removesuffix("[*]")) or "text"
        if value is None and kind != "text":
            return []  # as good as not given
        if kind == "path":
            return [Value(kind, self._led_to(plain(value)))]
        if kind != "command" or not isinstance(value, str):
            return [Value(kind, plain(value))]
        return self._segments(value)

    def _segments(self, line: str) -> list[Value]:
        """The segments of a command line, or the one that is looked at now."""
        if self.unit is not None and line == self.unit.command:
            return [Value("command", self.unit.text)]
        return [Value("command", segment.text) for segment in self.command(line).segments]

    def _led_to(self, path: str) -> str:
        """Links are followed once for a call, however many rules ask."""
        real = self._real.get(path)
        if real is None:
            real = self._real[path] = paths.canonical(path, self.folders)
        return real


def _words(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def holds(condition: Condition, call: CallArguments, every: bool = False) -> bool:
    """True if some value at its path satisfies it; of a list that nobody spread `every` element must, if so asked.

    Raises:
        Unfit: a value is none of its kind.
    """
    if condition.op == "from":
        argument = call.primary if condition.path is None else str(condition.steps[0])
        return came_from(condition.value, argument, call.leaves(condition), call.origins, call.by_agent, every)
    some = all if every else any
    return any(
        some(_test(condition, value.kind, call.folders, every)(value.text) is not condition.negated for value in group)
        for group in call.groups(condition)
    )


def holds_operator(condition: Condition) -> bool:
    """True if it speaks of more than one command, so that the whole line must be looked at."""
    return not condition.negated and _OPERATOR.search(condition.value) is not None


def same_operators(conditions: Iterable[Condition], line: str) -> bool:
    """True if some condition writes out every operator of a line, so that no wildcard of it can hide one."""
    there = len(_OPERATOR.findall(line))
    return any(len(_OPERATOR.findall(condition.value)) == there for condition in conditions)


def spaced(command: str) -> str:
    """A line with one blank on both sides of each operator, so that `a|b` reads as `a | b` does."""
    return _BLANKS.sub(" ", _SPACED.sub(r" \1 ", command)).strip()


def lines(command: shell.ShellCommand, text: str) -> list[str]:
    """A line as a whole, as written and spaced, and each pipeline of its list."""
    line = spaced(command.whole)
    return list(dict.fromkeys((text.strip(), line, *(part.strip() for part in _BETWEEN.split(line)))))


def plain(value: Any) -> str:
    """A text as it is, anything else as its JSON."""
    return value if isinstance(value, str) else canonical(value).decode()


def _walk(value: Any, place: Sequence[Step], path: str) -> Iterator[tuple[str, Any]]:
    """Every value at a place, with the path by which its kind is known."""
    if not place:
        yield path, value
        return
    step, rest = place[0], place[1:]
    if isinstance(step, str):
        if isinstance(value, Mapping):
            for key in list(value) if step == "*" else [step] if step in value else []:
                yield from _walk(value[key], rest, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for element in value if step is None else value[step : step + 1]:
            yield from _walk(element, rest, f"{path}[*]")


def _test(condition: Condition, kind: str, folders: paths.Folders, loosens: bool) -> Callable[[str], bool]:
    """What loosens is read narrowly, what does not widely; a negation turns this round."""
    op, value, negated = condition.op, condition.value, condition.negated
    if kind == "path":
        return _path_test(op, value, folders)
    if op == "=":
        return value.__eq__
    if op == "=~":
        return expressions.whole(value)
    if kind == "glob":
        return _set_test(value, folders, loosens is negated)
    if kind == "url":
        return _url_test(value, loosens is negated)
    return _command_glob(value) if kind == "command" else globs.text(value)


@lru_cache(4096)
def _url_test(value: str, widely: bool) -> Callable[[str], bool]:
    """Without a path it is a net grant, otherwise a glob over the URL as given."""
    if re.search(r"[/?#]", re.sub(r"^[A-Za-z]+://", "", value)):
        return globs.text(value)
    grant = urls.grant(value)
    covers = grant.widely if widely else grant
    return lambda url: covers(urls.canonical(url))


@lru_cache(4096)
def _command_glob(value: str) -> Callable[[str], bool]:
    """A final blank and star also match nothing more."""
    forms = dict.fromkeys((value, spaced(value)))
    tests = [globs.text(form) for form in forms] + [globs.text(form[:-2]) for form in forms if form.endswith(" *")]
    return tests[0] if len(tests) == 1 else lambda text: any(test(text) for test in tests)


@lru_cache(16384)
def _path_test(op: Op, value: str, folders: paths.Folders) -> Callable[[str], bool]:
    """Paths are compared after links and dots are resolved, never as written."""
    if op == "~":
        return paths.glob(value, folders).__call__
    if op == "=":
        return paths.canonical(value, replace(folders, resolve=str)).__eq__
    matches, inside = expressions.whole(value), folders.workspace.rstrip("/") + "/"

    def either(path: str) -> bool:
        """An expression may speak of the whole path or of the part in the workspace."""
        return matches(path) or (path.startswith(inside) and matches(path.removeprefix(inside)))

    return either


@lru_cache(16384)
def _set_test(value: str, folders: paths.Folders, widely: bool) -> Callable[[str], bool]:
    """A glob among the arguments asks for many paths: all must be covered, or `widely`, some may be."""
    covers = paths.glob(value, folders)

    def test(text: str) -> bool:
        wanted = paths.asked(text, folders)
        if wanted is None:
            return covers(paths.canonical(text, folders))
        if wanted.text == covers.text or covers.covers_below(wanted.folder):
            return True
        folder = paths.key(wanted.folder)
        return widely and not covers.name and (covers.prefix.startswith(folder) or folder.startswith(covers.prefix))

    return test
