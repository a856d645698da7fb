"""The capabilities of a command: its programs and redirections, and the files and hosts that known programs name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from toolcrib.policy.shell.segments import UNKNOWN_PROGRAM, Command, Segment

ANY_FILE = "/**"

Need = tuple[str, str, str]


def capabilities(command: Command, *, known: bool = False) -> list[Need]:
    """What a command needs, as (domain, action, resource as written), in order and without repetition.

    `known` adds the files and hosts in the words of well-known programs.
    """
    needs: dict[Need, None] = {}
    for segment in command.segments:
        if segment.program:
            needs["exec", "cmd", "*" if segment.program == UNKNOWN_PROGRAM else segment.program] = None
    if command.unknown or command.unsafe_env:
        needs["exec", "cmd", "*"] = None
    for action, path in command.files:
        needs["fs", action, ANY_FILE if path is None else path] = None
        if path is not None and path.startswith(_SOCKETS):
            needs["net", "egress", _socket(path)] = None
    if known:
        for segment in command.segments:
            needs.update(dict.fromkeys(_of(segment)))
    return list(needs)


# Names that bash takes for a connection.
_SOCKETS = ("/dev/tcp/", "/dev/udp/")


def _socket(path: str) -> str:
    host, slash, port = path[len(_SOCKETS[0]) :].partition("/")
    return f"{host}:{port}" if host and slash and port.isdigit() else "*"


class _Word(NamedTuple):
    """A word of a segment, and whether it is as written."""

    text: str
    fixed: bool


class _Split(NamedTuple):
    """Words sorted into operands and the values of options."""

    operands: list[_Word]
    values: list[tuple[str, _Word]]
    flags: set[str]

    def of(self, *names: str) -> list[_Word]:
        """The values of these options."""
        return [value for name, value in self.values if name in names]


def _split(words: Sequence[_Word], valued: str) -> _Split:
    """Sort words; `valued` names the options that take a value, as `-o` or `--output`."""
    names, split = valued.split(), _Split([], [], set())
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--" and word.fixed:
            split.operands.extend(rest)
        elif len(text) < 2 or text[0] != "-":
            split.operands.append(word)
        else:
            _option(word, names, rest, split)
    return split


def _option(word: _Word, names: Sequence[str], rest: Iterator[_Word], split: _Split) -> None:
    text = word.text
    name, equals, value = text.partition("=")
    if text.startswith("--"):
        split.flags.add(name)
        if equals:
            split.values.append((name, _Word(value, word.fixed)))
        elif name in names and (following := next(rest, None)):
            split.values.append((name, following))
        return
    for index, letter in enumerate(text[1:], 2):
        split.flags.add(f"-{letter}")
        if f"-{letter}" in names:
            given = _Word(text[index:], word.fixed) if text[index:] else next(rest, None)
            split.values.extend([(f"-{letter}", given)] if given else [])
            return


def _paths(action: str, words: Sequence[_Word]) -> list[Need]:
    return [("fs", action, _path(word)) for word in words if word.text != "-"]


def _path(word: _Word) -> str:
    return word.text if word.fixed else ANY_FILE


_PORTS = {"ssh://": 22, "git+ssh://": 22, "git://": 9418}


def _hosts(words: Sequence[_Word]) -> list[Need]:
    return [("net", "egress", _host(word)) for word in words]


def _host(word: _Word) -> str:
    """The URL as written; what is computed may be anywhere, and `user@host:path` is a place to reach by SSH."""
    if not word.fixed:
        return "*"
    name, colon, _ = word.text.partition(":")
    if colon and "://" not in word.text and "/" not in name and "@" in name:
        return f"{name.rpartition('@')[2]}:22"
    for scheme, port in _PORTS.items():
        if word.text.startswith(scheme):
            place = word.text.removeprefix(scheme).partition("/")[0].rpartition("@")[2]
            return place if ":" in place else f"{place}:{port}"
    return word.text


def _reads(
    valued: str = "", *, skip: int = 0, unless: str = "", here: bool = False
) -> Callable[[list[_Word]], list[Need]]:
    """A program that reads its operands, but for the first `skip` if none of the options `unless` is given."""

    def needs(words: list[_Word]) -> list[Need]:
        split = _split(words, valued)
        skipped = 0 if split.flags & set(unless.split()) else skip
        operands = split.operands[skipped:]
        found = _paths("read", operands or ([_Word(".", True)] if here else []))
        found += _paths("read", split.of("-f", "--file", "--from-file", "--files0-from", "-T"))
        return found + _paths("write", split.of("-o", "--output"))

    return needs


def _writes(valued: str = "") -> Callable[[list[_Word]], list[Need]]:
    """A program that writes its operands."""
    return lambda words: _paths("write", _split(words, valued).operands)


def _copies(*, moves: bool) -> Callable[[list[_Word]], list[Need]]:
    """A program whose last operand, or `-t`, is written, and whose others are read, or written too if it moves them."""

    def needs(words: list[_Word]) -> list[Need]:
        split = _split(words, "-t --target-directory -S --suffix")
        into = split.of("-t", "--target-directory")
        sources = split.operands if into else split.operands[:-1]
        targets = into or split.operands[-1:]
        found = _paths("read", sources)
        return found + _paths("write", [*sources, *targets] if moves else targets)

    return needs


def _sed(words: list[_Word]) -> list[Need]:
    split = _split(words, "-e --expression -f --file -l --line-length")
    given = split.flags & {"-e", "--expression", "-f", "--file"}
    files = split.operands[0 if given else 1 :]
    in_place = split.flags & {"-i", "--in-place"}
    return _paths("read", [*split.of("-f", "--file"), *files]) + (_paths("write", files) if in_place else [])


def _find(words: list[_Word]) -> list[Need]:
    start = next(
        (at for at, word in enumerate(words) if word.text[:1] in ("-", "(", "!") and word.text not in _LINKS), None
    )
    places = [word for word in words[:start] if word.text not in _LINKS] or [_Word(".", True)]
    tests = words[start:] if start is not None else []
    found = _paths("read", places)
    if any(word.text == "-delete" for word in tests):
        found += _paths("write", places)
    prints = [tests[at + 1] for at, word in enumerate(tests[:-1]) if word.text in _PRINTS]
    return found + _paths("write", prints)


_LINKS = frozenset({"-H", "-L", "-P"})
_PRINTS = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})

_CURL = (
    "-o --output -X --request -H --header -d --data --data-raw --data-binary --data-urlencode -F --form -u --user -A"
    " --user-agent -e --referer -b --cookie -c --cookie-jar -T --upload-file -x --proxy -m --max-time --connect-timeout"
    " -w --write-out -K --config -E --cert --key --cacert --capath -D --dump-header --retry --retry-delay --resolve"
    " --url -r --range -Y -y -z -C --continue-at --limit-rate --max-redirs --interface --json --output-dir"
)


def _curl(words: list[_Word]) -> list[Need]:
    split = _split(words, _CURL)
    sent = split.of("-d", "--data", "--data-binary", "--data-urlencode", "-F", "--form", "--json", "-b", "--cookie")
    files = [_Word(word.text.partition("@")[2], word.fixed) for word in sent if "@" in word.text]
    files += split.of("-T", "--upload-file", "-K", "--config", "-E", "--cert", "--key", "--cacert", "-b", "--cookie")
    hosts = [*split.operands, *split.of("--url", "-x", "--proxy")]
    found = _hosts(hosts) + _paths("read", [word for word in files if word.text and "=" not in word.text])
    if split.flags & {"-O", "--remote-name", "-J"}:
        found += _paths("write", split.of("--output-dir") or [_Word(".", True)])
    return found + _paths("write", split.of("-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header"))


_WGET = (
    "-O --output-document -o --output-file -a --append-output -i --input-file -P --directory-prefix -t --tries"
    " -T --timeout -w --wait -U --user-agent --header --post-data --post-file -e --execute -B --base -Q --quota --user"
    " --password -l --level -A --accept -R --reject -D --domains -I -X"
)


def _wget(words: list[_Word]) -> list[Need]:
    split = _split(words, _WGET)
    written = split.of("-O", "--output-document", "-o", "--output-file", "-a", "--append-output")
    named = split.of("-O", "--output-document")
    folder = [] if named else split.of("-P", "--directory-prefix") or [_Word(".", True)]
    read = split.of("-i", "--input-file", "--post-file")
    unknown = [_Word("", False)] if split.of("-i", "--input-file") else []
    return _hosts([*split.operands, *unknown]) + _paths("read", read) + _paths("write", [*written, *folder])


_GIT_GLOBAL = "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env"
_GIT_CLONE = (
    "-o --origin -b --branch -u --upload-pack --reference --reference-if-able --template -c --config --depth"
    " --shallow-since --shallow-exclude --filter --separate-git-dir -j --jobs --server-option"
)


def _git(words: list[_Word]) -> list[Need]:
    at = next((at for at, word in enumerate(words) if word.text == "clone"), None)
    if at is None or (before := _split(words[:at], _GIT_GLOBAL)).operands:
        return []
    split = _split(words[at + 1 :], _GIT_CLONE)
    source, folder = split.operands[:1], split.operands[1:2]
    if not source:
        return []
    remote = not source[0].fixed or ":" in source[0].text
    target = folder or before.of("-C") or [_Word(".", True)]
    return (_hosts(source) if remote else _paths("read", source)) + _paths("write", target)


_PROGRAMS: dict[str, Callable[[list[_Word]], list[Need]]] = {
    "cat": _reads(),
    "head": _reads("-n --lines -c --bytes"),
    "tail": _reads("-n --lines -c --bytes -s --sleep-interval --pid"),
    "grep": _reads(
        "-e --regexp -f --file -A --after-context -B --before-context -C --context -m --max-count -d -D --include"
        " --exclude --exclude-dir --label",
        skip=1,
        unless="-e --regexp -f --file",
    ),
    "wc": _reads("--files0-from"),
    "sort": _reads("-k --key -t --field-separator -o --output -S --buffer-size -T --parallel --files0-from"),
    "ls": _reads("-I --ignore -w --width -T --tabsize --hide --block-size", here=True),
    "jq": _reads("-f --from-file -L --indent", skip=1, unless="-f --from-file"),
    "find": _find,
    "cp": _copies(moves=False),
    "mv": _copies(moves=True),
    "ln": _copies(moves=False),
    "rm": _writes(),
    "mkdir": _writes("-m --mode"),
    "touch": _writes("-d --date -t -r --reference"),
    "tee": _writes(),
    "sed": _sed,
    "curl": _curl,
    "wget": _wget,
    "git": _git,
}


# Of other programs nothing is known but that they run.
KNOWN = frozenset(_PROGRAMS)


def _of(segment: Segment) -> list[Need]:
    needs = _PROGRAMS.get(segment.program)
    if needs is None:
        return []
    return needs([_Word(*word) for word in zip(segment.words[1:], segment.fixed[1:], strict=True)])
