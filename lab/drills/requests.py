"""Client requests during a drill: how many are lost, with and without a retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.results.result import Figure
from lab.stage.traffic.outcomes import RETRY_ADVICE

if TYPE_CHECKING:
    from lab.drills.drill import Proof
    from lab.stage.stage import Stage
    from lab.stage.traffic.outcomes import TrafficReport


@dataclass
class Requests:
    """Outcome of the requests; `report` is set when the block ends."""

    report: TrafficReport | None = None

    @property
    def unserved(self) -> int:
        """Requests that found no endpoint, after one retry."""
        return self.report.losses_after_retry.get("no endpoint", 0) if self.report is not None else 0


@contextmanager
def requests_during(stage: Stage, proof: Proof) -> Iterator[Requests]:
    """Send steady requests to every Ready replica while the block runs; add figures and the advice to clients to the proof."""
    requests = Requests()
    traffic = stage.traffic
    traffic.wait_for_endpoints(len(stage.ready_pods()))
    traffic.start(retry=True)
    traffic.settle()
    yield requests
    traffic.settle()
    requests.report = traffic.finish()
    proof.requests.extend(requests.report.figures())
    stage.timeline.extend(requests.report.moments())
    if requests.report.lost:
        proof.requests.append(Figure(name="advice to clients", value=RETRY_ADVICE))
