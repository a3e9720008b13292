"""Where requests enter the fleet: the Service, or the gateway's route."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.cloud.gateway_split import Backend, Turns
from lab.stage.traffic.outcomes import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The server of one request."""

    url: str | None
    """None: none can take it."""
    backend: str = ""
    """The route's backend; empty at a Service."""
    loss: Cause = "no endpoint"
    """What the client sees without a server."""


class Entrance(Protocol):
    """Chooses a server for each request."""

    def choose(self, other_than: str | None = None) -> Chosen:
        """A server; for a retry another one than that URL, if possible."""


class ServiceEntrance:
    """A random endpoint, as in kube-proxy."""

    def __init__(self, endpoints: Callable[[], Sequence[str]]) -> None:
        self._endpoints = endpoints
        self._random = random.Random(0)  # noqa: S311 - a load, not a secret

    def choose(self, other_than: str | None = None) -> Chosen:
        """As Entrance."""
        return Chosen(url=_one_of(self._endpoints(), other_than, self._random))


class RouteEntrance:
    """A backend by the route's weights, then a random pod of its pool.

    The endpoint picker's own choice is not played. It and the load balancer answer 503 where a pool has no ready endpoint. Source:
    gateway-api-inference-extension v1.4.0, docs/proposals/004-endpoint-picker-protocol; gateway-api v1.5.1, httproute_types.go.
    """

    def __init__(
        self,
        split: Callable[[], Sequence[Backend]],
        endpoints: Callable[[Mapping[str, str]], Sequence[str]],
    ) -> None:
        """`split`: the backends in effect. `endpoints`: URLs of ready pods with these labels."""
        self._split, self._endpoints, self._turns = split, endpoints, Turns()
        self._random = random.Random(0)  # noqa: S311 - a load, not a secret

    def choose(self, other_than: str | None = None) -> Chosen:
        """As Entrance."""
        backend = self._turns.next(self._split())
        if backend is None:
            return Chosen(url=None)
        if backend.selector is None:
            return Chosen(url=None, backend=backend.name, loss="server error")
        url = _one_of(self._endpoints(backend.selector), other_than, self._random)
        return Chosen(url=url, backend=backend.name)


def _one_of(urls: Sequence[str], other_than: str | None, chance: random.Random) -> str | None:
    others = [url for url in urls if url != other_than] or urls
    return chance.choice(others) if others else None
