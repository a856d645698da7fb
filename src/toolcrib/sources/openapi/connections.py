"""`Connections`: how the requests of one document leave, to the hosts that document or configuration name."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.http import Client, Egress, Request, Response, Unanswered
from toolcrib.policy.urls import UrlTarget


class Connections(Egress):
    """Connections to the hosts of one document.

    `inner_hosts` may have inner addresses: those are the hosts that the configuration names.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.inner_hosts: set[str] = set()
        self._client = client or Client(keep=True)

    def check_addresses(self, target: UrlTarget, inner: Sequence[str]) -> None:
        """Allow inner addresses of hosts that the configuration names."""
        if inner and target.host not in self.inner_hosts:
            raise ToolFailure(
                "denied",
                f"{target.host} leads to {inner[0]}, which lies inside",
                hint="Whoever configures this source can allow it by naming that host in its base_url.",
            )

    async def send(self, request: Request, largest: int | None = None) -> Response:
        """Return the response to a request, after redirects on the same host.

        Raises:
            ToolFailure: it could not be sent, or leads elsewhere; `StreamClosed` where it was sent and not answered.
        """
        try:
            return await self._client.send(request, self, largest=largest)
        except Unanswered:
            raise StreamClosed from None

    async def close(self) -> None:
        """Close all connections; it can be used again, also in another event loop."""
        await self._client.close()
