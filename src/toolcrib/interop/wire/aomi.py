"""The forms of Aomi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.interop.forms import (
    Forms,
    InteropError,
    Kind,
    Named,
    Record,
    anything,
    filled,
    flag,
    need,
    one_of,
    table,
    text,
)

_RESULT = Named({"Ok": anything, "Err": text})
_LATER = Record(
    need(
        "metadata",
        Record(
            need("name"),
            filled("namespace", text, "default"),
            need("id"),
            filled("call_id", text, None),
            filled("is_async", flag, False),
        ),
    ),
    need("result", _RESULT),
    filled("has_more", flag, False),
)
_ID = Record(need("id"), filled("call_id", text, None))


def _id(value: Any, path: str) -> Any:
    """An id, or the pair of Aomi's and the provider's."""
    return value if isinstance(value, str) else _ID(value, path)


_FIRST = Record(need("call_id", _id), need("tool_name"), need("sync", flag), need("result", _RESULT))


def _completion(value: Any, path: str) -> dict[str, Any]:
    """The later form has metadata; what has a `tool_name` instead is the first, which is read and not written."""
    if not isinstance(value, Mapping) or "metadata" in value or "tool_name" not in value:
        return _LATER(value, path)
    first = _FIRST(value, path)
    id = first["call_id"] if isinstance(first["call_id"], dict) else {"id": first["call_id"]}
    about = {**id, "name": first["tool_name"], "is_async": not first["sync"]}
    return _LATER({"metadata": about, "result": first["result"]}, path)


def _list_or(kind: Kind) -> Kind:
    """Names as a list, or as the later map."""

    def read(value: Any, path: str) -> Any:
        if isinstance(value, list | tuple):
            return [text(item, f"{path}.{number}") for number, item in enumerate(value)]
        return kind(value, path)

    return read


def _completions(value: Any, path: str) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise InteropError("wrong_type", path)
    return [_completion(item, f"{path}.{number}") for number, item in enumerate(value)]


FORMS = Forms(
    {
        "ToolCompletion": _completion,
        "SystemEvent": Named(
            {
                "InlineCall": anything,
                "SystemNotice": text,
                "SystemError": text,
                "AsyncCallback": Record(
                    need("type", one_of("tool_update", "tool_complete")),
                    need("id"),
                    filled("call_id", text, None),
                    need("tool_name"),
                    need("result", anything),
                ),
            },
            keep="all",
        ),
        "HandlerState": Record(
            filled("namespaces", _list_or(anything), []),
            filled("available_tools", _list_or(table(anything)), []),
            filled("completed_calls", _completions, []),
        ),
    }
)
