"""The JSON of aios-protocol, Awaken, Distri and Aomi, and their tools, results and events as ours and back.

Each module has `loads(type, text)` and `dumps(type, value)` for the exact text, where a value is plain JSON data, and
functions between its values and our nouns. Nothing here runs a tool or opens a connection.
"""

from toolcrib.interop import aios, aomi, awaken, distri
from toolcrib.interop.forms import InteropError
from toolcrib.interop.translation import LogReader, RequestedCall

__all__ = ["InteropError", "LogReader", "RequestedCall", "aios", "aomi", "awaken", "distri"]
