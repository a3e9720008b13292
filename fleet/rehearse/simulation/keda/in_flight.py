"""Requests in flight over the Ready servers, as a model, and what Prometheus answers about them a minute or two later.

A fleet of six holds thousands of requests; so many simulated connections beside a control plane on two cores would measure the
machine. What the autoscaler sees is therefore a fluid model: arrivals at a declared rate, answered as fast as the Ready servers
can, the rest waits. What clients lose is read from real requests, a sample of them (fleet/rehearse/traffic).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from fleet.rehearse.simulation.keda.triggers import TriggerError

STEP_SECONDS: Final = 5.0
SCRAPE_SECONDS: Final = 15.0
"""Source: workloads/monitoring.py, the shortest interval of its PodMonitoring that a scaling stack would use."""
LAG_SECONDS: Final = 90.0
"""From a sample to the answer of a query. Source: Cloud Monitoring delivers managed Prometheus' samples in 1 to 2 minutes
(a field observation; unverified for every region)."""
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"
_TERM: Final = re.compile(r"(?P<sum>sum\()?(?P<metric>[a-z_:]+)\{(?P<labels>[^{}]*)\}(?(sum)\))")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
Outage = Literal["", "no answer", "no samples"]
"""`no answer`: Prometheus answers with an error. `no samples`: its answers are empty, as when nothing was scraped."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All servers together at one moment."""

    running: float
    waiting: float
    servers: int


class InFlight:
    """The model. `offered` may be changed at any time; everything is worked out when somebody asks."""

    def __init__(
        self,
        now_seconds: Callable[[], float],
        ready: Callable[[float], int],
        *,
        capacity_per_server: float,
        request_seconds: float,
        app: str,
        namespace: str,
    ) -> None:
        """`ready`: Ready servers at a simulated moment. `capacity_per_server`: requests that a server works on at once. `app`,
        `namespace`: labels of its series.
        """
        self._now, self._ready = now_seconds, ready
        self._capacity, self._seconds = capacity_per_server, request_seconds
        self._labels = {"app": app, "namespace": namespace}
        self.outage: Outage = ""
        self._offered: list[tuple[float, float]] = [(0.0, 0.0)]
        self._samples: list[Sample] = [Sample(0.0, 0.0, 0)]
        self._in_flight = 0.0
        self._lock = threading.Lock()

    def offer(self, in_flight: float) -> None:
        """From now on as many requests arrive as would keep this number in flight, were each answered undelayed."""
        self._offered.append((self._now(), in_flight))

    def plan(self, steps: Iterable[tuple[float, float]]) -> None:
        """Offers to come: simulated moments later than any before, and numbers."""
        self._offered.extend(steps)

    def calm(self) -> None:
        """Nobody calls, nobody waits, and nothing else was ever scraped."""
        with self._lock:
            self._advance(self._now())
            self._in_flight, self.outage = 0.0, ""
            self._offered.append((self._now(), 0.0))
            self._samples = [Sample(0.0, 0.0, one.servers) for one in self._samples]

    def at(self, seconds: float) -> Sample:
        """The servers at a simulated moment that has passed."""
        with self._lock:
            self._advance(self._now())
            return self._samples[max(0, min(int(seconds / STEP_SECONDS), len(self._samples) - 1))]

    def delayed_share(self, since_seconds: float) -> float:
        """Share of the arrivals since then that came while others waited, or found no server."""
        self.at(since_seconds)
        late = total = 0.0
        for step in range(int(since_seconds / STEP_SECONDS), len(self._samples)):
            one, arrivals = self._samples[step], self._offered_at(step * STEP_SECONDS)
            total += arrivals
            late += arrivals if one.waiting > 0 or not one.servers else 0.0
        return late / total if total else 0.0

    def query(self, text: str) -> list[float]:
        """What Prometheus answers: sums of running and waiting, added. Raises TriggerError for an outage and for other queries."""
        if self.outage == "no answer":
            raise TriggerError("prometheus query api returned error. status: 503")
        sample = self.at((self._now() - LAG_SECONDS) // SCRAPE_SECONDS * SCRAPE_SECONDS)
        total, engines = 0.0, 1
        for term in text.split(" + "):
            match = _TERM.fullmatch("".join(term.split()))
            if match is None or match["metric"] not in (RUNNING, WAITING):
                raise TriggerError(
                    f"the stand-in adds sums of {RUNNING} and {WAITING}; it does not evaluate {term.strip()}"
                )
            labels = dict(_LABEL.findall(match["labels"]))
            if self.outage or not sample.servers or not labels.items() <= self._labels.items():
                return []
            total += sample.running if match["metric"] == RUNNING else sample.waiting
            engines = engines if match["sum"] else 2
        return [total] * engines

    def _advance(self, until: float) -> None:
        while len(self._samples) * STEP_SECONDS <= until:
            at = len(self._samples) * STEP_SECONDS
            servers = self._ready(at)
            able = servers * self._capacity
            # Those who find no server are refused; they do not wait for one.
            arriving = self._offered_at(at) if servers else 0.0
            served = min(self._in_flight, able)
            share = min(1.0, STEP_SECONDS / self._seconds)
            self._in_flight = max(0.0, self._in_flight + (arriving - served) * share) if servers else 0.0
            running = min(self._in_flight, able)
            self._samples.append(Sample(running, self._in_flight - running, servers))

    def _offered_at(self, seconds: float) -> float:
        return next(value for since, value in reversed(self._offered) if since <= seconds)
