"""The log of a server: each line with its time, level and logger, as text or as JSON, and without secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from toolcrib.cli.command import where
from toolcrib.cli.config.document import NAME
from toolcrib.cli.terminal import Choice, clean
from toolcrib.telemetry import current_trace

Format = Literal["text", "json"]
FORMATS = ("text", "json")
HIDDEN = "***"
SHORTEST = 6
"""Values that are shorter are no secrets: to hide them would hide words."""

_VARIABLE = re.compile(r"\$\{(\w+)\}|env:\s*(\w+)")
_OURS = ("TOOLCRIB_SECRET_KEY", "TOOLCRIB_TOKEN")
_PATTERNS = (
    re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[^\s'\",]+"),
    re.compile(r"(?i)(?<=[?&]token=)[^\s&'\"]+"),
    re.compile(r"(?i)(?<=[?&]key=)[^\s&'\"]+"),
)


def start_log(choice: Choice, form: Format, *, debug: bool = False) -> None:
    """Has everything that is logged from now on written to standard error, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    secrets = secrets_of(choice)
    handler.setFormatter(JsonLines(secrets, debug=debug) if form == "json" else TextLines(secrets, debug=debug))
    root, ours = logging.getLogger(), logging.getLogger("toolcrib")
    root.handlers, ours.handlers, ours.propagate = [handler], [], True
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.DEBUG if debug else logging.INFO)


def secrets_of(choice: Choice) -> list[str]:
    """The values that no line may show: those of the variables that a `crib.yaml` names, and our own."""
    path = Path(choice.crib or NAME)
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    names = {*_OURS, *(one or other for one, other in _VARIABLE.findall(text))}
    return [value for name in names if len(value := os.environ.get(name, "")) >= SHORTEST]


class Hidden:
    """Takes out of texts what may be a secret: the values that a crib names, and what has the form of one."""

    def __init__(self, secrets: Iterable[str] | Choice = ()) -> None:
        self._secrets = sorted(secrets_of(secrets) if isinstance(secrets, Choice) else secrets, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text without what may be a secret."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern in _PATTERNS:
            text = pattern.sub(HIDDEN, text)
        return text


class _LogLines(logging.Formatter):
    """Makes lines without secrets."""

    def __init__(self, secrets: Iterable[str] = (), *, debug: bool = False) -> None:
        super().__init__()
        self.hide = Hidden(secrets).text
        self._debug = debug

    def moment(self, record: logging.LogRecord) -> str:
        """Return when it was, in UTC."""
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"

    def error(self, record: logging.LogRecord) -> str | None:
        """Return the exception of a record and its place; with `debug` its stack."""
        if not record.exc_info or record.exc_info[1] is None:
            return None
        return self.formatException(record.exc_info) if self._debug else where(record.exc_info[1])


class TextLines(_LogLines):
    """`2026-11-16T15:04:05.123Z WARNING toolcrib.cli: what happened`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        error = self.error(record)
        text = record.getMessage() if error is None else f"{record.getMessage()}: {error}"
        line = text if self._debug else " ".join(text.split())
        return f"{self.moment(record)} {record.levelname} {record.name}: {clean(self.hide(line))}"


class JsonLines(_LogLines):
    """One object a line: `time`, `level`, `logger`, `message`, and where there are any, `error` and ids of a span."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        data: dict[str, Any] = {
            "time": self.moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.hide(record.getMessage()),
        }
        error, trace = self.error(record), current_trace()
        if error is not None:
            data["error"] = self.hide(error)
        if trace is not None:
            data |= dict(zip(("trace_id", "span_id"), trace.split("-")[1:3], strict=True))
        return json.dumps(data, ensure_ascii=False)
