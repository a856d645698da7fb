"""`Egress`: the rules of where requests may go."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from toolcrib.errors import ToolFailure
from toolcrib.policy import hosts, urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.policy.urls import UrlTarget


class Egress:
    """Where requests may go. By itself it allows public addresses, and redirects that stay at the same origin."""

    def check_target(self, target: UrlTarget) -> None:
        """Check an origin before it is resolved, on every hop.

        Raises:
            ToolFailure: nothing may be requested there.
        """

    def check_addresses(self, target: UrlTarget, inner: Sequence[str]) -> None:
        """Check the addresses of a host that are not public; `inner` is empty where only its name says so.

        Raises:
            ToolFailure: they may not be connected to.
        """
        raise ToolFailure("denied", "Address not allowed")

    def check_redirect(self, target: UrlTarget, url: str, status: int) -> None:
        """Check an address that a response from `target` leads to.

        Raises:
            ToolFailure: it is not followed.
        """
        try:
            same = urls.canonical(url) == target
        except UnfitArgument:
            same = False
        if not same:
            message = f"{target.host} redirects to another place, which is refused"
            raise ToolFailure("denied", message, metadata={"http_status": status})

    def headers(self, target: UrlTarget) -> Mapping[str, str]:
        """Return the headers that are added to requests to one origin, and to no other."""
        return {}


class Anywhere(Egress):
    """The rules for addresses that the operator wrote, which may be inner ones."""

    def check_addresses(self, target: UrlTarget, inner: Sequence[str]) -> None:
        """Allow all of them."""


def is_inner(address: str) -> bool:
    """True if an address is private, loopback, link-local, reserved or bound to an interface, or is none."""
    try:
        return "%" in address or hosts.address_is_private(ipaddress.ip_address(address))
    except ValueError:
        return True
