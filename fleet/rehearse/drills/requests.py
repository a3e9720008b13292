"""Requests while a drill breaks something: what clients would have lost, with and without repeating."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.rehearse.results import Figure
from fleet.rehearse.traffic.outcomes import RETRY_ADVICE

if TYPE_CHECKING:
    from fleet.rehearse.drills.drill import Proof
    from fleet.rehearse.stage import Stage
    from fleet.rehearse.traffic.outcomes import TrafficReport


@dataclass
class Requests:
    """What became of them; `report` is there once the drill's block has ended."""

    report: TrafficReport | None = None

    @property
    def unserved(self) -> int:
        """Requests that found no server at all, after one retry."""
        return self.report.losses_after_retry.get("no endpoint", 0) if self.report is not None else 0


@contextmanager
def requests_during(stage: Stage, proof: Proof, *, rate_per_second: float | None = None) -> Iterator[Requests]:
    """Steady requests to every Ready server while the block runs; figures and the advice to clients go to the proof."""
    requests = Requests()
    traffic = stage.traffic
    traffic.wait_for_endpoints(len(stage.ready_pods()))
    traffic.start(rate_per_second=rate_per_second, retry=True)
    traffic.settle()
    yield requests
    traffic.settle()
    requests.report = traffic.finish()
    proof.requests.extend(requests.report.figures())
    stage.timeline.extend(requests.report.moments())
    if requests.report.lost:
        proof.requests.append(Figure(name="advice to clients", value=RETRY_ADVICE))
