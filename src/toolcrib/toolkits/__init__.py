"""Tools that many programs need, by topic: each module of this package makes them with `tools(...)`.

    from toolcrib.toolkits import files, http
    crib = Crib([files.tools(root="data"), http.tools()])

Settings are arguments; nothing is read from the environment, and a toolkit is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

NAMES = ("account", "cast", "ethereum", "files", "forge", "http", "search", "shell", "sql", "time", "wallet")
"""The toolkits, also those of chains, which need the extra `ethereum`."""


def toolkit(name: str) -> ModuleType:
    """The module of a toolkit.

    Raises:
        KeyError: there is none of that name.
    """
    for place in (f"{__name__}.{name}", f"toolcrib.chain.{name}") if name in NAMES else ():
        try:
            return import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not place.startswith(error.name):
                raise  # it is there, and something that it needs is not
    raise KeyError(name)


def __getattr__(name: str) -> ModuleType:
    try:
        return toolkit(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
