"""MCP servers that are written into a `crib.yaml`. Its text is edited, so that comments and order stay as they are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from toolcrib import yaml
from toolcrib.cli import trust
from toolcrib.cli.config.block_edits import block_end, inserted, line_end
from toolcrib.cli.config.mistakes import Mistake
from toolcrib.cli.config.model import McpEntry
from toolcrib.cli.terminal import Choice, CommandError

if TYPE_CHECKING:
    from toolcrib.sources.mcp import Mcp

KEY = "sources"


class ServerEntry(NamedTuple):
    """A server as an entry of `sources` has it; `mcp` is its command in one line, or its address."""

    name: str
    mcp: str
    trusted: bool = False
    env: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}

    @property
    def data(self) -> dict[str, Any]:
        """What is written."""
        fields = {"mcp": self.mcp, "name": self.name, "trusted": self.trusted}
        fields |= {"env": dict(self.env), "headers": dict(self.headers)}
        return {key: value for key, value in fields.items() if value} | dict(self.settings)

    def checked(self) -> McpEntry:
        """The same as a file is read.

        Raises:
            CommandError: a setting is none, or has another form.
        """
        try:
            return McpEntry.model_validate(self.data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            message = f"{self.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise CommandError(message, "see `toolcrib mcp add --help`") from None

    def server(self, folder: Path) -> Mcp:
        """The server itself, with what stands in the variables of the environment; the entry is of a file there.

        Raises:
            CommandError: it cannot be one, or a variable is not set.
        """
        from toolcrib.cli.config.sources import server_of
        from toolcrib.errors import BadTool

        try:
            return server_of(self.checked(), folder)
        except Mistake as error:
            raise CommandError(f"{self.name}: {error}", "${NAME} takes it from the environment: set it there") from None
        except BadTool as error:
            raise CommandError(str(error), "a server has a command, or an address that begins with http") from None


def file_of(choice: Choice) -> Path:
    """The file of a crib, which need not be there yet.

    Raises:
        CommandError: the crib is made by a program.
    """
    from toolcrib.cli.config.document import NAME

    path = Path(choice.crib or NAME)
    if path.suffix not in (".yaml", ".yml") and not path.is_file():
        raise CommandError(f"--crib {choice.crib} is no file", "write Mcp(...) into the sources of that Crib instead")
    return path


def names(path: Path) -> set[str]:
    """What the MCP servers of a file are called.

    Raises:
        CommandError: it is no `crib.yaml`.
    """
    return {name for name in map(_name, _listed(_read(path))) if name is not None}


def add(path: Path, entries: Iterable[ServerEntry]) -> None:
    """Writes servers into a file, at the end of its sources; it is made where there is none.

    Raises:
        CommandError: the entry cannot be removed without changing the rest of the file.
    """
    text = _read(path)
    for entry in entries:
        before, text = text, _added(text, entry.data)
        if not _differs_by(before, text, entry.data):
            raise CommandError(
                f"{path} cannot be changed without touching what else it says",
                f"write this into its {KEY} yourself:\n{_block(entry.data)}",
                exit_code=1,
            )
    _write(path, text)


def remove(path: Path, name: str) -> None:
    """Remove a server from a file.

    Raises:
        CommandError: the entry cannot be removed without changing the rest of the file.
    """
    text = _read(path)
    listed = _listed(text)
    number = next(number for number, entry in enumerate(listed) if _name(entry) == name)
    shorter = _without(text, number)
    before, says = _data(text), _data(shorter)
    rest = [*listed[:number], *listed[number + 1 :]]
    if not isinstance(says, dict) or {**says, KEY: says.get(KEY) or []} != {**before, KEY: rest}:
        advice = f"take its entry out of {KEY} yourself"
        raise CommandError(f"{path} cannot be changed without touching what else it says", advice, exit_code=1)
    _write(path, shorter)


def _without(text: str, number: int) -> str:
    """The text without an entry; whether that went well is for the reader to see."""
    root = yaml.parse(text).root
    value = None if root is None else root.children.get(KEY)
    if value is None:
        return text
    entries = [value.children[index] for index in range(len(value.children))]
    entry, last = entries[number], number == len(entries) - 1
    if value.flow:
        begin = entries[number - 1].end.index if last and number else entry.start.index
        return text[:begin] + text[entry.end.index if last else entries[number + 1].start.index :]
    begin = text.rfind("\n", 0, entry.start.index) + 1
    end = block_end(text, entry) if last else text.rfind("\n", 0, entries[number + 1].start.index) + 1
    return text[:begin] + text[end:]


def _write(path: Path, text: str) -> None:
    from toolcrib.definitions.migration import put

    try:
        mark = "\ufeff" if path.exists() and path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
        with trust.kept(path):
            put(path.resolve(), f"{mark}{text}".encode())
    except OSError as error:
        raise CommandError(f"Cannot write {path}: {error.strerror}", "check its permissions", exit_code=1) from None


def _read(path: Path) -> str:
    from toolcrib.cli.config.document import read

    return read(path)[0] if path.exists() else ""


def _name(entry: Any) -> str | None:
    from toolcrib.sources.mcp.settings import legal, name_of

    if not isinstance(entry, dict) or not entry.get("mcp"):
        return None
    if entry.get("name"):
        return legal(str(entry["name"]))
    words = entry["mcp"]
    return name_of(tuple(map(str, words)) if isinstance(words, list) else tuple(shlex.split(str(words))) or ("?",))


def _data(text: str) -> Any:
    document = yaml.parse(text)
    return None if document.problems else {} if document.root is None else yaml.thaw(document.value)


def _listed(text: str) -> list[Any]:
    data = _data(text)
    listed = data.get(KEY) if isinstance(data, dict) else None
    return listed if isinstance(listed, list) else []


def _differs_by(before: str, after: str, entry: Mapping[str, Any]) -> bool:
    """True if the only change is the new entry at the end of the sources."""
    old, says = _data(before), _data(after)
    if not isinstance(old, dict) or not isinstance(says, dict) or not isinstance(old.get(KEY) or [], list):
        return False
    return bool(says == {**old, KEY: [*(old.get(KEY) or []), entry]})


def _added(text: str, entry: Mapping[str, Any]) -> str:
    """The text with an entry; whether that went well is for the reader to see."""
    root = yaml.parse(text).root
    value = None if root is None else root.children.get(KEY)
    if root is None or value is None:
        return _with_key(text, root, entry)
    if isinstance(value.value, tuple):
        return _in_line(text, value, entry) if value.flow else _below(text, value, entry)
    key = root.keys[KEY]
    return inserted(text, line_end(text, key.index), _block(entry, key.column + 2))


def _with_key(text: str, root: yaml.YamlNode | None, entry: Mapping[str, Any]) -> str:
    if root is not None and root.flow:
        at = root.start.index + 1
        return f"{text[:at]}{KEY}: [{_flow(entry)}]{', ' if root.value else ''}{text[at:]}"
    column = 0 if root is None else root.start.column
    return inserted(text, len(text), f"{'':{column}}{KEY}:\n{_block(entry, column + 2)}")


def _in_line(text: str, value: yaml.YamlNode, entry: Mapping[str, Any]) -> str:
    last = max(value.children.values(), key=lambda child: child.end.index, default=None)
    at = value.start.index + 1 if last is None else last.end.index
    return f"{text[:at]}{'' if last is None else ', '}{_flow(entry)}{text[at:]}"


def _below(text: str, value: yaml.YamlNode, entry: Mapping[str, Any]) -> str:
    return inserted(text, block_end(text, value), _block(entry, value.start.column))


def _block(entry: Mapping[str, Any], column: int = 0) -> str:
    return "".join(f"{'':{column}}{line}\n" for line in yaml.dump([dict(entry)]).splitlines())


def _flow(entry: Mapping[str, Any]) -> str:
    return yaml.dump(dict(entry), flow=True).strip()
