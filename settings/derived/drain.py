"""How a server pod ends when it is stopped: sleep while its requests finish, stop signal, kill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from facts import ledger
from facts.capacity import MAX_GRACE_SECONDS
from facts.engines import EXIT_SECONDS

DRAIN_SECONDS: Final = 120
"""Default sleep with several API servers, which cut streams at the stop signal. From the record: a request of the record takes 24 s on
average, and 11.6 s + 512 x 0.073 s = 49 s at both 99th percentiles; twice that, rounded."""
ENDPOINT_SECONDS: Final = 30
"""Sleep with one API server, which refuses new requests after the stop signal: every load balancer has removed the endpoint by then.
Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Shutdown of a server pod: sleep while requests finish and endpoints are removed, stop signal, kill."""

    pre_stop_seconds: int
    """Seconds before the stop signal; requests in flight continue."""
    after_signal_seconds: int
    """Seconds for running requests after the stop signal; 0 if vLLM cannot use them."""
    grace_seconds: int = MAX_GRACE_SECONDS
    """Seconds until the kill, including both: GKE's maximum at a scale-down. A Spot notice leaves 15 s whatever this says."""

    @property
    def stream_seconds(self) -> int:
        """How long a request that runs at the start may continue."""
        return self.pre_stop_seconds + self.after_signal_seconds


def mean_request_seconds() -> float:
    """How long a request of the record takes on average, as the article says; its requests in flight and a second give the same."""
    return float(ledger.value("users.seconds_per_request"))


def drain(drain_seconds: int | None, api_servers: int) -> Drain:
    """The shutdown for `server.drainSeconds` and a number of API servers; docs/decisions/07-server.md gives the reasons."""
    most = MAX_GRACE_SECONDS - EXIT_SECONDS
    if api_servers > 1:
        # The parent stops its API servers first, so no response is delivered after the signal: draining is the sleep.
        return Drain(pre_stop_seconds=DRAIN_SECONDS if drain_seconds is None else drain_seconds, after_signal_seconds=0)
    wanted = most if drain_seconds is None else drain_seconds
    sleep = min(ENDPOINT_SECONDS, wanted)
    return Drain(pre_stop_seconds=sleep, after_signal_seconds=wanted - sleep)
