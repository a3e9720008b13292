"""Model of requests in flight, and delayed Prometheus answers about it.

Thousands of simulated connections would overload two cores. The autoscaler therefore sees a fluid model: requests arrive at a given
rate, are answered as fast as the Ready replicas can, and wait otherwise. Lost requests are measured with real, sampled requests
(lab/stage/traffic).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.cloud.keda.triggers import TriggerError

STEP_SECONDS: Final = 5.0
SCRAPE_SECONDS: Final = 15.0
"""Source: workloads/monitoring.py, the shortest interval of its PodMonitoring that a scaling stack would use."""
LAG_SECONDS: Final = 90.0
"""From a sample to its visibility in queries. Source: Cloud Monitoring delivers managed Prometheus' samples in 1 to 2 minutes
(a field observation; unverified for every region)."""
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"
_TERM: Final = re.compile(
    r"(?P<sum>sum\()?(?P<seen>last_over_time\()?(?P<metric>[a-z_:]+)\{(?P<labels>[^{}]*)\}(?(seen)\[(?P<seconds>\d+)s\]\))(?(sum)\))"
)
_LOOK_BACK_SECONDS: Final = 300.0
"""Of a query without one of its own. Source: Prometheus."""
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """All replicas together at one time."""

    running: float
    waiting: float
    servers: int


class InFlight:
    """The model, computed on demand."""

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
        """`ready`: Ready replicas at a simulated time. `capacity_per_server`: parallel requests of a replica. `app`, `namespace`:
        labels of its series.
        """
        self._now, self._ready = now_seconds, ready
        self._capacity, self._seconds = capacity_per_server, request_seconds
        self._labels = {"app": app, "namespace": namespace}
        self._offered: list[tuple[float, float]] = [(0.0, 0.0)]
        self._samples: list[Sample] = [Sample(0.0, 0.0, 0)]
        self._in_flight = 0.0
        self._lock = threading.Lock()

    def offer(self, in_flight: float) -> None:
        """Set the load: as many arrivals as would keep this number in flight without delays."""
        self._offered.append((self._now(), in_flight))

    def calm(self) -> None:
        """Reset to no load, without history."""
        with self._lock:
            self._advance(self._now())
            self._in_flight = 0.0
            self._offered.append((self._now(), 0.0))
            self._samples = [Sample(0.0, 0.0, sample.servers) for sample in self._samples]

    def at(self, seconds: float) -> Sample:
        """The sample at a past simulated time."""
        with self._lock:
            self._advance(self._now())
            return self._samples[max(0, min(int(seconds / STEP_SECONDS), len(self._samples) - 1))]

    def delayed_share(self, since_seconds: float) -> float:
        """Share of arrivals since then that had to wait or found no replica."""
        self.at(since_seconds)
        late = total = 0.0
        for step in range(int(since_seconds / STEP_SECONDS), len(self._samples)):
            one, arrivals = self._samples[step], self._offered_at(step * STEP_SECONDS)
            total += arrivals
            late += arrivals if one.waiting > 0 or not one.servers else 0.0
        return late / total if total else 0.0

    def query(self, text: str) -> list[float]:
        """Prometheus' answer to a sum of running and waiting requests. Raises TriggerError for other queries."""
        sample = self.at((self._now() - LAG_SECONDS) // SCRAPE_SECONDS * SCRAPE_SECONDS)
        total, engines = 0.0, 1
        for term in text.split(" + "):
            match = _TERM.fullmatch("".join(term.split()))
            if match is None or match["metric"] not in (RUNNING, WAITING):
                raise TriggerError(
                    f"the simulated Prometheus only adds sums of {RUNNING} and {WAITING}, not {term.strip()}"
                )
            labels = dict(_LABEL.findall(match["labels"]))
            seen = float(match["seconds"] or _LOOK_BACK_SECONDS)
            if seen < LAG_SECONDS or not sample.servers or not labels.items() <= self._labels.items():
                return []
            total += sample.running if match["metric"] == RUNNING else sample.waiting
            engines = engines if match["sum"] else 2
        return [total] * engines

    def _advance(self, until: float) -> None:
        while len(self._samples) * STEP_SECONDS <= until:
            at = len(self._samples) * STEP_SECONDS
            servers = self._ready(at)
            able = servers * self._capacity
            # Requests without a replica are refused; they do not wait.
            arriving = self._offered_at(at) if servers else 0.0
            served = min(self._in_flight, able)
            share = min(1.0, STEP_SECONDS / self._seconds)
            self._in_flight = max(0.0, self._in_flight + (arriving - served) * share) if servers else 0.0
            running = min(self._in_flight, able)
            self._samples.append(Sample(running, self._in_flight - running, servers))

    def _offered_at(self, seconds: float) -> float:
        return next(value for since, value in reversed(self._offered) if since <= seconds)
