"""The web console: one page that was built before, kept in memory, and served with a strict policy.

Its sources stand in `console/` beside `src/`; `make console` builds them into `page/`. The page has no rights of its
own: all it does goes through `/v1` like every other client.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from toolcrib.serve.api.errors import nowhere
from toolcrib.serve.asgi import App, Header, Receive, Scope, Send, reply

PAGE = Path(__file__).parent / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere, no script or style within the page, no frame around it."""

GUARDS: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
WORTH_PACKING = 1_000


class File(NamedTuple):
    """A file as it is sent; `packed` where that is shorter."""

    body: bytes
    packed: bytes | None
    headers: tuple[Header, ...]
    tag: bytes


def console() -> App:
    """The application at `/`.

    Raises:
        FileNotFoundError: the page was not built.
    """
    files = {f"/{path.relative_to(PAGE).as_posix()}": _read(path) for path in PAGE.rglob("*") if path.is_file()}
    if "/index.html" not in files:
        raise FileNotFoundError("The console was not built: run `make console` in a checkout (needs Node)")
    files["/"] = files["/index.html"]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        file = files.get(scope["path"])
        if file is None:
            status, body, headers = nowhere().reply()
            await reply(send, status, body, headers)
        elif scope["method"] not in ("GET", "HEAD"):
            await reply(send, 405, headers=((b"allow", b"GET, HEAD"),))
        else:
            await _send(file, scope, send)

    return app


def _read(path: Path) -> File:
    body = path.read_bytes()
    packed = gzip.compress(body, 9, mtime=0) if len(body) > WORTH_PACKING else None
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = "; charset=utf-8" if kind.startswith("text/") else ""
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'.encode()
    # Names of assets hold a digest of what is in them.
    forever = b"public, max-age=31536000, immutable" if path.parent.name == "assets" else b"no-cache"
    headers = (b"content-type", f"{kind}{text}".encode()), (b"cache-control", forever), (b"etag", tag), *GUARDS
    return File(body, packed, headers, tag)


async def _send(file: File, scope: Scope, send: Send) -> None:
    request_headers = dict(scope["headers"])
    if request_headers.get(b"if-none-match") == file.tag:
        await reply(send, 304, headers=file.headers)
        return
    body, headers = file.body, file.headers
    if file.packed is not None and b"gzip" in request_headers.get(b"accept-encoding", b""):
        body, headers = file.packed, (*headers, (b"content-encoding", b"gzip"))
    if scope["method"] == "HEAD":
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": b""})
        return
    await reply(send, 200, body, headers)
