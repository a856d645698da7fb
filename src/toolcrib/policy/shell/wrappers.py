"""Which words of a command are a command themselves: wrappers, their options, and scripts given as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from toolcrib.policy.shell.options import GivenOptions, Options, UnclearOption, read_options
from toolcrib.policy.shell.words import Word


class WrappedCommand(NamedTuple):
    """Words that are run as a command."""

    words: tuple[Word, ...]


class WrappedScript(NamedTuple):
    """Text that is run as a script; None where it is not known."""

    text: str | None


class VariableAssignment(NamedTuple):
    """A variable that is set for what is run."""

    name: str
    value: Word


class FolderChange(NamedTuple):
    """What is run starts in another folder, from which relative paths count."""


Inner = WrappedCommand | WrappedScript | VariableAssignment | FolderChange
UNKNOWN = WrappedScript(None)

# Appended to the words of a command that gets more of them when it runs.
MORE = Word("", None, splits=True)


def _rest(words: Sequence[Word], at: int) -> list[Inner]:
    return [WrappedCommand(tuple(words[at:]))] if at < len(words) else []


def _with_assignments(words: Sequence[Word], at: int) -> tuple[list[Inner], int]:
    """Step over assignments before a program, quoted or not; one that may be several words hides what runs."""
    inner: list[Inner] = []
    while at < len(words) and (words[at].assigns or "=" in (words[at].literal or "")[1:]):
        if words[at].splits:
            raise UnclearOption
        name, _, value = words[at].plain.partition("=")
        inner.append(VariableAssignment(name, Word(value, None if words[at].literal is None else value)))
        at += 1
    return inner, at


def _moved(parsed: GivenOptions, *names: str) -> list[Inner]:
    """A change of the folder, if one of these options is there."""
    return [FolderChange()] if parsed.has(*names) else []


def _plain(spec: Options, operands: int = 0, *, asks: str = "") -> Callable[[Sequence[Word]], list[Inner]]:
    """A wrapper that runs the words after its options and operands, unless an option only asks."""

    def runs(words: Sequence[Word]) -> list[Inner]:
        parsed = read_options(words, spec)
        if asks and parsed.has(*asks.split()):
            return []
        if any(word.splits for word in words[parsed.rest : parsed.rest + operands]):
            return [UNKNOWN]
        return _rest(words, parsed.rest + operands)

    return runs


_ENV = Options(
    "i0u:C:S:va:",
    "ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling help version",
    "unset chdir split-string argv0",
)


def _env(words: Sequence[Word]) -> list[Inner]:
    start = 1
    while start < len(words) and words[start].literal == "-":
        start += 1
    parsed = read_options(words, _ENV, start)
    moved = _moved(parsed, "C", "--chdir")
    at = parsed.rest
    if at < len(words) and words[at].literal == "-":
        at += 1
    if parsed.has("S", "--split-string"):
        text = parsed.value("S", "--split-string")
        # Its own way of quoting is close to the shell's, not the same.
        tail = [word.text for word in words[at:]]
        known = text is not None and text.literal is not None and not set(text.literal) & set("\\$#'\"`;&|<>()\n-")
        assert text is not None
        return [*moved, WrappedScript(" ".join([text.plain, *tail])) if known else UNKNOWN]
    inner, at = _with_assignments(words, at)
    if at < len(words) and inner and words[at].plain.startswith("-"):
        return [*moved, *inner, *_env((words[0], *words[at:]))]
    return [*moved, *inner, *_rest(words, at)]


_SUDO = Options(
    "ABbC:D:Eeg:Hh:iKklNnPp:R:r:SsT:t:U:u:Vv",
    "askpass background bell edit set-home login reset-timestamp remove-timestamp list no-update non-interactive"
    " preserve-env preserve-groups stdin shell validate version help",
    "close-from chdir chroot group host prompt role command-timeout type other-user user",
)


def _sudo(words: Sequence[Word]) -> list[Inner]:
    parsed = read_options(words, _SUDO)
    if parsed.has("e", "--edit"):
        return [UNKNOWN]
    if parsed.has("l", "--list", "v", "--validate"):
        return []
    inner, at = _with_assignments(words, parsed.rest)
    return [*_moved(parsed, "D", "--chdir", "R", "--chroot", "i", "--login"), *inner, *_rest(words, at)]


_SU = Options(
    "c:fg:G:lmpPs:w:T", "fast login preserve-environment pty no-pty help version",
    "command session-command group supp-group shell whitelist-environment",
)  # fmt: skip


def _su(words: Sequence[Word]) -> list[Inner]:
    inner: list[Inner] = []
    operands, at = 0, 1
    while at < len(words):
        parsed = read_options(words, _SU, at)
        inner += _moved(parsed, "l", "--login")
        inner += [_script(value) for name, value in parsed.options if name in ("c", "--command", "--session-command")]
        if shell := parsed.value("s", "--shell"):
            inner.append(WrappedCommand((shell,)))
        at = parsed.rest
        if at < len(words):
            inner += [FolderChange()] if words[at].literal == "-" else []
            operands += words[at].literal != "-"
            at += 1
    # What follows the user are arguments of the user's shell.
    return [*inner, UNKNOWN] if operands > 1 else inner


def _script(word: Word | None) -> WrappedScript:
    return WrappedScript(None if word is None else word.literal)


_XARGS = Options(
    "0a:d:E:e?I:i?L:l?n:P:prs:txoR:S:J:",
    "null eof replace max-lines interactive no-run-if-empty verbose exit open-tty show-limits help version",
    "arg-file delimiter max-args max-procs max-chars process-slot-var",
)


def _xargs(words: Sequence[Word]) -> list[Inner]:
    parsed = read_options(words, _XARGS)
    if parsed.rest >= len(words):
        return []
    replaced = parsed.value("I", "J", "i", "--replace")
    if parsed.has("I", "J", "i", "--replace"):
        mark = "{}" if replaced is None else replaced.literal
        return [WrappedCommand(tuple(_filled(word, mark) for word in words[parsed.rest :]))]
    return [WrappedCommand((*words[parsed.rest :], MORE))]


def _filled(word: Word, mark: str | None) -> Word:
    """The word, of which nothing is known where the mark is replaced."""
    return Word(word.source, None) if mark is None or mark in word.plain else word


_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _find(words: Sequence[Word]) -> list[Inner]:
    inner: list[Inner] = []
    start = 0
    for at, word in enumerate(words):
        if not start and word.literal in _EXEC:
            start = at + 1
            inner += [FolderChange()] if word.plain.endswith("dir") else []
        elif word.literal == ";" or (start and word.literal == "+" and words[at - 1].literal == "{}"):
            inner.append(WrappedCommand(tuple(_filled(part, "{}") for part in words[start:at])) if start else UNKNOWN)
            start = 0
    return [*inner, UNKNOWN] if start else inner


_WATCH = Options(
    "bcCdefgn:pq:rs:tvwx",
    "beep color no-color differences errexit follow chgexit precise no-rerun no-title no-wrap exec help version",
    "interval equexit shotsdir",
)


def _watch(words: Sequence[Word]) -> list[Inner]:
    parsed = read_options(words, _WATCH)
    if parsed.has("x", "--exec"):
        return _rest(words, parsed.rest)
    return _joined(words[parsed.rest :])


def _joined(words: Sequence[Word]) -> list[Inner]:
    """The script that some words make together."""
    literals = [word.literal for word in words]
    known = [literal for literal in literals if literal is not None]
    if len(known) < len(literals):
        return [UNKNOWN]
    return [WrappedScript(" ".join(known))] if known else []


def _eval(words: Sequence[Word]) -> list[Inner]:
    at = 2 if len(words) > 1 and words[1].literal == "--" else 1
    return _joined(words[at:])


# Neither `k`, with which words behind a command are assignments, nor `H`, with which `!` stands for earlier words.
_SHELL_FLAGS = frozenset("abcefhilmnoprstuvxyBCDEGOPT")
# Settings that change how the rest is read, as `set -o` and `shopt` name them.
REWRITING = frozenset({"keyword", "history", "histexpand", "expand_aliases", "extglob"})
_SHELL_WORDS = frozenset(
    {"--login", "--posix", "--norc", "--noprofile", "--noediting", "--restricted", "--verbose", "--no-rcs"}
)


class _ShellOptions(NamedTuple):
    """How a shell was called: the letters of its options, and where the rest starts."""

    letters: frozenset[str]
    rest: int


def _shell_options(words: Sequence[Word]) -> _ShellOptions:
    at, flags = 1, set[str]()
    while at < len(words):
        text = words[at].literal
        if text is None:
            raise UnclearOption
        if text in ("--", "-"):
            at += 1
            break
        if text in _SHELL_WORDS:
            at += 1
            continue
        if text[:1] not in ("-", "+") or len(text) < 2:
            break
        letters = text[1:]
        if not set(letters) <= _SHELL_FLAGS:
            raise UnclearOption
        flags |= set(letters) if text[0] == "-" else set()
        named = letters.count("o") + letters.count("O")
        if any(word.literal is None or word.literal in REWRITING for word in words[at + 1 : at + 1 + named]):
            raise UnclearOption
        at += 1 + named
    return _ShellOptions(frozenset(flags), at)


def _shell(words: Sequence[Word]) -> list[Inner]:
    """With the option `c` the first word after the options is a script."""
    options = _shell_options(words)
    return [_script(words[options.rest])] if "c" in options.letters and options.rest < len(words) else []


def reads_input(name: str, words: Sequence[Word], inner: Sequence[Inner]) -> bool:
    """True if the program of this name is, or becomes, a shell that takes its script from its input."""
    if name not in SHELLS:
        return name in _BECOMING and all(isinstance(item, VariableAssignment | FolderChange) for item in inner)
    try:
        options = _shell_options(words)
    except UnclearOption:
        return False
    return "c" not in options.letters and ("s" in options.letters or options.rest >= len(words))


def _nice(words: Sequence[Word]) -> list[Inner]:
    at = 1
    # The old form: -5, --5, +5.
    while at < len(words) and (words[at].literal or "").lstrip("-+").isdigit() and words[at].plain[0] in "-+":
        at += 1
    parsed = read_options(words, Options("n:", "help version", "adjustment"), at)
    return _rest(words, parsed.rest)


def _trap(words: Sequence[Word]) -> list[Inner]:
    parsed = read_options(words, Options("lpP"))
    if parsed.options or len(words) - parsed.rest < 2:
        return []
    return [] if words[parsed.rest].literal == "-" else [_script(words[parsed.rest])]


def _alias(words: Sequence[Word]) -> list[Inner]:
    inner: list[Inner] = []
    for word in words[1:]:
        if word.literal is None:
            inner.append(UNKNOWN)
        elif "=" in word.literal:
            inner.append(WrappedScript(word.literal.partition("=")[2]))
    return inner


def _callback(options: str, *texts: str) -> Callable[[Sequence[Word]], list[Inner]]:
    """A builtin whose options of these letters take a script, or whatever else changes what runs."""

    def runs(words: Sequence[Word]) -> list[Inner]:
        for word in words[1:]:
            text = word.plain
            if word.literal is None or (text[:1] == "-" and set(text[1:]) & set(options)) or text in texts:
                return [UNKNOWN]
        return []

    return runs


_TIME = Options("pf:o:avqhV", "portability append verbose quiet help version", "format output")
_TIMEOUT = Options("k:s:vfp", "preserve-status foreground verbose help version", "kill-after signal")
_STDBUF = Options("i:o:e:", "help version", "input output error")
_IONICE = Options("c:n:tp:P:u:hV", "ignore help version", "class classdata pid pgid uid")
_SETSID = Options("cfwhV", "ctty fork wait help version")

_FLOCK = Options(
    "csxuneow:E:FhV",
    "shared exclusive unlock nonblock close no-fork verbose help version",
    "timeout conflict-exit-code",
)


def _flock(words: Sequence[Word]) -> list[Inner]:
    """The words after the file are a command, or with `-c` behind it a script."""
    parsed = read_options(words, _FLOCK)
    at = parsed.rest + 1
    if any(word.splits for word in words[parsed.rest : at]):
        return [UNKNOWN]
    if at < len(words) and words[at].literal in ("-c", "--command"):
        return [_script(words[at + 1]) if at + 1 < len(words) else UNKNOWN]
    return _rest(words, at)


_SCRIPT_OPTIONS = Options(
    "aefqc:E:I:O:B:T:m:o:t?hV",
    "append return flush force quiet help version",
    "command echo log-in log-out log-io log-timing logging-format output-limit",
)


def _recorded(words: Sequence[Word]) -> list[Inner]:
    """`script` runs what `-c` says, else a shell."""
    parsed = read_options(words, _SCRIPT_OPTIONS)
    value = parsed.value("c", "--command")
    return [UNKNOWN if value is None else _script(value)]


_TASKSET = Options("apchV", "all-tasks pid cpu-list help version")
_PRLIMIT = Options(
    "hVvc?d?e?f?i?l?m?n?q?r?s?t?u?x?y?p:o:",
    "noheadings raw verbose help version core data nice fsize sigpending memlock rss nofile msgqueue "
    "rtprio stack cpu nproc as locks rttime",
    "pid output",
)
_CHRT = Options(
    "abdfhimopRrvVT:P:D:",
    "all-tasks batch deadline fifo idle max other pid reset-on-fork rr verbose help version",
    "sched-runtime sched-period sched-deadline",
)
_SETARCH = Options(
    "vhVBFILRSTXZ3",
    "verbose help version 32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize "
    "whole-seconds sticky-timeouts read-implies-exec mmap-page-zero 3gb uname-2.6",
)
_CHROOT = Options("", "skip-chdir help version", "groups userspec")


def _chroot(words: Sequence[Word]) -> list[Inner]:
    """Paths count from another root."""
    return [FolderChange(), *_plain(_CHROOT, operands=1)(words)]


# Without a command they start a shell.
_BECOMING = frozenset({"sudo", "su", "doas"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash"})

_WRAPPERS: dict[str, Callable[[Sequence[Word]], list[Inner]]] = {
    "env": _env,
    "sudo": _sudo,
    "doas": _plain(Options("C:Lnsu:"), asks="L C"),
    "su": _su,
    "nohup": _plain(Options("", "help version")),
    "time": _plain(_TIME),
    "timeout": _plain(_TIMEOUT, operands=1),
    "nice": _nice,
    "ionice": _plain(_IONICE, asks="p P u --pid --pgid --uid"),
    "stdbuf": _plain(_STDBUF),
    "setsid": _plain(_SETSID),
    "flock": _flock,
    "script": _recorded,
    "taskset": _plain(_TASKSET, operands=1, asks="p --pid"),
    "prlimit": _plain(_PRLIMIT),
    "chrt": _plain(_CHRT, operands=1, asks="p --pid m --max"),
    "chroot": _chroot,
    "setarch": _plain(_SETARCH, operands=1),
    **dict.fromkeys(("linux32", "linux64", "i386", "x86_64", "fakeroot", "unbuffer"), _plain(_SETARCH)),
    "watch": _watch,
    "command": _plain(Options("pvV"), asks="v V"),
    "builtin": _plain(Options()),
    "exec": _plain(Options("cla:")),
    "busybox": _plain(Options("", "list list-full help install show")),
    "xargs": _xargs,
    "find": _find,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "mapfile": _callback("C"),
    "readarray": _callback("C"),
    "hash": _callback("p"),
    "enable": _callback("f"),
    "complete": _callback("CF"),
    "compgen": _callback("CFW"),
    "bind": _callback("x"),
    "jobs": _callback("x"),
    "fc": _callback("se"),
    "shopt": _callback("", *REWRITING),
    **dict.fromkeys(SHELLS, _shell),
}


def runs(name: str, words: Sequence[Word]) -> list[Inner]:
    """What the program of this name runs when it is called with these words."""
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return []
    try:
        return wrapper(words)
    except UnclearOption:
        return [UNKNOWN]
