"""Hosts as they are matched: one spelling for each, and whether it lies inside.

A name that old and new rules for international names read differently is refused: a library that follows the other
rules would reach another host.
"""

from __future__ import annotations

import ipaddress
import re
import stringprep
import unicodedata
from encodings import idna
from functools import lru_cache

from toolcrib.policy.errors import UnfitArgument

_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
# Sharp s, final sigma, joiners, and fillers that one side keeps and the other drops.
_READ_DIFFERENTLY = frozenset("\u00df\u1e9e\u03c2\u200c\u200d\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_INSIDE = ("localhost", "local", "internal")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_INNER = tuple(map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "fec0::/10", "2001::/23", "::/96")))
# Relays, addresses of protocols, and public ones at which clouds tell machines their secrets.
_INNER_V4 = tuple(map(ipaddress.IPv4Network, ("192.88.99.0/24", "192.0.0.0/24", "168.63.129.16/32")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@lru_cache(4096)
def canonical(host: str) -> str:
    """The one spelling of a host: lower case, without a final dot, international names in ASCII, addresses in full.

    Raises:
        Unfit: it is none, or its meaning depends on who reads it.
    """
    if not host or len(host) > 1000:
        raise UnfitArgument("a URL has no host, or too long a one")
    if host.startswith("["):
        return _v6(host)
    labels = [_ascii(label) for label in _DOTS.split(host)]
    if len(labels) > 1 and labels[-1] == "":
        del labels[-1]
    if _NUMBER.fullmatch(labels[-1]):
        return str(_v4(host, labels))
    name = ".".join(labels)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UnfitArgument(f"{host!r} is no host")
    return name


@lru_cache(4096)
def is_private(host: str) -> bool:
    """True if a canonical host is internal: private, loopback, link-local and reserved addresses, and local names."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.rpartition(".")[2] in _INSIDE
    return address_is_private(address)


def address_is_private(address: Address) -> bool:
    """True if an address is anything but a public one, also where it carries another inside."""
    if isinstance(address, ipaddress.IPv4Address):
        special = not address.is_global or address.is_multicast or address.is_reserved
        return special or any(address in net for net in _INNER_V4)
    carried = _carried(address)
    if carried is not None and address_is_private(carried):
        return True
    if carried is not None and address in _NAT64:
        return False
    return not address.is_global or address.is_multicast or address.is_reserved or any(address in net for net in _INNER)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _v6(host: str) -> str:
    try:
        if not host.endswith("]") or "%" in host:
            raise ValueError
        address = ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        raise UnfitArgument(f"{host!r} is no address") from None
    return f"[{address}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)


def _v4(host: str, labels: list[str]) -> ipaddress.IPv4Address:
    """An address in any of the forms that `inet_aton` takes: up to four numbers, the last of which fills the rest."""
    try:
        numbers = [_number(label) for label in labels]
        *first, last = numbers
        if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
            raise ValueError
        return ipaddress.IPv4Address(last + sum(number << (24 - 8 * place) for place, number in enumerate(first)))
    except ValueError:
        raise UnfitArgument(f"{host!r} is no address") from None


def _number(label: str) -> int:
    if not _NUMBER.fullmatch(label) or len(label) > 40:
        raise ValueError
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if label.startswith("0") else 10)


def _ascii(label: str) -> str:
    if not label.isascii():
        label = _encoded(label)
    label = label.lower()
    if label.startswith("xn--"):
        _check_encoded(label)
    return label


def _encoded(label: str) -> str:
    """A label by the rules of 2003, where today's give the same."""
    plain = unicodedata.normalize("NFKC", label)
    today, folded = (unicodedata.normalize("NFKC", form) for form in (plain.lower(), plain.casefold()))
    try:
        if _READ_DIFFERENTLY & {*label, *today} or any(stringprep.in_table_a1(char) for char in label):
            raise ValueError
        prepared = idna.nameprep(label)
        if prepared != today or prepared != folded or len(prepared) > 63:
            raise ValueError
        return prepared if prepared.isascii() else "xn--" + prepared.encode("punycode").decode()
    except ValueError:
        raise UnfitArgument(f"{label!r} cannot be part of a host; write it in its ASCII form (xn--…)") from None


def _check_encoded(label: str) -> None:
    """What claims to be an encoded name must be one: not plain ASCII in disguise."""
    try:
        if label[4:].encode().decode("punycode").isascii():
            raise ValueError
    except ValueError:
        raise UnfitArgument(f"{label!r} is no international name") from None
