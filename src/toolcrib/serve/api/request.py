"""One request as its handler sees it: who asks, for what, with what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.asgi import Receive, Send, read
from toolcrib.serve.principal import Headers, Principal
from toolcrib.store.codec import encode

if TYPE_CHECKING:
    from toolcrib.serve.api.app import Api

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
EVENTS = b"text/event-stream"
LINES = b"application/x-ndjson"
STRANGERS_BYTES = 64 * 1024
"""What is read of a body whose sender nobody knows yet."""


class ApiRequest:
    """A request that was let in and understood."""

    __slots__ = ("api", "body", "headers", "path", "principal", "query", "receive", "route", "secure", "send")

    def __init__(  # noqa: PLR0913 - the parts of a request
        self,
        api: Api,
        route: Route,
        path: list[str],
        principal: Principal,
        headers: Headers,
        receive: Receive,
        send: Send,
    ) -> None:
        self.api = api
        self.route = route
        self.path = path
        self.principal = principal
        self.headers = headers
        self.receive = receive
        self.send = send
        self.secure = False
        self.query: Any = None
        self.body: Any = None

    def accepts(self, kind: bytes) -> bool:
        """True if it wants an answer of that kind rather than JSON."""
        return kind in self.headers.get(b"accept", b"")

    async def load(self, query: bytes) -> None:
        """Reads query and body.

        Raises:
            ApiError: they do not fit.
            Unreadable, Gone: the body did not arrive.
        """
        if self.route.query is not None:
            self.query = _query(self.route.query, query)
        elif query:
            raise ApiError("invalid_arguments", "This path takes no query")
        if self.route.body is not None:
            limits = self.api.limits
            largest = limits.body_bytes if self.route.right is not None else min(limits.body_bytes, STRANGERS_BYTES)
            self.body = decoded(self.route.body, await read(self.receive, largest, limits.body_s))
        elif self.route.method != "GET" and not self.route.reads and self._has_body():
            unused = await read(self.receive, STRANGERS_BYTES, self.api.limits.body_s)
            if unused.strip() not in (b"", b"{}", b"null"):
                raise ApiError("invalid_arguments", "This path takes no body")

    def _has_body(self) -> bool:
        return self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers


def decoded(kind: Any, body: bytes) -> Any:
    """A body as what it has to be; an empty one says nothing.

    Raises:
        ApiError: it is none.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        try:
            return decoder.decode(body or b"{}")
        except msgspec.ValidationError as error:
            if "got `float`" not in str(error):
                raise
            return decoder.decode(encode(_whole(msgspec.json.decode(body))))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("invalid_arguments", f"The body does not fit: {error}") from None


def _whole(value: Any) -> Any:
    """Return a value whose numbers without a fraction are integers: `5.0` is one in JSON Schema."""
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _query(kind: type[msgspec.Struct], text: bytes) -> Any:
    """Decode a query, in which each field comes once."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict") if text else []
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ValueError("a field stands in it twice")
        if any("\0" in value for value in fields.values()):
            raise ValueError("it holds a NUL")
        query = msgspec.convert(fields, kind, strict=False)
        for name in fields.keys() & set(kind.__struct_encode_fields__):
            if getattr(query, name, "") is None:  # a text that means nothing, as `null` does, is none of these values
                raise ValueError(f"{name} is nothing - leave it out")
        return query
    except (msgspec.ValidationError, ValueError) as error:
        raise ApiError("invalid_arguments", f"The query does not fit: {error}") from None


def json_reply(value: Any, status: int = 200) -> ApiReply:
    """Return a reply with a value as JSON."""
    return ApiReply(encode(value), status)
