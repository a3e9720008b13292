"""Ranges of addresses as sets: how much of the internet many of them contain together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple

from facts.ranges import NOT_INTERNET, NOT_INTERNET_V6, TRANSLATED_V6

MOST_PUBLIC: Final = {4: 2**20, 6: 2**96}
"""Public addresses that count as named networks, by IP version. Assumed: a /12 holds the public networks of a company; a /32 of IPv6 is
what a registry gives to one provider (RIPE-738)."""
_TRANSLATED: Final = tuple(map(IPv6Network, TRANSLATED_V6))


class Span(NamedTuple):
    """Consecutive addresses, the last included."""

    version: int
    first: int
    last: int


def spans(cidrs: Iterable[object], without: Iterable[object] = ()) -> tuple[Span, ...]:
    """The addresses of these ranges or spans less those of others, without overlap; text that is no range has none."""
    found: list[Span] = []
    for span in sorted(_spans(cidrs)):
        if found and found[-1].version == span.version and span.first <= found[-1].last + 1:
            found[-1] = found[-1]._replace(last=max(found[-1].last, span.last))
        else:
            found.append(span)
    for gap in _spans(without):
        found = [part for one in found for part in _less(one, gap)]
    return tuple(found)


def public(parts: Sequence[Span]) -> tuple[Span, ...]:
    """The part that lies on the internet."""
    return spans(parts, without=(*NOT_INTERNET, *NOT_INTERNET_V6))


def is_wide(parts: Sequence[Span]) -> bool:
    """Whether more of the internet is in it than a company's own networks."""
    counts = {4: 0, 6: 0}
    for one in public(parts):
        counts[one.version] += one.last - one.first + 1
    return any(counts[version] > most for version, most in MOST_PUBLIC.items())


def touches(parts: Iterable[Span], cidr: str) -> bool:
    """Whether some address of a range is in it."""
    return any(
        part.version == other.version and part.first <= other.last and other.first <= part.last
        for other in _spans((cidr,))
        for part in parts
    )


def _less(one: Span, gap: Span) -> Iterator[Span]:
    if one.version != gap.version or gap.last < one.first or one.last < gap.first:
        yield one
        return
    if one.first < gap.first:
        yield one._replace(last=gap.first - 1)
    if gap.last < one.last:
        yield one._replace(first=gap.last + 1)


def _spans(cidrs: Iterable[object]) -> Iterator[Span]:
    for cidr in cidrs:
        found = cidr if isinstance(cidr, Span) else _parsed(str(cidr).strip())
        if found is not None:
            yield found


@lru_cache(maxsize=4096)
def _parsed(cidr: str) -> Span | None:
    try:
        network = _as_reached(ip_network(cidr, strict=False))
    except ValueError:
        return None
    return Span(network.version, int(network.network_address), int(network.broadcast_address))


def _as_reached(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """The IPv4 range that a range of translated addresses means."""
    for translated in _TRANSLATED:
        if isinstance(network, IPv6Network) and network.subnet_of(translated):
            return IPv4Network((int(network.network_address) % 2**32, network.prefixlen - translated.prefixlen))
    return network


def wide_ranges(where: str, cidrs: Sequence[object]) -> str:
    """What a message says of a list of ranges that together are wide; empty where they are not."""
    if not is_wide(spans(cidrs)):
        return ""
    alone = next((cidr for cidr in cidrs if is_wide(spans((cidr,)))), None)
    return f"{where} has {alone}" if alone is not None else f"{where} has {len(cidrs)} ranges, together {_size(cidrs)}"


def _size(cidrs: Iterable[object]) -> str:
    count = sum(one.last - one.first + 1 for one in public(spans(cidrs)) if one.version == 4)
    return f"{count:,} public addresses" if count else "a large part of the public IPv6 addresses"
