"""`/v1`: sessions, calls, events and questions for programs and for the console. `routes` has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.serve.api.limits import ServeLimits

if TYPE_CHECKING:
    from toolcrib.serve.api.app import Api

__all__ = ["Api", "ServeLimits"]


def __getattr__(name: str) -> Any:
    """Load `Api` when it is first used: commands read the limits in `crib.yaml` and serve nothing."""
    if name == "Api":
        from toolcrib.serve.api.app import Api

        return Api
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
