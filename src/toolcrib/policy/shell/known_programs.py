"""The capabilities of a command: its programs and redirections, and the files and hosts that known programs name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from toolcrib.policy.shell.downloads import CURL, WGET, valued
from toolcrib.policy.shell.needs import ANY_FILE, CommandWord, Need, host_needs, path_needs, split_words
from toolcrib.policy.shell.segments import UNKNOWN_PROGRAM, Segment, ShellCommand


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


def _reads(
    valued: str = "", *, skip: int = 0, unless: str = "", here: bool = False
) -> Callable[[list[CommandWord]], list[Need]]:
    """A program that reads its operands, but for the first `skip` if none of the options `unless` is given."""

    def needs(words: list[CommandWord]) -> list[Need]:
        split = split_words(words, valued)
        skipped = 0 if split.flags & set(unless.split()) else skip
        operands = split.operands[skipped:]
        needed = path_needs("read", operands or ([CommandWord(".", True)] if here else []))
        needed += path_needs("read", split.of(*_LISTED.split()))
        return needed + path_needs("write", split.of("-o", "--output"))

    return needs


# Options that name a file which is read, or which lists others.
_LISTED = "-f --file --from-file --to-file --files0-from --exclude-from -X -T"


def _writes(valued: str = "", *, skip: int = 0, unless: str = "") -> Callable[[list[CommandWord]], list[Need]]:
    """A program that writes its operands, but for the first `skip` if none of the options `unless` is given."""

    def needs(words: list[CommandWord]) -> list[Need]:
        split = split_words(words, valued)
        return path_needs("write", split.operands[0 if split.flags & set(unless.split()) else skip :])

    return needs


def _copies(*, moves: bool) -> Callable[[list[CommandWord]], list[Need]]:
    """A program whose last operand, or `-t`, is written, and whose others are read, or written too if it moves them."""

    def needs(words: list[CommandWord]) -> list[Need]:
        split = split_words(words, "-t --target-directory -S --suffix")
        into = split.of("-t", "--target-directory")
        sources = split.operands if into else split.operands[:-1]
        targets = into or split.operands[-1:]
        needed = path_needs("read", sources)
        return needed + path_needs("write", [*sources, *targets] if moves else targets)

    return needs


def _sed(words: list[CommandWord]) -> list[Need]:
    split = split_words(words, "-e --expression -f --file -l --line-length")
    scripts = split.flags & {"-e", "--expression", "-f", "--file"}
    files = split.operands[0 if scripts else 1 :]
    in_place = split.flags & {"-i", "--in-place"}
    return path_needs("read", [*split.of("-f", "--file"), *files]) + (path_needs("write", files) if in_place else [])


def _find(words: list[CommandWord]) -> list[Need]:
    start = next(
        (at for at, word in enumerate(words) if word.text[:1] in ("-", "(", "!") and word.text not in _LINKS), None
    )
    places = [word for word in words[:start] if word.text not in _LINKS] or [CommandWord(".", True)]
    tests = words[start:] if start is not None else []
    needed = path_needs("read", places)
    if any(word.text == "-delete" for word in tests):
        needed += path_needs("write", places)
    prints = [tests[at + 1] for at, word in enumerate(tests[:-1]) if word.text in _PRINTS]
    return needed + path_needs("write", prints)


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


_CURL = f"{valued(CURL)} -K --config --variable --engine"
_WGET = f"{valued(WGET)} -e --execute --config --use-askpass"


def _curl(words: list[CommandWord]) -> list[Need]:
    split = split_words(words, _CURL)
    files = split.of(*_CURL_READS.split())
    for value in split.of(*_CURL_SENDS.split()):
        # `@file`, `name@file`, and in forms `name=@file` and `name=<file`.
        files += [
            CommandWord(place.partition(";")[0], value.fixed)
            for place in re.split(r"[@<]", value.text)[1:]
            if "://" not in place
        ]
        if not value.fixed and value.text[:1] in ("$", '"', "`", "@"):
            files.append(value)
    files += [word for word in split.of("-b", "--cookie") if "=" not in word.text]
    hosts = [*split.operands, *(_named_host(word) for word in split.of(*_CURL_HOSTS.split()))]
    # Such an address is a path in a spelling of its own.
    files += [word._replace(fixed=False) for word in hosts if word.text.lower().startswith("file:")]
    hosts = [word for word in hosts if not word.text.lower().startswith("file:")]
    hosts += [CommandWord("", False)] if split.of("-K", "--config") else []
    needed = host_needs(hosts) + path_needs("read", [word for word in files if word.text])
    if split.flags & {"-O", "--remote-name", "--remote-name-all", "-J"}:
        needed += path_needs("write", split.of("--output-dir") or [CommandWord(".", True)])
    outputs = [
        name for word in split.of("-w", "--write-out") for name in re.findall(r"%output\{(?:>>)?([^}]*)", word.text)
    ]
    return needed + path_needs(
        "write", [*split.of(*_CURL_WRITES.split()), *(CommandWord(name, True) for name in outputs)]
    )


def _named_host(word: CommandWord) -> CommandWord:
    """The place that an option names: of `host:port:address` and `host:port:host:port` the last host and port."""
    parts = word.text.lstrip("+-").split(":")
    if len(parts) == 3 and "/" not in word.text:
        return word._replace(text=f"{parts[2]}:{parts[1]}")
    if len(parts) == 4 and "/" not in word.text:
        return word._replace(text=":".join(parts[2:]))
    return word


def _wget(words: list[CommandWord]) -> list[Need]:
    split = split_words(words, _WGET)
    written = split.of("-O", "--output-document", "-o", "--output-file", "-a", "--append-output")
    named = split.of("-O", "--output-document")
    folder = [] if named else split.of("-P", "--directory-prefix") or [CommandWord(".", True)]
    read = split.of("-i", "--input-file", "--post-file", "--body-file", "--load-cookies", "--ca-certificate")
    read += split.of("--certificate", "--private-key", "--ca-directory", "--crl-file")
    written += split.of("--save-cookies", "--warc-file", "--rejected-log", "--hsts-file")
    unknown = [CommandWord("", False)] if split.of("-i", "--input-file") else []
    return host_needs([*split.operands, *unknown]) + path_needs("read", read) + path_needs("write", [*written, *folder])


_GIT_GLOBAL = "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env"
_GIT_CLONE = (
    "-o --origin -b --branch -u --upload-pack --reference --reference-if-able --template -c --config --depth"
    " --shallow-since --shallow-exclude --filter --separate-git-dir -j --jobs --server-option"
)


_GIT_REMOTE = f"{_GIT_CLONE} -s --strategy -X --push-option --refmap --recurse-submodules --sort"


def _git(words: list[CommandWord]) -> list[Need]:
    """The repositories that are reached, and the files that are named beside those of the repository itself."""
    before = split_words(words, _GIT_GLOBAL).operands[:1]
    if not before:
        return []
    at = words.index(before[0])
    needed = path_needs("read", split_words(words[:at], _GIT_GLOBAL).of("-C", "--git-dir", "--work-tree"))
    command, rest = words[at].text, words[at + 1 :]
    folders = split_words(words[:at], _GIT_GLOBAL).of("-C")
    if command == "clone":
        return needed + _clone(rest, folders)
    if command in _GIT_FILES:
        named = _git_files(command, rest)
        return needed + [("fs", action, _below(folders, word)) for action, word in named]
    if command in ("push", "fetch", "pull", "ls-remote"):
        return needed + _repository(split_words(rest, _GIT_REMOTE).operands[:1], writes=command == "push")
    if command == "remote" and len(rest) > 1 and rest[0].text in ("add", "set-url"):
        return needed + _repository(split_words(rest[1:], "-t -m").operands[1:2], writes=False)
    if command in ("apply", "am"):
        return (
            needed
            + path_needs("read", split_words(rest, "--directory -p").operands)
            + path_needs("write", [CommandWord(".", True)])
        )
    if command in ("archive", "bundle", "format-patch"):
        return needed + path_needs(
            "write",
            split_words(rest, "-o --output --output-directory --format --prefix").of(
                "-o", "--output", "--output-directory"
            ),
        )
    return needed


# The options of these that name a file.
_GIT_FILES = {
    "commit": "-F --file -t --template",
    "tag": "-F --file",
    "grep": "-f",
    "diff": "-O",
    "log": "-O",
    "show": "-O",
    "init": "",
}
_GIT_VALUED = "-U -S -G -O -e -f -A -B -C -m --message --author --date -b --initial-branch"


def _git_files(command: str, words: list[CommandWord]) -> list[tuple[str, CommandWord]]:
    """The files that git reads or writes by their names, whether they are in the repository or not."""
    split = split_words(words, f"{_GIT_VALUED} {_GIT_FILES[command]}")
    files = [("read", word) for word in split.of(*_GIT_FILES[command].split())]
    operands = split.operands
    if command == "init":
        return [*files, *(("write", word) for word in operands)]
    if command == "grep" and "--no-index" in split.flags:
        return [*files, *(("read", word) for word in operands[1:])]
    # Two paths are compared as they are where one of them is outside of the repository.
    paths = "--no-index" in split.flags or (len(operands) == 2 and any(_names_path(word) for word in operands))
    return [*files, *(("read", word) for word in operands if command == "diff" and paths)]


def _names_path(word: CommandWord) -> bool:
    return not word.fixed or "/" in word.text or word.text.startswith(("~", "."))


def _below(folders: Sequence[CommandWord], word: CommandWord) -> str:
    """A path of a word that counts from these folders."""
    if not all(part.fixed for part in (*folders, word)):
        return ANY_FILE
    return posixpath.join(*(part.text for part in folders), word.text)


def _repository(words: Sequence[CommandWord], *, writes: bool) -> list[Need]:
    """A repository by its address: a URL or `host:path` is reached, a path is a folder, a name is configured."""
    needs: list[Need] = []
    for word in words:
        if not word.fixed or ":" in word.text:
            needs += host_needs([word])
        elif "/" in word.text or word.text.startswith("."):
            needs += path_needs("read", [word]) + (path_needs("write", [word]) if writes else [])
    return needs


def _clone(words: list[CommandWord], folder: list[CommandWord]) -> list[Need]:
    split = split_words(words, _GIT_CLONE)
    source, target = split.operands[:1], split.operands[1:2]
    if not source:
        return []
    remote = not source[0].fixed or ":" in source[0].text
    read = path_needs("read", split.of("--reference", "--reference-if-able", "--template"))
    written = path_needs("write", [*(target or folder or [CommandWord(".", True)]), *split.of("--separate-git-dir")])
    return (host_needs(source) if remote else path_needs("read", source)) + read + written


def _tar(words: list[CommandWord]) -> list[Need]:
    """An archive is read or written; what is put into it is read, and what comes out of it is written here."""
    if words and words[0].fixed and not words[0].text.startswith("-"):
        words = [CommandWord(f"-{words[0].text}", True), *words[1:]]
    split = split_words(
        words, "-f --file -C --directory -T --files-from -X --exclude-from -b --exclude --transform --mode"
    )
    archives, places = split.of("-f", "--file"), split.of("-C", "--directory")
    needs = path_needs("read", split.of("-T", "--files-from", "-X", "--exclude-from"))
    if split.flags & {"-x", "--extract", "--get"}:
        return needs + path_needs("read", archives) + path_needs("write", places or [CommandWord(".", True)])
    if split.flags & {"-t", "--list", "-d", "--diff", "--compare"}:
        return needs + path_needs("read", archives)
    return needs + path_needs("read", [*places, *split.operands]) + path_needs("write", archives)


def _dd(words: list[CommandWord]) -> list[Need]:
    """`if=` is read and `of=` is written."""
    needs: list[Need] = []
    for word in words:
        name, _, value = word.text.partition("=")
        if name in ("if", "of") or not word.fixed:
            needs += path_needs("read" if name == "if" else "write", [word._replace(text=value)])
    return needs


def _both(valued: str = "") -> Callable[[list[CommandWord]], list[Need]]:
    """A program that reads its operands and writes beside them or in their place."""

    def needs(words: list[CommandWord]) -> list[Need]:
        operands = split_words(words, valued).operands
        return path_needs("read", operands) + path_needs("write", operands)

    return needs


def _uniq(words: list[CommandWord]) -> list[Need]:
    operands = split_words(words, "-f --skip-fields -s --skip-chars -w --check-chars").operands
    return path_needs("read", operands[:1]) + path_needs("write", operands[1:2])


def _split_file(words: list[CommandWord]) -> list[Need]:
    operands = split_words(words, "-a -b -C -l -n -t --lines --bytes --number").operands
    return path_needs("read", operands[:1]) + path_needs("write", operands[1:2] or [CommandWord(".", True)])


def _input_to_output(words: list[CommandWord]) -> list[Need]:
    """The first operand is read, the second is written."""
    operands = split_words(words, "-c -g -l -o -s -n").operands
    return path_needs("read", operands[:1]) + path_needs("write", operands[1:2])


def _xargs(words: list[CommandWord]) -> list[Need]:
    return path_needs("read", split_words(words, "-a --arg-file -d -E -I -L -n -P -s").of("-a", "--arg-file"))


def _archive(words: list[CommandWord]) -> list[Need]:
    operands = split_words(words, "-Z -b -n -t -P -O").operands
    return path_needs("write", operands[:1]) + path_needs("read", operands[1:])


def _unpack(words: list[CommandWord]) -> list[Need]:
    split = split_words(words, "-d -P -x")
    return path_needs("read", split.operands[:1]) + path_needs("write", split.of("-d") or [CommandWord(".", True)])


def _remote_copy(words: list[CommandWord]) -> list[Need]:
    """Of `scp` and `rsync`: the last operand is written, others are read, and `host:path` is reached."""
    split = split_words(
        words, "-c -l -P -B -T -f --exclude --include --exclude-from --include-from --files-from --log-file"
    )
    needs = path_needs("read", split.of("--exclude-from", "--include-from", "--files-from"))
    needs += path_needs("write", split.of("--log-file"))
    for at, word in enumerate(split.operands):
        host, colon, _ = word.text.partition(":")
        if not word.fixed:
            needs += [("net", "egress", "*"), *path_needs("read", [word]), *path_needs("write", [word])]
        elif colon and "/" not in host:
            needs.append(("net", "egress", f"{host.rpartition('@')[2]}:22"))
        elif word.text.startswith(("scp://", "sftp://", "rsync://")):
            needs += host_needs([word])
        else:
            needs += path_needs("write" if at == len(split.operands) - 1 and at else "read", [word])
    return needs


_PROGRAMS: dict[str, Callable[[list[CommandWord]], list[Need]]] = {
    "cat": _reads(),
    "head": _reads("-n --lines -c --bytes"),
    "tail": _reads("-n --lines -c --bytes -s --sleep-interval --pid"),
    "grep": _reads(
        "-e --regexp -f --file -A --after-context -B --before-context -C --context -m --max-count -d -D --include"
        " --exclude --exclude-dir --exclude-from --label",
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
    **dict.fromkeys(("tac", "nl", "od", "hexdump", "strings", "base64", "base32", "zcat", "bzcat", "xzcat"), _reads()),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"), _reads()
    ),
    **dict.fromkeys(("cmp", "comm", "diff", "join", "paste", "rev", "file", "stat", "readlink", "realpath"), _reads()),
    "cut": _reads("-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter"),
    "fold": _reads("-w --width"),
    "xxd": _input_to_output,
    "xargs": _xargs,
    "zip": _archive,
    "unzip": _unpack,
    **dict.fromkeys(("scp", "rsync"), _remote_copy),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _writes("--reference --from", skip=1, unless="--reference")),
    **dict.fromkeys(("zgrep", "bzgrep", "xzgrep", "look"), _reads("-e -f -A -B -C -m -t", skip=1, unless="-e -f")),
    **dict.fromkeys(
        ("shuf", "expand", "unexpand", "pr", "tsort", "ptx", "csplit", "zdiff", "zcmp", "sum", "vdir", "dir"), _reads()
    ),
    "date": lambda words: path_needs(
        "read", split_words(words, "-d --date -f --file -r --reference -s --set").of("-f", "--file")
    ),
    "fmt": _reads("-w --width -p --prefix -g --goal"),
    "column": _reads("-t -s -o -c"),
    "du": _reads("-d --max-depth -B --block-size -t --threshold --exclude -X --exclude-from --files0-from", here=True),
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
    return needs([CommandWord(*word) for word in zip(segment.words[1:], segment.fixed[1:], strict=True)])
