"""What random picks of a server cost beside picks of the one with the fewest requests.

A Service picks at random, once for each connection. Two limits are computed: a connection for each request, so that requests gather at
a server that is behind, and connections that last, so that each server keeps the share that it got by chance. Servers share their time
among their requests; then the answer does not depend on how uneven lengths are. Requests in flight are constant, as of users who wait
for their responses.

Checked in tests/facts/test_picks.py against the exact solution of the closed network: the loss is within a tenth of itself or 0.2
percentage points for 4 to 12 servers, within a quarter for two; and against simulations of requests one by one, of even and uneven
lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import ceil, exp, log
from statistics import NormalDist
from typing import Final

TAIL: Final = 0.99
"""Share of the time for `Picks.crowded`."""
_ENDS_AT: Final = 12
"""Most requests at a server, as a multiple of the mean: beyond it a geometric distribution has e^-12 of its weight."""
_CLOSE: Final = 1e-9
"""Relative error of the mean at which its search ends."""
_NEGLIGIBLE: Final = -45.0
"""Logarithm of a weight, relative to the largest, that no sum notices: e^-45 is a hundredth of a float's precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How fast one server, of one or several engines, answers."""

    fixed_s: float
    """Seconds of a request that it shares with the others in its steps: reading weights, host work."""
    each_s: float
    """Seconds of one engine that each request takes alone."""
    limit: float
    """Most requests that one engine runs at once; others wait."""
    engines: int = 1
    """Engines among which the server itself divides its requests evenly."""

    def rate(self, requests: float) -> float:
        """Requests a second with that many at the server."""
        running = min(requests / self.engines, self.limit)
        return self.engines * running / (self.fixed_s + running * self.each_s) if running else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """One limit of random picks."""

    loss: float
    """Share of the throughput of even picks."""
    crowded: float
    """Requests at one server that are not exceeded 99 % of the time."""
    waiting: float
    """Share of the requests that wait for a place in an engine, even picks included."""


def per_request(server: Served, servers: int, mean: float) -> Picks:
    """Each request goes to a server at random. `mean`: requests in flight for each server."""
    shares = _shares(server, mean)
    # Of infinitely many servers; of few, the others' sum is less free.
    lost = _lost(server, shares, mean) * (1 - 1 / servers)
    return Picks(loss=lost, crowded=_quantile(shares), waiting=_waiting(server, shares, mean))


def per_connection(server: Served, servers: int, mean: float) -> Picks:
    """Each connection stays with the server that it got, and has one request after another."""
    spread = NormalDist(mean, (mean * (1 - 1 / servers)) ** 0.5) if servers > 1 else None
    if spread is None or not spread.stdev:
        return Picks(loss=0.0, crowded=mean, waiting=_over(server, mean) / mean)
    most = int(mean + 6 * spread.stdev) + 2
    shares = {count: spread.cdf(count + 0.5) - spread.cdf(count - 0.5) for count in range(most)}
    lost = _lost(server, shares, mean)
    return Picks(loss=lost, crowded=_quantile(shares), waiting=_waiting(server, shares, mean))


# One plan asks for the same servers once for each way to buy them.
@lru_cache(maxsize=64)
def _shares(server: Served, mean: float) -> Mapping[int, float]:
    """Shares of the time with so many requests at one of many servers with that mean; arrivals are random, at one rate."""
    most = int(_ENDS_AT * mean) + 12
    full = min(most, ceil(server.limit * server.engines))
    rates = [log(server.rate(count)) for count in range(1, full + 1)]
    rates += rates[-1:] * (most - full)
    slow = [0.0, *accumulate(rates)]
    # The logarithm of the rate of arrivals lies between these two: of none, and of a full server. Newton's steps, or half of the way
    # where one leads out: the mean grows by the variance.
    low, high = log(1e-12), log(server.rate(server.limit * server.engines) + 1e-12)
    arrivals = log(server.rate(mean))
    while True:
        found = _around_the_highest(slow, arrivals, bisect_left(rates, arrivals))
        total = sum(found.values())
        here = sum(count * weight for count, weight in found.items()) / total
        if abs(here - mean) < _CLOSE * mean or high - low < _CLOSE:
            return {count: weight / total for count, weight in found.items()}
        low, high = (arrivals, high) if here < mean else (low, arrivals)
        variance = sum(weight * (count - here) ** 2 for count, weight in found.items()) / total
        step = arrivals + (mean - here) / variance if variance else low
        arrivals = step if low < step < high else (low + high) / 2


def _around_the_highest(slow: Sequence[float], arrivals: float, highest: int) -> dict[int, float]:
    """Weights by number of requests: they grow until arrivals are slower than the server, and fall from there."""

    def height(count: int) -> float:
        return count * arrivals - slow[count]

    least = height(highest) + _NEGLIGIBLE
    first = bisect_left(range(highest), least, key=height)
    after = range(highest, len(slow))
    end = highest + bisect_left(after, -least, key=lambda count: -height(count))
    return {count: exp(height(count) - least) for count in range(first, end)}


def _lost(server: Served, shares: Mapping[int, float], mean: float) -> float:
    even = server.rate(mean)
    return max(0.0, 1 - sum(share * server.rate(count) for count, share in shares.items()) / even)


def _waiting(server: Served, shares: Mapping[int, float], mean: float) -> float:
    return sum(share * _over(server, count) for count, share in shares.items()) / mean


def _over(server: Served, requests: float) -> float:
    return max(0.0, requests - server.limit * server.engines)


def _quantile(shares: Mapping[int, float]) -> float:
    below = 0.0
    for count, share in shares.items():
        below += share
        if below >= TAIL:
            return float(count)
    return float(max(shares))
