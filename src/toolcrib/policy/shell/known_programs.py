"""The capabilities of a command: its programs and redirections, and the files and hosts that known programs name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from toolcrib.policy.shell.segments import UNKNOWN_PROGRAM, Segment, ShellCommand

ANY_FILE = "/**"

Need = tuple[str, str, str]


def capabilities(command: ShellCommand, *, known: bool = False) -> list[Need]:
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

_CURL_READS = (
    "-T --upload-file -K --config -E --cert --key --cacert --capath --crlfile --netrc-file --proxy-cert --proxy-key"
    " --proxy-cacert --unix-socket --abstract-unix-socket --pinnedpubkey --pubkey --etag-compare --egd-file"
    " --variable --random-file"
)
_CURL_WRITES = (
    "-o --output -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr --libcurl --etag-save --hsts --alt-svc"
    " --output-dir"
)
_CURL_HOSTS = (
    "--url -x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --doh-url --dns-servers --proxy1.0"
    " --mail-rcpt --resolve --connect-to"
)
_CURL_SENDS = (
    "-d --data --data-binary --data-urlencode --data-ascii -F --form --json -b --cookie -H --header --proxy-header"
    " --url-query -w --write-out"
)
_CURL = (
    f"{_CURL_READS} {_CURL_WRITES} {_CURL_HOSTS} {_CURL_SENDS} -X --request --data-raw --form-string -u --user -A"
    " --user-agent -e --referer -m --max-time --connect-timeout --retry --retry-delay -r --range -Y -y -z -C"
    " --continue-at --limit-rate --max-redirs --interface -P --ftp-port -Q --quote -t --telnet-option --proto --ciphers"
    " --tls-max --noproxy --local-port --proxy-user -U --cert-type --key-type --pass --max-filesize --mail-from"
)


def _curl(words: list[_Word]) -> list[Need]:
    split = _split(words, _CURL)
    files = split.of(*_CURL_READS.split())
    for value in split.of(*_CURL_SENDS.split()):
        # `@file`, `name@file`, and in forms `name=@file` and `name=<file`.
        files += [
            _Word(place.partition(";")[0], value.fixed)
            for place in re.split(r"[@<]", value.text)[1:]
            if "://" not in place
        ]
        if not value.fixed and value.text[:1] in ("$", '"', "`", "@"):
            files.append(value)
    files += [word for word in split.of("-b", "--cookie") if "=" not in word.text]
    hosts = [*split.operands, *(_named_host(word) for word in split.of(*_CURL_HOSTS.split()))]
    hosts += [_Word("", False)] if split.of("-K", "--config") else []
    found = _hosts(hosts) + _paths("read", [word for word in files if word.text])
    if split.flags & {"-O", "--remote-name", "--remote-name-all", "-J"}:
        found += _paths("write", split.of("--output-dir") or [_Word(".", True)])
    return found + _paths("write", split.of(*_CURL_WRITES.split()))


def _named_host(word: _Word) -> _Word:
    """The place that an option names: of `host:port:address` and `host:port:host:port` the last host and port."""
    parts = word.text.lstrip("+-").split(":")
    if len(parts) == 3 and "/" not in word.text:
        return word._replace(text=f"{parts[2]}:{parts[1]}")
    if len(parts) == 4 and "/" not in word.text:
        return word._replace(text=":".join(parts[2:]))
    return word


_WGET = (
    "-O --output-document -o --output-file -a --append-output -i --input-file -P --directory-prefix -t --tries"
    " -T --timeout -w --wait -U --user-agent --header --post-data --post-file -e --execute -B --base -Q --quota --user"
    " --password -l --level -A --accept -R --reject -D --domains -I -X --load-cookies --save-cookies --ca-certificate"
    " --certificate --private-key --body-file --warc-file --rejected-log --ca-directory --crl-file --referer --method"
    " --body-data --limit-rate --default-page --egd-file --random-file --hsts-file"
)


def _wget(words: list[_Word]) -> list[Need]:
    split = _split(words, _WGET)
    written = split.of("-O", "--output-document", "-o", "--output-file", "-a", "--append-output")
    named = split.of("-O", "--output-document")
    folder = [] if named else split.of("-P", "--directory-prefix") or [_Word(".", True)]
    read = split.of("-i", "--input-file", "--post-file", "--body-file", "--load-cookies", "--ca-certificate")
    read += split.of("--certificate", "--private-key", "--ca-directory", "--crl-file")
    written += split.of("--save-cookies", "--warc-file", "--rejected-log", "--hsts-file")
    unknown = [_Word("", False)] if split.of("-i", "--input-file") else []
    return _hosts([*split.operands, *unknown]) + _paths("read", read) + _paths("write", [*written, *folder])


_GIT_GLOBAL = "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env"
_GIT_CLONE = (
    "-o --origin -b --branch -u --upload-pack --reference --reference-if-able --template -c --config --depth"
    " --shallow-since --shallow-exclude --filter --separate-git-dir -j --jobs --server-option"
)


_GIT_REMOTE = f"{_GIT_CLONE} -s --strategy -X --push-option --refmap --recurse-submodules --sort"


def _git(words: list[_Word]) -> list[Need]:
    """The repositories that are reached, and the files that are named beside those of the repository itself."""
    before = _split(words, _GIT_GLOBAL).operands[:1]
    if not before:
        return []
    at = words.index(before[0])
    found = _paths("read", _split(words[:at], _GIT_GLOBAL).of("-C", "--git-dir", "--work-tree"))
    command, rest = words[at].text, words[at + 1 :]
    if command == "clone":
        return found + _clone(rest, _split(words[:at], _GIT_GLOBAL).of("-C"))
    if command in ("push", "fetch", "pull", "ls-remote"):
        return found + _repository(_split(rest, _GIT_REMOTE).operands[:1], writes=command == "push")
    if command == "remote" and len(rest) > 1 and rest[0].text in ("add", "set-url"):
        return found + _repository(_split(rest[1:], "-t -m").operands[1:2], writes=False)
    if command in ("diff", "grep") and any(word.text == "--no-index" for word in rest):
        return found + _paths("read", _split(rest, "-U -S -G -O -e -f -A -B -C").operands[command == "grep" :])
    if command in ("apply", "am"):
        return found + _paths("read", _split(rest, "--directory -p").operands) + _paths("write", [_Word(".", True)])
    if command in ("archive", "bundle", "format-patch"):
        return found + _paths(
            "write",
            _split(rest, "-o --output --output-directory --format --prefix").of("-o", "--output", "--output-directory"),
        )
    return found


def _repository(words: Sequence[_Word], *, writes: bool) -> list[Need]:
    """A repository by its address: a URL or `host:path` is reached, a path is a folder, a name is configured."""
    needs: list[Need] = []
    for word in words:
        if not word.fixed or ":" in word.text:
            needs += _hosts([word])
        elif "/" in word.text or word.text.startswith("."):
            needs += _paths("read", [word]) + (_paths("write", [word]) if writes else [])
    return needs


def _clone(words: list[_Word], folder: list[_Word]) -> list[Need]:
    split = _split(words, _GIT_CLONE)
    source, target = split.operands[:1], split.operands[1:2]
    if not source:
        return []
    remote = not source[0].fixed or ":" in source[0].text
    read = _paths("read", split.of("--reference", "--reference-if-able", "--template"))
    written = _paths("write", [*(target or folder or [_Word(".", True)]), *split.of("--separate-git-dir")])
    return (_hosts(source) if remote else _paths("read", source)) + read + written


def _tar(words: list[_Word]) -> list[Need]:
    """An archive is read or written; what is put into it is read, and what comes out of it is written here."""
    if words and words[0].fixed and not words[0].text.startswith("-"):
        words = [_Word(f"-{words[0].text}", True), *words[1:]]
    split = _split(words, "-f --file -C --directory -T --files-from -X --exclude-from -b --exclude --transform --mode")
    archives, places = split.of("-f", "--file"), split.of("-C", "--directory")
    needs = _paths("read", split.of("-T", "--files-from", "-X", "--exclude-from"))
    if split.flags & {"-x", "--extract", "--get"}:
        return needs + _paths("read", archives) + _paths("write", places or [_Word(".", True)])
    if split.flags & {"-t", "--list", "-d", "--diff", "--compare"}:
        return needs + _paths("read", archives)
    return needs + _paths("read", [*places, *split.operands]) + _paths("write", archives)


def _dd(words: list[_Word]) -> list[Need]:
    """`if=` is read and `of=` is written."""
    needs: list[Need] = []
    for word in words:
        name, _, value = word.text.partition("=")
        if name in ("if", "of") or not word.fixed:
            needs += _paths("read" if name == "if" else "write", [word._replace(text=value)])
    return needs


def _both(valued: str = "") -> Callable[[list[_Word]], list[Need]]:
    """A program that reads its operands and writes beside them or in their place."""

    def needs(words: list[_Word]) -> list[Need]:
        operands = _split(words, valued).operands
        return _paths("read", operands) + _paths("write", operands)

    return needs


def _uniq(words: list[_Word]) -> list[Need]:
    operands = _split(words, "-f --skip-fields -s --skip-chars -w --check-chars").operands
    return _paths("read", operands[:1]) + _paths("write", operands[1:2])


def _split_file(words: list[_Word]) -> list[Need]:
    operands = _split(words, "-a -b -C -l -n -t --lines --bytes --number").operands
    return _paths("read", operands[:1]) + _paths("write", operands[1:2] or [_Word(".", True)])


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
    "tar": _tar,
    "dd": _dd,
    "uniq": _uniq,
    "split": _split_file,
    "install": _copies(moves=False),
    "rmdir": _writes(),
    "unlink": _writes(),
    "truncate": _writes("-s --size -r --reference"),
    "shred": _writes("-n --iterations -s --size"),
    "mkfifo": _writes("-m --mode"),
    "gzip": _both("-S --suffix"),
    "gunzip": _both("-S --suffix"),
    "bzip2": _both(),
    "xz": _both("-T --threads"),
    "zstd": _both("-o -T"),
    **dict.fromkeys(
        ("tac", "nl", "od", "xxd", "hexdump", "strings", "base64", "base32", "zcat", "bzcat", "xzcat"), _reads()
    ),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"), _reads()
    ),
    **dict.fromkeys(("cmp", "comm", "diff", "join", "paste", "rev", "file", "stat", "readlink", "realpath"), _reads()),
    "cut": _reads("-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter"),
    "fold": _reads("-w --width"),
    "fmt": _reads("-w --width -p --prefix -g --goal"),
    "column": _reads("-t -s -o -c"),
    "du": _reads("-d --max-depth -B --block-size -t --threshold --exclude", here=True),
    "tree": _reads("-L -P -I -o", here=True),
    "egrep": _reads("-e -f -A -B -C -m", skip=1, unless="-e -f"),
    "fgrep": _reads("-e -f -A -B -C -m", skip=1, unless="-e -f"),
    "rg": _reads("-e --regexp -f --file -g --glob -t --type -A -B -C -m", skip=1, unless="-e --regexp -f --file"),
}


# Of other programs nothing is known but that they run.
KNOWN = frozenset(_PROGRAMS)


def _of(segment: Segment) -> list[Need]:
    needs = _PROGRAMS.get(segment.program)
    if needs is None:
        return []
    return needs([_Word(*word) for word in zip(segment.words[1:], segment.fixed[1:], strict=True)])
