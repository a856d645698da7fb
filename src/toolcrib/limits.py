"""The bounds of tools and of cribs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
RATE = r"^([1-9][0-9]{0,8})/(s|min|h|day)$"


@lru_cache(1000)
def pace(rate: str) -> tuple[float, int]:
    """The seconds from one to the next, and how many at once, of a rate such as `30/min`.

    Raises:
        ValueError: it is no rate.
    """
    parts = re.fullmatch(RATE, rate)
    if parts is None:
        raise ValueError(f"{rate!r} is no rate; write 30/min, with one of the units {', '.join(_UNITS)}")
    return _UNITS[parts[2]] / int(parts[1]), int(parts[1])


def _check_rates(limits: Any, *names: str) -> None:
    for name in names:
        rate = getattr(limits, name)
        try:
            if rate is not None:
                pace(rate if isinstance(rate, str) else repr(rate))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one tool; None takes the crib's default. `rate`, such as `30/min`, is that of all its calls together.

    After `repeat` failures of the same call in a row the next is refused: 3 by default, with None as many as come.

    Raises:
        ValueError: the rate is none.
    """

    timeout_s: float | None = None
    output_bytes: int | None = None
    concurrency: int | None = None
    wait_s: float | None = None
    repeat: int | Literal["default"] | None = "default"
    idle_timeout: float | None = None
    rate: str | None = None

    def __post_init__(self) -> None:
        _check_rates(self, "rate")
        for name in ("timeout_s", "output_bytes", "concurrency", "wait_s", "idle_timeout"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{name}: {value!r} is no number")
            if value is not None and value <= 0:
                raise ValueError(f"{name}: {value!r} is not more than zero")


@dataclass(frozen=True, slots=True)
class CribLimits:
    """Bounds of a crib, and the defaults of its tools.

    `shared` says whether owners share seats and have bounds of their own; None leaves it to the server, which has them
    share where it has keys. `weights` are owners whose part is larger than that of the others, which is 1.

    Raises:
        ValueError: a rate is none, or a weight is less than 1.
    """

    timeout_s: float = 60.0
    output_bytes: int = 1024 * 1024
    arguments_bytes: int = 1024 * 1024
    message_bytes: int = 16 * 1024 * 1024
    per_session: int = 16
    per_crib: int = 256
    per_turn: int = 64
    depth: int = 8
    attempts: int = 3
    cleanup_s: float = 5.0
    confirm_s: float = 24 * 3600.0
    client_s: float = 15 * 60.0
    largest_output: int = 64 * 1024 * 1024
    unwritten_chunks: int = 1000
    unwritten_bytes: int = 8 * 1024 * 1024
    per_owner: int | None = None
    session_rate: str | None = None
    owner_rate: str | None = None
    shared: bool | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    queued_per_owner: int | None = None
    waiting_per_owner: int | None = None
    grants_per_session: int = 256

    def __post_init__(self) -> None:
        _check_rates(self, "session_rate", "owner_rate")
        for owner, weight in self.weights.items():
            if weight < 1:
                raise ValueError(f"weights: the weight of {owner!r} is 1 or more, not {weight!r}")
