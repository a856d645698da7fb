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
  mcp: {task_after_s: 30, instructions: "..."}  # how it shows itself to MCP clients
  sources: {programs: true, secrets: ["env:GITHUB_*"]}   # what administrators may add while it runs
  public_url: https://crib.example              # where browsers reach it, to connect accounts
  trace_url: https://traces.example/{trace}     # where the trace of a call is looked at
  log_format: json                              # lines of the log: text, unless said
  workers: auto                                 # server processes behind the port: 1, unless said
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.config.model import ServeSection

if TYPE_CHECKING:
    from toolcrib.serve.api import ServeLimits
    from toolcrib.serve.oauth import OAuth
    from toolcrib.serve.source_entry import SourceRules

STORE = "store"


class ServeConfig(NamedTuple):
    """What a file says about serving."""

    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    keys: Path | str | None = None
    jwt: dict[str, Any] | None = None
    limits: Mapping[str, Any] = MappingProxyType({})
    log_format: str = "text"
    mcp: Mapping[str, Any] = MappingProxyType({})
    public_url: str | None = None
    sources: Mapping[str, Any] = MappingProxyType({})
    workers: int | str = 1
    trace_url: str | None = None

    def provider(self) -> OAuth | None:
        """The guard that takes tokens of a provider, where one is named."""
        if self.jwt is None:
            return None
        from toolcrib.serve.oauth import Claims, OAuth

        settings = dict(self.jwt)
        claims = {name: settings[name] for name in ("owner", "roles", "namespaces", "admins") if name in settings}
        scopes, jwks = settings.get("scopes", ()), settings.get("jwks")
        return OAuth(settings["audience"], settings["issuer"], jwks, scopes, claims=Claims(**claims))

    def source_rules(self) -> SourceRules:
        """What administrators may add while the server runs."""
        from toolcrib.serve.source_entry import SourceRules

        return SourceRules(**{**self.sources, "secrets": tuple(self.sources.get("secrets", ()))})

    def bounds(self) -> ServeLimits:
        """The limits of the server."""
        from toolcrib.serve.api import ServeLimits

        return ServeLimits(**self.limits)


def hosting_of(section: ServeSection, folder: Path) -> ServeConfig:
    """What the key `serve` says."""
    keys, jwt = section.auth.keys, section.auth.jwt
    return ServeConfig(
        section.host,
        section.port,
        tuple(section.hosts),
        tuple(section.origins),
        tuple(section.namespaces),
        keys if keys in (None, STORE) else folder / keys,
        None if jwt is None else jwt.model_dump(exclude_unset=True),
        section.limits.model_dump(exclude_unset=True),
        section.log_format,
        section.mcp.model_dump(exclude_unset=True),
        section.public_url,
        section.sources.model_dump(exclude_unset=True),
        section.workers,
        section.trace_url,
    )
