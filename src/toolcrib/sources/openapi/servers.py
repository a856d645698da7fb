"""Where the service of a document is: what the configuration says, else the first server that the document names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from toolcrib.policy import urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.sources.openapi import swagger
from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument
from toolcrib.sources.openapi.parser import BadDocument, shown

_VARIABLE = re.compile(r"\{([^{}]+)\}")
_LITERAL = "/%:@!$&'()*+,;=~"


class ServerUrl(NamedTuple):
    """A host and the path that all paths of operations come after."""

    target: urls.UrlTarget
    path: str

    @property
    def resource(self) -> str:
        """Its form in a capability."""
        target = self.target
        return target.host if (target.scheme, target.port) == ("https", 443) else target.text

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.target.text}{self.path}/"


def configured(url: str, name: str) -> ServerUrl:
    """The server of an address.

    Raises:
        BadDocument: it is none.
    """
    try:
        target = urls.canonical(url)
        parts = urlsplit(url)
        if target.scheme not in ("http", "https") or "@" in parts.netloc:
            raise UnfitArgument("expected https://host/path, without a user")
    except (UnfitArgument, ValueError) as problem:
        raise BadDocument(name, "base_url", f"{shown(url)!r} is no address of a service: {problem}") from None
    return ServerUrl(target, quote(parts.path.rstrip("/"), safe=_LITERAL))


def server(document: OpenApiDocument, holders: tuple[DocumentNode, ...], variables: Mapping[str, str]) -> ServerUrl:
    """The first server of the first holder that names any: an operation, its path, the document.

    Raises:
        BadDocument: there is none, or it cannot be reached from where the document lies.
    """
    if document.version == "2.0":
        node = DocumentNode(swagger.servers(document.root.value, document.address)[0], document.address, "#/host")
    else:
        named = (servers.items()[0] for one in holders if (servers := one.get("servers")) and servers.items())
        node = next(named, DocumentNode({"url": "/"}, document.address, "#/servers"))
    url = _filled(document, node, variables)
    whole = urljoin(document.address, url) if document.address.startswith("http") else url
    if whole.startswith("//"):  # with the scheme of the document, and a file has none
        whole = f"https:{whole}"
    if not whole.startswith(("http://", "https://")):
        raise document.bad(node, f"no server can be reached at {shown(url)!r}; set base_url to where the service is")
    return configured(whole, document.name)


def _filled(document: OpenApiDocument, node: DocumentNode, variables: Mapping[str, str]) -> str:
    known = node.value.get("variables") if isinstance(node.value, Mapping) else None
    known = known if isinstance(known, Mapping) else {}

    def value(name: str) -> str:
        variable = known.get(name)
        variable = variable if isinstance(variable, Mapping) else {}
        value = variables.get(name, variable.get("default"))
        if value is None or (variable.get("enum") and value not in variable["enum"]):
            allowed = f"; it is one of {', '.join(map(str, variable['enum']))}" if variable.get("enum") else ""
            raise document.bad(node, f"the variable {name!r} of the server is {value!r}{allowed}")
        return str(value)

    return _VARIABLE.sub(lambda match: value(match[1]), node.text("url") or "/")
