"""Toolcrib inside other agent frameworks, one module each, which alone imports its framework.

Two directions. *Out*: the tools of a crib as tools of the framework. *Round*: the tools of the framework keep their
bodies, and each call of them passes through the crib: policy, approval, once, limits, log. Everything here stands on
the public interface of `Session` and `Crib`.
"""

from toolcrib.adapters.calls import WaitingCall, call_key
from toolcrib.adapters.functions import guard, tools_as_functions
from toolcrib.adapters.handlers import current_call

__all__ = ["WaitingCall", "call_key", "current_call", "guard", "tools_as_functions"]
