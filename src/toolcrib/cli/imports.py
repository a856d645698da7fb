"""Python things by name: `module`, `module:attribute`, `path/to/file.py`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.cli.command import where


class BadSource(Exception):
    """A name that leads to nothing, or to code that does not load."""


def importable(folder: Path) -> None:
    """Lets modules of a folder be imported, before those of the same name elsewhere."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def from_module(name: str) -> Any:
    """A module, or what `module:attribute` names in it.

    Raises:
        BadSource: there is no such thing, or its import fails.
    """
    module, colon, attribute = name.partition(":")
    value: Any = _imported(module)
    for part in attribute.split(".") if colon else ():
        if not hasattr(value, part):
            raise BadSource(f"'{module}' has no '{attribute}'{_close(part, value)}")
        value = getattr(value, part)
    return value


def from_file(path: Path) -> ModuleType:
    """A module from its file.

    Raises:
        BadSource: there is no such file, or it does not load.
    """
    if not path.is_file():
        raise BadSource(f"there is no file {path}")
    importable(path.resolve().parent)
    known = sys.modules.get(path.stem)
    if path.stem.isidentifier() and (known is None or _is(known, path)):
        module = _imported(path.stem)
        if _is(module, path):
            return module
    return _loaded(path)


def _is(module: ModuleType, path: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "").resolve() == path.resolve()


def _loaded(path: Path) -> ModuleType:
    """A file whose name belongs to another module gets one of its own."""
    name = f"toolcrib_source_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadSource(f"{path} cannot be loaded as Python")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadSource(f"{path.name} does not load: {where(error)}") from error
    if any(getattr(value, "isolate", False) is True for value in vars(module).values()):
        raise BadSource(f"{path.name} has a tool with isolate=True, whose process must import it: rename the file")
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadSource(f"there is no module '{error.name}' in this folder or among the installed ones") from None
        raise BadSource(f"module '{name}' does not load: {where(error)}") from error
    except (ValueError, TypeError):
        raise BadSource(f"'{name}' is no name of a module") from None
    except Exception as error:
        raise BadSource(f"module '{name}' does not load: {where(error)}") from error


def _close(name: str, value: Any) -> str:
    from toolcrib.schema import nearest

    close = nearest(name, [one for one in dir(value) if not one.startswith("_")], 1)
    return f"; did you mean '{close[0]}'?" if close else ""
