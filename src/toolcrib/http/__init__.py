"""The HTTP client of everything that sends requests to addresses which others wrote: toolkits, OpenAPI documents and
definition files.

Every hop is checked before it is dialled: a name is resolved here, each of its addresses is judged, and the judged
address is the one that is connected to. Bodies are bounded while they are read, also after decompression. Proxies and
cookies are never used; certificates are those of this system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
"""

from toolcrib.http.client import Client, Resolve, Unanswered, resolve
from toolcrib.http.egress import Anywhere, Egress, is_inner
from toolcrib.http.message import Request, Response, target_of

__all__ = [
    "Anywhere",
    "Client",
    "Egress",
    "Request",
    "Resolve",
    "Response",
    "Unanswered",
    "is_inner",
    "resolve",
    "target_of",
]
