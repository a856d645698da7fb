"""MCP servers that are written into a `crib.yaml`. Its text is edited, so that comments and order stay as they are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from toolcrib.cli import nodes
from toolcrib.cli.nodes import Wrong
from toolcrib.cli.terminal import Choice, Trouble

if TYPE_CHECKING:
    from toolcrib.sources.mcp import Mcp

KEY = "sources"


class Entry(NamedTuple):
    """A server as an entry of `sources` has it; `mcp` is its command in one line, or its address."""

    name: str
    mcp: str
    trusted: bool = False
    env: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}

    @property
    def data(self) -> dict[str, Any]:
        """What is written."""
        given = {"mcp": self.mcp, "name": self.name, "trusted": self.trusted}
        given |= {"env": dict(self.env), "headers": dict(self.headers)}
        return {key: value for key, value in given.items() if value}

    def server(self) -> Mcp:
        """The server itself, with what stands in the variables of the environment.

        Raises:
            Trouble: it can not be one, or a variable is not set.
        """
        from toolcrib.cli.sources import server_of
        from toolcrib.errors import BadTool

        try:
            return server_of(yaml.compose(_block(self.data), yaml.SafeLoader).value[0])
        except Wrong as error:
            raise Trouble(f"{self.name}: {error}", "${NAME} takes it from the environment: set it there") from None
        except BadTool as error:
            raise Trouble(str(error), "a server has a command, or an address that begins with http") from None


def file_of(choice: Choice) -> Path:
    """The file of a crib, which need not be there yet.

    Raises:
        Trouble: the crib is made by a program.
    """
    from toolcrib.cli.config import NAME

    path = Path(choice.crib or NAME)
    if path.suffix not in (".yaml", ".yml") and not path.is_file():
        raise Trouble(f"--crib {choice.crib} is no file", "write Mcp(...) into the sources of that Crib instead")
    return path


def names(path: Path) -> set[str]:
    """What the MCP servers of a file are called.

    Raises:
        Trouble: it is no `crib.yaml`.
    """
    return {name for name in map(_name, _listed(_read(path))) if name is not None}


def add(path: Path, entries: Iterable[Entry]) -> None:
    """Writes servers into a file, at the end of its sources; it is made where there is none.

    Raises:
        Trouble: its text can not be changed without changing what else it says.
    """
    from toolcrib.sources.files.rewriting import put

    text = _read(path)
    for entry in entries:
        before, text = text, _added(text, entry.data)
        if not _differs_by(before, text, entry.data):
            raise Trouble(
                f"{path} can not be changed without touching what else it says",
                f"write this into its {KEY} yourself:\n{_block(entry.data)}",
                exit_code=1,
            )
    try:
        put(path.resolve(), text.encode())
    except OSError as error:
        raise Trouble(f"Can not write {path}: {error.strerror}", "check its permissions", exit_code=1) from None


def _read(path: Path) -> str:
    from toolcrib.cli.config import _Reading

    if not path.exists():
        return ""
    _Reading(path)._root()  # says what is wrong with it, if something is
    return path.read_bytes().decode()


def _name(item: yaml.Node) -> str | None:
    from toolcrib.sources.mcp.settings import legal, name_of

    given = nodes.plain(item)
    if not isinstance(given, dict) or not given.get("mcp"):
        return None
    if given.get("name"):
        return legal(str(given["name"]))
    words = given["mcp"]
    return name_of(tuple(map(str, words)) if isinstance(words, list) else tuple(shlex.split(str(words))) or ("?",))


def _listed(text: str) -> list[yaml.Node]:
    value = _value(_composed(text))
    return list(value.value) if isinstance(value, yaml.SequenceNode) else []


def _composed(text: str) -> yaml.Node | None:
    root: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    return root


def _pair(root: yaml.Node | None) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(root, yaml.MappingNode):
        return None
    return next(((key, value) for key, value in root.value if key.value == KEY), None)


def _value(root: yaml.Node | None) -> yaml.Node | None:
    found = _pair(root)
    return None if found is None else found[1]


def _differs_by(before: str, after: str, entry: Mapping[str, Any]) -> bool:
    """Whether a text says what it said, and the entry at the end of its sources."""
    try:
        said, says = (_plain(_composed(text)) for text in (before, after))
        return bool(says == {**said, KEY: [*(said.get(KEY) or []), entry]})
    except (yaml.YAMLError, TypeError):  # no mapping, or no list
        return False


def _plain(root: yaml.Node | None) -> Any:
    return {} if root is None else nodes.plain(root)


def _added(text: str, entry: Mapping[str, Any]) -> str:
    """The text with an entry; whether that went well is for the reader to see."""
    root = _composed(text)
    found = _pair(root)
    if found is None:
        return _with_key(text, root, entry)
    key, value = found
    if isinstance(value, yaml.SequenceNode):
        return _in_line(text, value, entry) if value.flow_style else _below(text, value, entry)
    end = _line_end(text, key.end_mark.index)
    return _inserted(text, end, _block(entry, key.start_mark.column + 2))


def _with_key(text: str, root: yaml.Node | None, entry: Mapping[str, Any]) -> str:
    if root is not None and getattr(root, "flow_style", False):
        at = root.start_mark.index + 1
        return f"{text[:at]}{KEY}: [{_flow(entry)}]{', ' if root.value else ''}{text[at:]}"
    column = 0 if root is None else root.start_mark.column
    return _inserted(text, len(text), f"{'':{column}}{KEY}:\n{_block(entry, column + 2)}")


def _in_line(text: str, value: yaml.SequenceNode, entry: Mapping[str, Any]) -> str:
    at = value.value[-1].end_mark.index if value.value else value.start_mark.index + 1
    return f"{text[:at]}{', ' if value.value else ''}{_flow(entry)}{text[at:]}"


def _below(text: str, value: yaml.SequenceNode, entry: Mapping[str, Any]) -> str:
    last: yaml.Node = value
    while isinstance(last, yaml.CollectionNode) and not last.flow_style and last.value:
        last = last.value[-1] if isinstance(last, yaml.SequenceNode) else last.value[-1][1]
    at = last.end_mark.index
    if not text[:at].endswith("\n"):  # a text over several lines ends at the beginning of the next
        at = _line_end(text, at)
    return _inserted(text, at, _block(entry, value.start_mark.column))


def _line_end(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _inserted(text: str, at: int, lines: str) -> str:
    """The text with whole lines at a place, ended as its own are."""
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = newline if at and not text[:at].endswith("\n") else ""
    return text[:at] + begin + lines.replace("\n", newline) + text[at:]


def _block(entry: Mapping[str, Any], column: int = 0) -> str:
    written: str = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"{'':{column}}{line}\n" for line in written.splitlines())


def _flow(entry: Mapping[str, Any]) -> str:
    written: str = yaml.safe_dump(
        dict(entry), sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=True
    )
    return written.strip()
