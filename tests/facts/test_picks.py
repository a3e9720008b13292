"""What random picks cost, against the exact closed network and against requests simulated one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp, log

import pytest

from facts.picks import Picks, Served, per_connection, per_request
from tests.support.rows import each_row

HALF_FIXED = Served(fixed_s=10.0, each_s=1.0, limit=40)
"""At ten requests, half of a step is shared."""
SATURATED = Served(fixed_s=0.0, each_s=1.0, limit=1_000)
LIMITED = Served(fixed_s=20.0, each_s=1.0, limit=12)


@each_row(
    ("server", "servers", "mean"),
    [
        (server, servers, mean)
        for server in (HALF_FIXED, SATURATED, LIMITED)
        for servers in (2, 4, 8, 12)
        for mean in (2, 5, 10, 25)
    ],
)
def test_it_is_the_exact_closed_network_within_its_error(server: Served, servers: int, mean: int) -> None:
    exact = 1 - _exact_rate(server, servers, servers * mean) / (servers * server.rate(mean))
    found = per_request(server, servers, mean).loss
    assert found == pytest.approx(exact, rel=0.25 if servers == 2 else 0.1, abs=0.002)


@each_row(
    ("server", "length"),
    [
        (HALF_FIXED, lambda _: 1.0),
        (HALF_FIXED, lambda chance: chance.expovariate(1)),
        (SATURATED, lambda chance: chance.choice((0.2, 0.2, 0.2, 3.4))),
    ],
)
def test_simulated_requests_lose_as_much_whatever_their_lengths(
    server: Served, length: Callable[[random.Random], float]
) -> None:
    servers, mean = 4, 5
    rate = _simulated_rate(server, servers, servers * mean, length)
    lost = 1 - rate / (servers * server.rate(mean))
    assert lost == pytest.approx(per_request(server, servers, mean).loss, abs=0.02)


def test_lasting_connections_cost_less_and_crowd_less() -> None:
    for server in (HALF_FIXED, SATURATED):
        lasting, new = (limit(server, 8, 25) for limit in (per_connection, per_request))
        assert 0 <= lasting.loss < new.loss
        assert 25 < lasting.crowded < new.crowded


def test_random_picks_matter_where_few_requests_are_in_flight_and_wait_where_engines_are_full() -> None:
    few, many = (per_request(SATURATED, 8, mean) for mean in (2, 250))
    assert few.loss == pytest.approx(7 / 23, rel=0.1)
    assert many.loss < 0.005
    full = Served(fixed_s=1.0, each_s=1.0, limit=250)
    assert per_request(full, 8, 250).waiting > per_connection(full, 8, 250).waiting > 0.01


def test_engines_of_one_server_share_its_requests() -> None:
    one, eight = Served(fixed_s=5.0, each_s=1.0, limit=30), Served(fixed_s=5.0, each_s=1.0, limit=30, engines=8)
    assert eight.rate(80) == pytest.approx(8 * one.rate(10))


def test_one_server_loses_nothing() -> None:
    for limit in (per_request, per_connection):
        found: Picks = limit(HALF_FIXED, 1, 10)
        assert found.loss == 0


def _exact_rate(server: Served, servers: int, in_flight: int) -> float:
    """Requests a second of the closed network with product form, by convolution."""
    # Scaled by a rate of about the result, which keeps the numbers small.
    scale, slow = server.rate(in_flight / servers), [0.0]
    for count in range(1, in_flight + 1):
        slow.append(slow[-1] + log(scale / server.rate(count)))
    top = max(slow)
    one = [exp(height - top) for height in slow]
    whole = one
    for _ in range(servers - 1):
        whole = [sum(whole[k] * one[n - k] for k in range(n + 1)) for n in range(in_flight + 1)]
    # Requests pass all servers together at servers x G(n - 1) / G(n).
    return scale * servers * whole[in_flight - 1] / whole[in_flight]


def _simulated_rate(
    server: Served, servers: int, in_flight: int, length: Callable[[random.Random], float], requests: int = 30_000
) -> float:
    """Requests a second of users who send the next request at once, to a server at random."""
    chance = random.Random(7)
    left: list[list[float]] = [[] for _ in range(servers)]
    for _ in range(in_flight):
        chance.choice(left).append(length(chance))
    now = 0.0
    for _ in range(requests):
        # All requests of a server advance alike.
        each = [server.rate(len(here)) / len(here) if here else 0.0 for here in left]
        ends = [min(here) / speed if here else float("inf") for here, speed in zip(left, each, strict=True)]
        first = min(range(servers), key=ends.__getitem__)
        now += ends[first]
        for index, here in enumerate(left):
            left[index] = [rest - each[index] * ends[first] for rest in here]
        left[first].remove(min(left[first]))
        chance.choice(left).append(length(chance))
    return requests / now
