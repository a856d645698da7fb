"""What `toolcrib serve` tells once it listens: its addresses, and how to come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.serve.http import Site
    from toolcrib.toolkits.shell.protections import Protections


class Announcement(NamedTuple):
    """A server that listens: its address, its start token if it asks for one, and whether it asks for keys."""

    url: str
    token: str | None
    keys: bool
    only_mcp: bool
    protections: Protections

    def say(self, terminal: Terminal, site: Site) -> None:
        """Tells whoever started the server."""
        from toolcrib.serve.http import API, MCP

        url = self.url
        if terminal.json:
            ready = {"ready": f"{url}{MCP}"} if self.only_mcp else {"ready": url, "api": f"{url}{API}"}
            token = {} if self.token is None else {"token": self.token}
            terminal.data(
                {**ready, "mcp": f"{url}{MCP}", "keys": self.keys, **token, "protections": self.protections._asdict()}
            )
            return
        if self.only_mcp:
            terminal.text(f"MCP at {url}{MCP}")
        else:
            self._endpoints(terminal, site)
        terminal.say(f"Commands are held by: {self.protections.describe()}", "dim")
        if self.protections.root:
            terminal.say("This runs as root: whatever goes wrong in it does so as root.", "yellow")
        self._who(terminal)
        terminal.say("Ctrl-C stops.", "dim")
        terminal.ready()

    def _endpoints(self, terminal: Terminal, site: Site) -> None:
        from toolcrib.serve.http import API, MCP

        url = self.url
        terminal.text(f"Toolcrib at {url}")
        if site.endpoint("/") is not None:
            terminal.text(f"  Console  {url}/" + ("" if self.token is None else f"?token={self.token}"))
        terminal.text(f"  API      {url}{API}  (described at {url}{API}/openapi.json)")
        terminal.text(f"  MCP      {url}{MCP}")
        if site.api.features.get("ag_ui"):
            terminal.text(f"  Agents   {url}/ag-ui/NAME, /ai-sdk/NAME, /a2a/NAME")
        key = "KEY" if self.keys else self.token
        header = "" if key is None else f" -H 'Authorization: Bearer {key}'"
        terminal.say(f"Try: curl{header} {url}{API}/tools", "dim")

    def _who(self, terminal: Terminal) -> None:
        if self.keys:
            terminal.say("Clients are let in with a key, as a bearer token.", "dim")
        elif self.token is None:
            advice = "`toolcrib keys add OWNER` makes one."
            terminal.say(f"There are no keys: whoever reaches it may do everything. {advice}", "yellow")
        else:
            terminal.say(f"Clients are let in with the header Authorization: Bearer {self.token}", "dim")
            terminal.say("There are no keys: whoever has this token may do everything.", "yellow")
