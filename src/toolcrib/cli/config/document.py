"""A `crib.yaml` as a document: its text, what is wrong with it, and the store that it names.

It needs none of the models of `crib.yaml`, so that a command which only looks at the store starts quickly.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from toolcrib import yaml
from toolcrib.cli.terminal import CommandError

NAME = "crib.yaml"


class ConfigProblem(NamedTuple):
    """One thing that is wrong with a file, and on which line; in which column where that is known."""

    line: int
    message: str
    column: int | None = None

    @property
    def place(self) -> str:
        """The line, and the column."""
        return f"{self.line}" if self.column is None else f"{self.line}:{self.column}"


class BadConfig(CommandError):
    """A `crib.yaml` that does not hold, with everything that is wrong in it."""

    def __init__(self, path: Path, problems: list[ConfigProblem]) -> None:
        self.problems = sorted(dict.fromkeys(problems), key=lambda one: one.line)
        lines = [f"{path}:{one.place}: {one.message}" for one in self.problems]
        super().__init__("\n".join(dict.fromkeys(lines)), "mend this and try again", code="config")


def read(path: Path) -> tuple[str, yaml.YamlDocument]:
    """The text of a file, and the document in it.

    Raises:
        BadConfig: it is no YAML, or larger than it may be.
    """
    try:
        text = yaml.decoded(path.read_bytes())[0].removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadConfig(path, [ConfigProblem(1, f"this is no YAML: {error.reason}")]) from None
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}", "check the path and its permissions") from None
    document = yaml.parse(text)
    fatal = [one for one in document.problems if one.code != "DUPLICATE_KEY"]
    if fatal:
        messages = [one.message.replace("Not readable as YAML", "this is no YAML") for one in fatal]
        raise BadConfig(path, [ConfigProblem(one.line, message) for one, message in zip(fatal, messages, strict=True)])
    return text, document


def store_url(path: Path) -> str | None:
    """The URL of the store that a file names, whatever else it says; None where it names none.

    Raises:
        BadConfig: the file is no YAML, or names no store in the way that it should.
    """
    data = yaml.thaw(read(path)[1].value)
    url = data.get("store") if isinstance(data, dict) else None
    if data is None or (isinstance(data, dict) and url is None):
        return None
    if not isinstance(url, str) or not url.strip():
        from toolcrib.cli.config.loader import load_without_sources  # it tells what is wrong

        return load_without_sources(path).store.url
    return beside(path.resolve().parent, url)


def archive_beside(folder: Path, url: str) -> str:
    """An archive's URL whose relative folder lies in that folder."""
    if not url.startswith("file:") or url.startswith("file:/"):
        return url
    return f"file://{quote(str((folder / unquote(url.removeprefix('file:'))).absolute()))}"


def beside(folder: Path, url: str) -> str:
    """A store's URL whose relative file lies in that folder."""
    head, slashes, rest = url.partition("sqlite:///")
    path, mark, query = rest.partition("?")
    if head or not slashes or not path or path.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder / unquote(path)))}{mark}{query}"
