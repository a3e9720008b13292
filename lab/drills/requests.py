"""Client requests during a drill: how many are lost, with and without a retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.texts import plural
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
def requests_during(stage: Stage, proof: Proof, *, planned: bool = False) -> Iterator[Requests]:
    """Send steady requests to every Ready replica while the block runs; add figures and the advice to clients to the proof.

    `planned`: the replicas end as planned, so no stream may be cut.
    """
    requests = Requests()
    traffic = stage.traffic
    traffic.wait_for_endpoints(len(stage.ready_pods()))
    traffic.start(retry=True)
    traffic.settle()
    yield requests
    traffic.settle()
    requests.report = traffic.finish()
    proof.requests.extend(requests.report.figures())
    if requests.report.lost:
        proof.requests.append(Figure(name="advice to clients", value=RETRY_ADVICE))
    if planned:
        _no_stream_is_cut(proof, requests.report)


def _no_stream_is_cut(proof: Proof, report: TrafficReport) -> None:
    ended, in_flight = len(report.endings), report.in_flight_at_ends
    seconds = min((ending.stream_seconds for ending in report.endings), default=0.0)
    proof.check(
        "no stream is cut by a planned end",
        report.streams_cut == 0,
        f"{report.streams_cut} of {in_flight} in flight cut on {plural(ended, 'ended replica')}; streams may continue for {seconds:.0f} s, "
        f"an answer takes {report.request_seconds:.0f} s",
        empty="" if in_flight else "no request was in flight on a replica that ended",
    )
