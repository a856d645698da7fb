"""Where calls run past one process.

An engine carries hints: "this call is queued", "stop that call". What is true stands in the store, and every change of
it is guarded there; so a hint that is lost, late or doubled costs time and nothing else. A node is a crib with an
engine; it works (takes calls), or only accepts, answers, cancels and follows them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from toolcrib._call.remote import Engine
from toolcrib.errors import ToolcribError

__all__ = ["Engine", "open_engine"]

_OPTIONS: dict[str, Any] = {"slots": int, "replicas": int, "lease": float, "work": lambda text: text not in ("0", "no")}


def open_engine(url: str) -> Engine:
    """The engine that a URL names: `nats://host:4222`, several hosts with commas; `?work=no` for a node that runs none.

    Raises:
        ToolcribError: nobody knows such an engine or such an option.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("nats", "tls"):
        raise ToolcribError(f"Unknown engine '{parts.scheme}:'. Use nats://host:4222")
    options: dict[str, Any] = {}
    for name, values in parse_qs(parts.query).items():
        if name not in _OPTIONS:
            raise ToolcribError(f"Unknown option '{name}' of the engine. Known: {', '.join(_OPTIONS)}")
        try:
            options[name] = _OPTIONS[name](values[-1])
        except ValueError:
            raise ToolcribError(f"Option '{name}' of the engine is a number, not '{values[-1]}'") from None
    from toolcrib.engine.nats import Nats

    return Nats(url.partition("?")[0], **options)
