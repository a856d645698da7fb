"""`/v1`: sessions, calls, events and questions for programs and for the console. `table` has all routes."""

from toolcrib.serve.api.app import Api
from toolcrib.serve.api.limits import ServeLimits

__all__ = ["Api", "ServeLimits"]
