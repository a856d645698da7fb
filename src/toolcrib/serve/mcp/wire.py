"""Messages as they stand on the wire: what is read, what is written, and how both are refused. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

NEWEST = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
BATCHES = "2025-03-26"
"""The one revision that has batches."""

MOST_IN_BATCH = 100
SUPPORTED = (NEWEST, *LEGACY)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
NOT_FOUND = -32002  # an unknown resource, before 2026-07-28
SESSION_GONE = -32001
LIMITED = -32000  # the HTTP status says which limit

_STATUS = {METHOD_NOT_FOUND: 404, INTERNAL: 500}

Id = str | int
TASKS = "io.modelcontextprotocol/tasks"
_KEY = "io.modelcontextprotocol/"


class ProtocolError(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return _STATUS.get(self.code, 400)


class Meta(Struct):
    """What a request says of itself and of its client."""

    version: str | UnsetType = field(default=UNSET, name=f"{_KEY}protocolVersion")
    capabilities: dict[str, Any] | UnsetType = field(default=UNSET, name=f"{_KEY}clientCapabilities")
    level: str | UnsetType = field(default=UNSET, name=f"{_KEY}logLevel")
    token: str | int | UnsetType = field(default=UNSET, name="progressToken")
    traceparent: Any = None
    tracestate: Any = None


class Params(Struct, rename="camel"):
    """The parameters of every method; each takes what is its own."""

    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    arguments: Raw | UnsetType = UNSET
    cursor: str | UnsetType | None = UNSET
    task_id: str | UnsetType = UNSET
    request_id: Id | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    input_responses: dict[str, Any] | UnsetType = UNSET
    notifications: dict[str, Any] | UnsetType = UNSET
    level: str | UnsetType = UNSET
    ref: dict[str, Any] | UnsetType = UNSET
    argument: dict[str, Any] | UnsetType = UNSET
    context: dict[str, Any] | UnsetType = UNSET
    protocol_version: str | UnsetType = UNSET
    capabilities: dict[str, Any] | UnsetType = UNSET
    client_info: dict[str, Any] | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class McpMessage(Struct):
    """A request, a notification (no `id`) or a response (no `method`)."""

    jsonrpc: str
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Params | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class _Envelope(Struct):
    """A message whose parameters nobody has looked at, to tell what exactly is wrong with it."""

    jsonrpc: str
    method: str | UnsetType = UNSET
    id: Id | UnsetType | None = UNSET


class _Named(Struct):
    id: Id | None = None


_message = msgspec.json.Decoder(McpMessage)
_batch = msgspec.json.Decoder(list[Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_named = msgspec.json.Decoder(_Named)
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


def read(body: bytes | bytearray | memoryview) -> McpMessage:
    """One message.

    Raises:
        Wrong: it is no JSON, no message, several messages, or its parameters are of the wrong kind. `data` is None,
            and `id_of` tells which request it was, where that can be told.
    """
    try:
        message = _message.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(body, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"Parse error: {error}") from None
    if message.jsonrpc != "2.0":
        raise ProtocolError(INVALID_REQUEST, "Invalid request: jsonrpc must be 2.0")
    if message.method is UNSET:
        if message.id in (UNSET, None) or (message.result is UNSET and message.error is UNSET):
            raise ProtocolError(INVALID_REQUEST, "Invalid request: it has neither a method nor a result")
    elif message.id is None:
        raise ProtocolError(INVALID_REQUEST, "Invalid request: id must be a text or a whole number")
    return message


def batch(body: bytes | bytearray | memoryview) -> list[bytes] | None:
    """The messages of a batch, which the revision 2025-03-26 has; None where the body is none.

    Raises:
        ProtocolError: it is empty, or has more than are taken.
    """
    if bytes(body[:64]).lstrip()[:1] != b"[":
        return None
    try:
        parts = _batch.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"Parse error: {error}") from None
    if not 0 < len(parts) <= MOST_IN_BATCH:
        raise ProtocolError(INVALID_REQUEST, f"Invalid request: a batch has 1 to {MOST_IN_BATCH} messages")
    return [bytes(part) for part in parts]


def _invalid(body: bytes | bytearray | memoryview, problem: str) -> ProtocolError:
    if bytes(body[:64]).lstrip()[:1] == b"[":
        return ProtocolError(INVALID_REQUEST, "Invalid request: send one message at a time, not a batch")
    try:
        _envelope.decode(body)
    except msgspec.DecodeError:
        return ProtocolError(INVALID_REQUEST, f"Invalid request: {problem}")
    return ProtocolError(INVALID_PARAMS, f"Invalid params: {problem}")


def id_of(body: bytes | bytearray | memoryview) -> Id | None:
    """The id of a request that could not be read, if it has one."""
    try:
        return _named.decode(body).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def answer(id: Id | None, result: bytes) -> bytes:
    """A response that carries a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id), result)


def error(id: Id | None, wrong: ProtocolError) -> bytes:
    """A response that carries an error."""
    data: dict[str, Any] = {"code": wrong.code, "message": wrong.message}
    if wrong.data is not None:
        data["data"] = wrong.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id), encode(data))


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A message that nobody answers."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def request(id: Id, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of the server to a client of an older revision."""
    return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def event(data: bytes, id: bytes = b"") -> bytes:
    """One event of a stream."""
    return b"id: %b\nevent: message\ndata: %b\n\n" % (id, data) if id else b"event: message\ndata: %b\n\n" % data
