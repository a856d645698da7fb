"""The segments of a command, and what else a policy must know of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolcrib.policy.shell.arithmetic import Evaluations
from toolcrib.policy.shell.builtins import NAMING, evaluate
from toolcrib.policy.shell.environment import dangerous
from toolcrib.policy.shell.grammar import DECLARING, assignment, parse
from toolcrib.policy.shell.programs import may_run_others
from toolcrib.policy.shell.words import Assignment, Redirection, ShellSyntaxError, SimpleCommand, Word
from toolcrib.policy.shell.wrappers import (
    FolderChange,
    Inner,
    VariableAssignment,
    WrappedCommand,
    WrappedScript,
    reads_input,
    runs,
)

TRUSTED = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
UNKNOWN_PROGRAM = "?"
DEEPEST = 8
# Wrappers of wrappers.
MOST_WRAPPED = 24
# No system takes a longer text as one argument of a program.
LONGEST = 131_072

_MOVING = frozenset({"cd", "pushd", "popd"})
_SILENT = frozenset({"[", "test", "true", "false", ":"})
_DESCRIPTOR = re.compile(r"[0-9]*-?\Z")
_NOT_FILES = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|fd/[0-9]+)\Z")
# Prompts that the shell expands each time it shows them.
_PROMPTS = frozenset({"PS0", "PS1", "PS2", "PS3", "PS4"})
# Where the shell keeps what a name stands for, and what it runs by itself.
_TABLES = frozenset({"BASH_CMDS", "BASH_ALIASES", "PROMPT_COMMAND"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command: its program (`?` where it is not known), its words after quote removal, and its text.

    `fixed` says of each word whether it is as the command will get it: not expanded.
    """

    program: str
    words: tuple[str, ...] = ()
    text: str = ""
    assignments: tuple[tuple[str, str], ...] = ()
    redirections: tuple[tuple[str, str], ...] = ()
    fixed: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command that was read: its segments in the order of the text, at least one, which is empty if there is none.

    `unknown` says that it is opaque because of what it runs. `files` are `read` and `write` with the names that are
    redirected to, in order, None for one that is computed. `whole` is the line with single blanks. `moves` says that
    some of it runs in another folder than it starts in.
    """

    segments: tuple[Segment, ...]
    opaque: bool
    unsafe_env: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    whole: str
    unknown: bool = False
    files: tuple[tuple[str, str | None], ...] = ()
    moves: bool = False


@dataclass(slots=True)
class _Analysis:
    """What has been found so far."""

    trusted: frozenset[str]
    segments: list[Segment] = field(default_factory=list)
    # An ordered set.
    files: dict[tuple[str, str | None], None] = field(default_factory=dict)
    unknown: bool = False
    unsafe_env: bool = False
    home_moves: bool = False
    moves: bool = False
    # A shell takes its script from the input that something around it may have; there is a text for some input.
    reads_script: bool = False
    has_text: bool = False
    wrapped: int = 0
    evaluations: Evaluations = field(default_factory=Evaluations)

    def script(self, text: str | None, depth: int) -> str:
        """Add the segments of a text, and give its line."""
        if text is None or depth > DEEPEST or len(text) > LONGEST:
            self.lost(text or "")
            return text or ""
        try:
            parsed = parse(text, self.evaluations)
        except ShellSyntaxError:
            self.lost(text)
            return text.strip()
        for simple in parsed.commands:
            self.simple(simple, depth)
        return parsed.line

    def lost(self, text: str) -> None:
        """Add a segment of which nothing is known."""
        self.unknown = True
        self.segments.append(Segment(UNKNOWN_PROGRAM, (), text.strip()))

    def simple(self, simple: SimpleCommand, depth: int) -> None:
        """Add the segments of a simple command."""
        for assigned in simple.assignments:
            self.assigns(assigned)
        for redirection in simple.redirections:
            self.redirects(redirection)
        if simple.prefix:
            self.segments.append(self.segment("time", simple.words, simple))
        elif simple.words:
            self.command(simple.words, simple, depth)

    def assigns(self, assigned: Assignment) -> None:
        """Note a variable that is set."""
        value = assigned.value
        self.evaluations.assign(assigned.name, value)
        expands = assigned.name in _PROMPTS and (value.literal is None or "$" in value.plain or "`" in value.plain)
        self.home_moves = self.home_moves or assigned.name == "HOME"
        if value.injects or expands or assigned.name in _TABLES:
            self.lost(value.source)

    def redirects(self, redirection: Redirection) -> None:
        """Note the file that a redirection opens."""
        operator, target = redirection
        if operator in ("<<", "<<<") or target.stream:
            self.has_text = True
            return
        duplicates = operator in ("<&", ">&") and _DESCRIPTOR.match(target.plain) is not None
        if duplicates or _NOT_FILES.match(target.plain):
            return
        path = None if target.literal is None else _path(target)
        if operator[0] == "<":
            self.files["read", path] = None
        if ">" in operator:
            self.files["write", path] = None

    def segment(self, program: str, words: Sequence[Word], simple: SimpleCommand) -> Segment:
        """Make a segment of words, the first of which is the program."""
        shown = [word for word in words if word.source]
        first = shown[0].text if program == UNKNOWN_PROGRAM and shown else Word(program, program).text
        return Segment(
            program,
            tuple(word.plain for word in shown),
            " ".join([first, *(word.text for word in shown[1:])]),
            tuple((name, value.plain) for name, value in simple.assignments),
            tuple((operator, target.plain) for operator, target in simple.redirections),
            tuple(word.literal is not None for word in shown),
        )

    def command(self, words: Sequence[Word], simple: SimpleCommand, depth: int) -> None:
        """Add the segments of a program with its words."""
        path = words[0].literal
        if not path:
            self.unknown = True
            self.segments.append(self.segment(UNKNOWN_PROGRAM, words, simple))
            return
        name = program(path, self.trusted)
        self.moves = self.moves or name in _MOVING
        if name in DECLARING:
            self.declares(words[1:])
            return
        if name not in _SILENT:
            self.segments.append(self.segment(name, words, simple))
        self.builtin(name, words)
        base = path.rpartition("/")[2]
        self.unknown = self.unknown or may_run_others(name, words)
        inner_commands = runs(base, words)
        for inner in inner_commands:
            self.inner(inner, simple, depth)
        if reads_input(base, words, inner_commands):
            own = any(operator.startswith("<") for operator, _ in simple.redirections)
            self.reads_script = self.reads_script or not own
            self.documents(simple, depth)

    def inner(self, inner: Inner, simple: SimpleCommand, depth: int) -> None:
        """Add what a wrapper runs."""
        self.wrapped += 1
        match inner:
            case WrappedCommand(words):
                self.command(words, _within(simple), depth) if words and self.wrapped <= MOST_WRAPPED else self.lost("")
            case WrappedScript(text):
                self.script(text, depth + 1)
            case VariableAssignment(name, value):
                self.assigns(Assignment(name, value))
            case FolderChange():
                self.moves = True
        self.wrapped -= 1

    def documents(self, simple: SimpleCommand, depth: int) -> None:
        """Add the commands that a shell reads from a text in the command."""
        for operator, target in simple.redirections:
            if operator in ("<<", "<<<"):
                self.script(target.literal, depth + 1)
            elif operator == "<" and target.stream:
                self.lost(target.source)

    def declares(self, words: Sequence[Word]) -> None:
        """Note the variables that `export` and its like set; a computed name may be any."""
        letters = "".join(word.plain[1:] for word in words if word.literal and word.literal[0] in "-+")
        # A reference to another name, which may be any.
        self.evaluations.unknown = self.evaluations.unknown or "n" in letters
        for word in words:
            if word.assigns is not None:
                self.declared(assignment(word), integer="i" in letters)
                self.evaluations.element(Word(_target(word), _target(word)))
            elif word.literal is None:
                self.unsafe_env = True
            elif word.literal[:1] not in ("-", "+"):
                name, _, value = word.literal.partition("=")
                self.evaluations.element(Word(name, name))
                if value.startswith("("):  # a list in quotes is read and expanded like one without
                    self.lost(word.source)
                self.declared(Assignment(name, Word(value, value)), integer="i" in letters)
                if word.injects:
                    self.lost(word.source)

    def declared(self, assigned: Assignment, *, integer: bool) -> None:
        """Note a variable that is declared, and whether all its values are evaluated as numbers."""
        self.assigns(assigned)
        if integer:
            self.evaluations.integer(assigned.name)

    def builtin(self, name: str, words: Sequence[Word]) -> None:
        """Note what a builtin of the shell changes or evaluates."""
        if name in ("source", "."):
            self.unknown = True
        if name in NAMING or name in _SILENT:
            if any(word.injects for word in words):
                self.lost(words[0].source)
            evaluate(name, words, self.evaluations)


def _target(word: Word) -> str:
    """What a word that assigns sets: a name or an element, as written."""
    return word.source[: word.source.rindex("]=") + 1] if "]=" in word.source else word.assigns or ""


def _within(simple: SimpleCommand) -> SimpleCommand:
    """What a wrapped command has of its wrapper: the same input and output."""
    return SimpleCommand(redirections=simple.redirections)


def _path(word: Word) -> str:
    """The path that a word names; a tilde that was quoted is an ordinary character."""
    assert word.literal is not None
    quoted = word.literal.startswith("~") and not word.source.startswith("~")
    return f"./{word.literal}" if quoted else word.literal


def program(path: str, trusted: frozenset[str] = TRUSTED) -> str:
    """The name of a program that is bare or lies in a trusted folder, otherwise its path as written."""
    folder, slash, name = path.rpartition("/")
    return name if slash and name and folder in trusted else path


def line(argv: Iterable[Any]) -> str:
    """The command line that runs these words and does nothing else: each is quoted, also one that means something."""
    return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in argv)


@lru_cache(1024)
def analyse(command: str, trusted: frozenset[str] = TRUSTED) -> ShellCommand:
    """Read a shell command; what cannot be read is a segment `?` that makes it opaque, never an error."""
    analysis = _Analysis(trusted)
    whole = analysis.script(command, 0)
    files = tuple(
        (action, None if path is not None and path.startswith("~") and analysis.home_moves else path)
        for action, path in analysis.files
    )
    unknown = analysis.unknown or not analysis.evaluations.literal or (analysis.reads_script and analysis.has_text)
    return ShellCommand(
        segments=tuple(analysis.segments) or (Segment(""),),
        opaque=unknown or any(path is None for _, path in files),
        unsafe_env=analysis.unsafe_env or any(map(dangerous, analysis.evaluations.may_set)),
        reads=tuple(path for action, path in files if action == "read" and path is not None),
        writes=tuple(path for action, path in files if action == "write" and path is not None),
        whole=whole,
        unknown=unknown,
        files=files,
        moves=analysis.moves,
    )
