"""Toolkits in a `crib.yaml`: `{toolkit: files, root: data}`, whose other keys are the settings of its `tools(...)`.

Relative paths start at the file, and `${NAME}` in a text is a variable of the environment.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from toolcrib.cli import nodes
from toolcrib.cli.nodes import Wrong
from toolcrib.cli.sources import check_variables, expanded

if TYPE_CHECKING:
    from toolcrib.toolkits.kit import Toolkit

_KEY = "BRAVE_SEARCH_API_KEY"
_PROGRAMS = ("forge", "solc", "ipc", "visible")
_PATHS = ("root", "docs", "visible")


def toolkit_of(item: yaml.Node, folder: Path) -> Toolkit | None:
    """The toolkit that an entry means; None where it means something else.

    Raises:
        Wrong, BadTool: something is wrong with the entry.
    """
    from toolcrib.toolkits import NAMES, toolkit

    given = {key.value: node for key, node in nodes.pairs(item)}
    if "toolkit" not in given:
        return None
    name = nodes.text(given["toolkit"])
    try:
        make = toolkit(name).tools
    except KeyError:
        raise Wrong(f"there is no toolkit {name!r}; known are {', '.join(NAMES)}", given["toolkit"]) from None
    parameters = inspect.signature(make).parameters
    nodes.known(item, "toolkit", *parameters)
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in given]
    if missing:
        raise Wrong(f"toolkit {name} needs {', '.join(missing)}", item)
    settings = {key: _setting(key, node, folder) for key, node in given.items() if key != "toolkit"}
    if name == "search" and "key" not in settings:
        settings["key"] = os.environ.get(_KEY)
    try:
        made: Toolkit = make(**settings)
    except (TypeError, ValueError) as error:
        raise Wrong(f"toolkit {name}: {error}", item) from None
    return made


def _setting(key: str, node: yaml.Node, folder: Path) -> Any:
    check_variables(node)
    value = _filled(nodes.plain(node))
    if key == "databases" and isinstance(value, Mapping):
        return {name: _database(one, folder) for name, one in value.items()}
    if key == "chains" and isinstance(value, Mapping) and value.get("cache", ":memory:") != ":memory:":
        return {**value, "cache": str(folder / str(value["cache"]))}
    if key == "scripts" and isinstance(value, Mapping):
        return {name: _below(one, folder) if name in _PROGRAMS else one for name, one in value.items()}
    if key in _PATHS:
        return _below(value, folder)
    return value


def _below(value: Any, folder: Path) -> Any:
    return [folder / str(one) for one in value] if isinstance(value, list) else folder / str(value)


def _filled(value: Any) -> Any:
    """The same with the variables of the environment, so that no secret need stand in the file."""
    if isinstance(value, Mapping):
        return {key: _filled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one) for one in value]
    return expanded(value) if isinstance(value, str) else value


def _database(given: Any, folder: Path) -> Any:
    if isinstance(given, Mapping):
        return {**given, "url": _database(given.get("url"), folder)}
    url = str(given)
    if "://" not in url:
        return folder / url
    path = url.removeprefix("sqlite:///")
    return folder / path if path != url else url
