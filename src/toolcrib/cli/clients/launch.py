"""How a client starts a crib as an MCP server, from wherever it runs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.clients.catalog import MODULE, Launch
from toolcrib.cli.terminal import Choice, CommandError

if TYPE_CHECKING:
    from toolcrib.sources.mcp import ServerDescription

_VARIABLE = re.compile(r"\$\{(\w+)\}|^env:(\w+)$")


class Target(NamedTuple):
    """A crib as clients name it: its file or its `module:name`, a name for people, and variables that it needs."""

    crib: str
    name: str
    env: dict[str, str]
    folder: Path | None = None

    def launch(self, env: dict[str, str] | None = None, names: Iterable[str] = ()) -> Launch:
        """Return how it is started."""
        args = (*MODULE, "mcp", "--crib", self.crib)
        return Launch(sys.executable, args, {**self.env, **(env or {})}, tuple(names))


def target(choice: Choice, name: str | None = None) -> Target:
    """Return the crib that a person named, or that of this folder.

    Raises:
        CommandError: there is none.
    """
    from toolcrib.cli.config.document import NAME, beside
    from toolcrib.sources.mcp.settings import legal

    path, here = Path(choice.crib or NAME), Path.cwd()
    env = {"TOOLCRIB_STORE": beside(here, choice.store) if choice.store else None, "TOOLCRIB_ENGINE": choice.engine}
    folder: Path | None = None
    if path.is_file():
        crib, called, folder = str(path.resolve()), path.resolve().parent.name, path.resolve().parent
    elif choice.crib and ":" in choice.crib:
        crib, called = choice.crib, choice.crib.partition(":")[0]
        env["PYTHONPATH"] = str(here)
    else:
        raise CommandError(f"There is no {path}", "go to the folder of a crib.yaml, or name a crib with --crib")
    return Target(crib, legal(name or called), {key: value for key, value in env.items() if value}, folder)


def needed_variables(where: Target) -> list[str]:
    """Return the variables that a `crib.yaml` takes from the environment and its `.env` does not set."""
    if where.folder is None:
        return []
    from dotenv import dotenv_values

    from toolcrib import yaml

    data = yaml.thaw(yaml.parse(yaml.decoded(Path(where.crib).read_bytes())[0]).value)
    if not isinstance(data, dict):
        return []
    own = dotenv_values(where.folder / ".env", interpolate=False, encoding="utf-8")
    # What a policy has in such brackets are places, and no variables.
    names = dict.fromkeys(_variables({key: value for key, value in data.items() if key != "policy"}))
    return [name for name in names if not own.get(name)]


def _variables(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _variables(one)
    elif isinstance(value, str):
        for match in _VARIABLE.finditer(value):
            yield match[1] or match[2]


async def try_out(launch: Launch) -> ServerDescription:
    """Start a server as a client does: from the home folder, with few variables beside its own.

    Raises:
        CommandError: it does not answer.
    """
    from toolcrib.errors import ToolFailure
    from toolcrib.sources.mcp import Mcp

    env = dict(launch.env) | {name: os.environ[name] for name in launch.names if name in os.environ}
    source = Mcp(launch.command, *launch.args, name="crib", cwd=str(Path.home()), env=env)
    try:
        return await source.server.about()
    except ToolFailure as error:
        line = shlex.join((launch.command, *launch.args))
        raise CommandError(error.message, f"see what it says: {line}", exit_code=1) from None
    finally:
        await source.server.close()
