"""Toolkits in a `crib.yaml`: `{toolkit: files, root: data}`, whose other keys are the settings of its `tools(...)`.

Relative paths start at the file, and `${NAME}` in a text is a variable of the environment.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.cli.config.mistakes import Mistake, UnknownKey
from toolcrib.cli.config.model import ToolkitEntry
from toolcrib.cli.config.sources import filled
from toolcrib.yaml import Path as Place

if TYPE_CHECKING:
    from toolcrib.toolkits.collection import Toolkit

_KEY = "BRAVE_SEARCH_API_KEY"
_PROGRAMS = ("forge", "solc", "ipc", "visible")
_PATHS = ("root", "docs", "visible")


def toolkit_of(entry: ToolkitEntry, folder: Path, place: Place) -> Toolkit:
    """The toolkit that an entry means.

    Raises:
        Mistake, BadTool: something is wrong with the entry.
    """
    from toolcrib.toolkits import NAMES, toolkit

    name, values = entry.toolkit, entry.model_extra or {}
    try:
        make = toolkit(name).tools
    except KeyError:
        known = ", ".join(NAMES)
        raise Mistake(f"there is no toolkit {name!r}; known are {known}", (*place, "toolkit")) from None
    parameters = inspect.signature(make).parameters
    for key in values:
        if key not in parameters:
            raise UnknownKey((*place, key), ["toolkit", *parameters])
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in values]
    if missing:
        raise Mistake(f"toolkit {name} needs {', '.join(missing)}", place)
    settings = {key: _setting(key, value, folder, (*place, key)) for key, value in values.items()}
    if name == "search" and "key" not in settings:
        settings["key"] = os.environ.get(_KEY)
    try:
        made: Toolkit = make(**settings)
    except (TypeError, ValueError) as error:
        raise Mistake(f"toolkit {name}: {error}", place) from None
    return made


def _setting(key: str, value: Any, folder: Path, place: Place) -> Any:
    value = filled(value, place)
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


def _database(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {**value, "url": _database(value.get("url"), folder)}
    url = str(value)
    if "://" not in url:
        return folder / url
    path = url.removeprefix("sqlite:///")
    return folder / path if path != url else url
