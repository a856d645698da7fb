"""`serve` of a `crib.yaml`: where the server listens, whom it lets in, and its limits.

serve:
  host: 0.0.0.0                                 # this machine alone, unless said
  port: 8000
  hosts: [crib.example]                         # names that it is reached by
  origins: ["https://app.example"]              # pages that may call
  namespaces: [shop]                            # open to who has none of their own
  auth:
    keys: store                                 # `toolcrib keys add` makes them; or a file of lines NAME KEY
    jwt: {issuer: "https://login.example", audience: "https://crib.example", owner: email}
  limits: {rate: 600/min}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from toolcrib.cli import nodes
from toolcrib.cli.nodes import Wrong

if TYPE_CHECKING:
    from toolcrib.serve.api import ServeLimits
    from toolcrib.serve.oauth import OAuth

KEYS = ("host", "port", "hosts", "origins", "namespaces", "auth", "limits")
JWT = ("issuer", "audience", "jwks", "scopes", "owner", "roles", "namespaces", "admins")
STORE = "store"


class Hosting(NamedTuple):
    """What a file says about serving."""

    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    keys: Path | str | None = None
    jwt: dict[str, Any] | None = None
    limits: Mapping[str, Any] = MappingProxyType({})

    def provider(self) -> OAuth | None:
        """The guard that takes tokens of a provider, where one is named."""
        if self.jwt is None:
            return None
        from toolcrib.serve.oauth import Claims, OAuth

        said = dict(self.jwt)
        claims = {name: said[name] for name in ("owner", "roles", "namespaces", "admins") if name in said}
        scopes, jwks = said.get("scopes", ()), said.get("jwks")
        return OAuth(said["audience"], said["issuer"], jwks, scopes, claims=Claims(**claims))

    def bounds(self) -> ServeLimits:
        """The limits of the server."""
        from toolcrib.serve.api import ServeLimits

        return ServeLimits(**self.limits)


def hosting_of(node: yaml.Node, folder: Path) -> Hosting:
    """What the key `serve` says.

    Raises:
        Wrong: something in it does not hold.
    """
    given = nodes.known(node, *KEYS)
    said: dict[str, Any] = {}
    if "host" in given:
        said["host"] = nodes.text(given["host"])
    if "port" in given:
        said["port"] = _port(given["port"])
    for name in ("hosts", "origins", "namespaces"):
        if name in given:
            said[name] = nodes.texts(given[name])
    if "auth" in given:
        said |= _auth(given["auth"], folder)
    if "limits" in given:
        said["limits"] = _limits(given["limits"])
    return Hosting(**said)


def _port(node: yaml.Node) -> int:
    value = nodes.plain(node)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise Wrong(f"serve.port: expected 0 to 65535, got {value!r}", node)
    return value


def _auth(node: yaml.Node, folder: Path) -> dict[str, Any]:
    given = nodes.known(node, "keys", "jwt")
    said: dict[str, Any] = {}
    if "keys" in given:
        keys = nodes.text(given["keys"])
        said["keys"] = keys if keys == STORE else folder / keys
    if "jwt" in given:
        said["jwt"] = _jwt(given["jwt"])
    return said


def _jwt(node: yaml.Node) -> dict[str, Any]:
    given = nodes.known(node, *JWT)
    for name in ("issuer", "audience"):
        if name not in given:
            raise Wrong(f"serve.auth.jwt: {name} is missing", node)
    lists = ("scopes", "admins")
    return {name: nodes.texts(value) if name in lists else nodes.text(value) for name, value in given.items()}


def _limits(node: yaml.Node) -> dict[str, Any]:
    from toolcrib.serve.api.limits import ServeLimits

    kinds = {"int": int, "float": float, "str | None": str}
    known = {field.name: kinds[str(field.type)] for field in dataclasses.fields(ServeLimits)}
    said: dict[str, Any] = {}
    for name, value in nodes.known(node, *known).items():
        kind = known[name]
        said[name] = nodes.text(value) if kind is str else nodes.number(value, kind, f"serve.limits.{name}")
        try:
            ServeLimits(**said)
        except ValueError as error:
            raise Wrong(f"serve.limits.{name}: {error}", value) from None
    return said
