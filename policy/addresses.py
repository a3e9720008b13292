"""Ranges of addresses that are more of the internet than somebody's own networks."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from facts.ranges import NOT_INTERNET, NOT_INTERNET_V6

LEAST_PREFIX: Final = {4: 12, 6: 32}
"""Shortest prefix of a public range that counts as named networks, by IP version. Assumed: a /12 holds the public networks of a company; a
/32 of IPv6 is what a registry gives to one provider (RIPE-738)."""
_INSIDE: Final = tuple(map(ip_network, (*NOT_INTERNET, *NOT_INTERNET_V6)))


def is_wide(cidr: object) -> bool:
    """Whether a range is wide; text that is no range is not, and Google or Kubernetes refuses it."""
    try:
        network = ip_network(str(cidr).strip(), strict=False)
    except ValueError:
        return False
    own = any(network.version == one.version and network.subnet_of(one) for one in _INSIDE)  # type: ignore[arg-type]
    return not own and network.prefixlen < LEAST_PREFIX[network.version]


def wide(cidrs: Iterable[object]) -> str:
    """The first wide range, empty without one."""
    return next((str(cidr) for cidr in cidrs if is_wide(cidr)), "")
