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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from operator import mul
from statistics import NormalDist
from typing import Final

TAIL: Final = 0.99
"""Share of the time for `Picks.crowded`."""
_ENDS_AT: Final = 12
"""Most requests at a server, as a multiple of the mean: beyond it a geometric distribution has e^-12 of its weight."""
_CLOSE: Final = 1e-9
"""Relative error of the mean at which its search ends."""


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
    weights = _weights(server, mean)
    total = sum(weights)
    shares = [weight / total for weight in weights]
    # Of infinitely many servers; of few, the others' sum is less free.
    lost = _lost(server, shares, mean) * (1 - 1 / servers)
    return Picks(loss=lost, crowded=_quantile(shares), waiting=_waiting(server, shares, mean))


def per_connection(server: Served, servers: int, mean: float) -> Picks:
    """Each connection stays with the server that it got, and has one request after another."""
    spread = NormalDist(mean, (mean * (1 - 1 / servers)) ** 0.5) if servers > 1 else None
    if spread is None or not spread.stdev:
        return Picks(loss=0.0, crowded=mean, waiting=_over(server, mean) / mean)
    most = int(mean + 6 * spread.stdev) + 2
    shares = [spread.cdf(count + 0.5) - spread.cdf(count - 0.5) for count in range(most)]
    lost = _lost(server, shares, mean)
    return Picks(loss=lost, crowded=_quantile(shares), waiting=_waiting(server, shares, mean))


def _weights(server: Served, mean: float) -> Sequence[float]:
    """Weights of 0, 1, ... requests at one of many servers with that mean: arrivals at random, at a rate that depends on nothing."""
    slow = [0.0, *_running_sum(-log(server.rate(count)) for count in range(1, int(_ENDS_AT * mean) + 12))]
    # The logarithm of the rate of arrivals lies between these two: of none, and of a full server. Newton's steps, or half of the way
    # where one leads out: the mean grows by the variance.
    low, high = log(1e-12), log(server.rate(server.limit * server.engines) + 1e-12)
    arrivals = log(server.rate(mean))
    while True:
        heights = [count * arrivals + height for count, height in enumerate(slow)]
        top = max(heights)
        found = [exp(height - top) for height in heights]
        total = sum(found)
        here = sum(map(mul, found, range(len(found)))) / total
        if abs(here - mean) < _CLOSE * mean or high - low < _CLOSE:
            return found
        low, high = (arrivals, high) if here < mean else (low, arrivals)
        variance = sum(weight * (count - here) ** 2 for count, weight in enumerate(found)) / total
        step = arrivals + (mean - here) / variance if variance else low
        arrivals = step if low < step < high else (low + high) / 2


def _running_sum(values: Iterator[float]) -> Iterator[float]:
    total = 0.0
    for value in values:
        total += value
        yield total


def _lost(server: Served, shares: Sequence[float], mean: float) -> float:
    even = server.rate(mean)
    return max(0.0, 1 - sum(share * server.rate(count) for count, share in enumerate(shares)) / even)


def _waiting(server: Served, shares: Sequence[float], mean: float) -> float:
    return sum(share * _over(server, count) for count, share in enumerate(shares)) / mean


def _over(server: Served, requests: float) -> float:
    return max(0.0, requests - server.limit * server.engines)


def _quantile(shares: Sequence[float]) -> float:
    below = 0.0
    for count, share in enumerate(shares):
        below += share
        if below >= TAIL:
            return float(count)
    return float(len(shares) - 1)
