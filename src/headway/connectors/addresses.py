"""Which addresses requests may reach: a deny table of our own, and the networks that the operator allows.

`ipaddress.is_global` is no guard: multicast, NAT64, 6to4, the metadata services of some clouds and others pass it. So
IPv4 is allowed but for this table, and IPv6 only within the one block that is given out, 2000::/3, but for this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_DENIED_4 = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by providers",  # has 100.100.100.200, the metadata service of Alibaba Cloud
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's own service",  # Azure's
    "169.254.0.0/16": "link-local",  # has 169.254.169.254, the metadata service of most clouds
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",  # has 192.0.0.192, the metadata service of Oracle Cloud
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "a relay to IPv6",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",  # has 255.255.255.255
}
_DENIED_6 = {
    # outside the block already: ::1, ::, v4-mapped and v4-compatible, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard
    # (100::/64), segment routing (5f00::/16), unique local (fc00::/7), link-local, site-local (fec0::/10), multicast
    "2001::/23": "reserved",  # has Teredo, which holds an IPv4 address, ORCHID and benchmarks
    "2001:db8::/32": "for documentation",
    "2002::/16": "6to4, which holds an IPv4 address",
    "2620:4f:8000::/48": "reserved",
    "3ffe::/16": "given back",
    "3fff::/20": "for documentation",
}
_GIVEN_OUT_6 = IPv6Network("2000::/3")


def _table(texts: dict[str, str], network: type) -> tuple[tuple[int, int, str], ...]:
    made = ((network(text), reason) for text, reason in texts.items())
    return tuple((int(each.network_address), int(each.broadcast_address), reason) for each, reason in made)


_RANGES_4, _RANGES_6 = _table(_DENIED_4, IPv4Network), _table(_DENIED_6, IPv6Network)


class Denied(Exception):
    """No socket was opened: the address is not one that requests may reach."""


def fault(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Why requests may not reach this address; None: they may."""
    if any(address.version == network.version and address in network for network in allowed):
        return None
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address not in _GIVEN_OUT_6):
        return "not public"
    number = int(address)
    ranges = _RANGES_4 if isinstance(address, IPv4Address) else _RANGES_6
    return next((reason for first, last, reason in ranges if first <= number <= last), None)


def check(host: str, found: Sequence[str], allowed: Iterable[Network]) -> list[str]:
    """The addresses of a host, if requests may reach every one of them; raises `Denied`.

    One forbidden address is enough to refuse: otherwise the owner of the name could get through by luck or order.
    """
    allowed = tuple(allowed)
    for text in found:
        try:
            reason = fault(ip_address(text), allowed)
        except ValueError:
            reason = "not an address"
        if reason is not None:
            # the address of a name is left out: it would tell a tenant about the inside of this network
            what = f"{host} is {reason}" if text == host else f"{host} leads to an address that is {reason}"
            raise Denied(
                f"{what}: requests go to public addresses only. An operator can allow a network in the worker's "
                "headway.toml, [connectors] allow_networks"
            )
    if not found:
        raise OSError(f"{host} has no address")
    return list(found)
