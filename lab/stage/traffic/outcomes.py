"""Outcomes of requests: counts by cause, scaled to a full load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lab.results.result import Figure
from lab.stage.traffic.fleet import PodEnding
from lab.stage.traffic.pod_end import share_cut

Cause = Literal[
    "no endpoint", "refused", "not ready", "server error", "cut before the first token", "cut mid-stream", "timed out"
]
CAUSES: Final[tuple[Cause, ...]] = (
    "no endpoint",
    "refused",
    "not ready",
    "server error",
    "cut before the first token",
    "cut mid-stream",
    "timed out",
)
LoadName = Literal["published", "declared"]
"""`published`: the article's load on a node. `declared`: the stack's load of a replica."""
DISTORTED_FROM: Final = 0.2
"""Share of an undisturbed answer by which a request may be late. Assumed: beyond it, gaps and bursts distort what is in flight
when a server ends."""
RETRY_ADVICE: Final = (
    "Repeat a request once, on a new connection, when it was refused or its answer was cut. A completion writes nothing, so a "
    "retry only costs the time already waited."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One request."""

    first_loss: Cause | None
    """Why the first attempt failed; None if it succeeded."""
    loss: Cause | None
    """Why the request failed, with its retry; None if it was answered."""
    backend: str = ""
    """The route's backend that the first attempt was sent to; empty at a Service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficReport:
    """Result of a run."""

    rate_per_second: float
    """Intended rate, in simulated time."""
    late_seconds: float
    """Maximum delay of a request after its scheduled time, simulated."""
    skipped_seconds: float
    """Simulated time in which a busy machine paused servers, streams and client together; it is not counted."""
    request_seconds: float
    """Duration of an undisturbed request."""
    in_flight_per_server: int
    """Requests in flight per server at `load`, for comparison with the sample."""
    load: LoadName
    retried: bool
    """Whether lost requests were retried."""
    outcomes: tuple[Outcome, ...]
    endings: tuple[PodEnding, ...]
    """Servers that ended while requests were sent."""

    @property
    def sent(self) -> int:
        """Requests, without retries."""
        return len(self.outcomes)

    @property
    def losses(self) -> Mapping[Cause, int]:
        """Failed first attempts, by cause."""
        return _counted([outcome.first_loss for outcome in self.outcomes])

    @property
    def lost(self) -> int:
        """First attempts that failed."""
        return sum(self.losses.values())

    def lost_at(self, backend: str) -> int:
        """First attempts that failed at this backend of the route."""
        return sum(outcome.first_loss is not None and outcome.backend == backend for outcome in self.outcomes)

    @property
    def losses_after_retry(self) -> Mapping[Cause, int]:
        """Failed requests, by cause; equals `losses` without retries."""
        return _counted([outcome.loss for outcome in self.outcomes])

    @property
    def lost_after_retry(self) -> int:
        """Failed requests, after retries."""
        return sum(self.losses_after_retry.values())

    @property
    def in_flight_at_ends(self) -> int:
        """Requests in flight on servers at the start of their end."""
        return sum(ending.ending.in_flight for ending in self.endings)

    @property
    def streams_cut(self) -> int:
        """Requests cut on ending servers: in flight at the start of the end, or accepted during it."""
        return sum(ending.ending.cut + ending.ending.cut_late for ending in self.endings)

    @property
    def share_cut(self) -> float | None:
        """Share of requests in flight on ending servers that were cut; None if none was in flight."""
        if not self.in_flight_at_ends:
            return None
        return sum(ending.ending.cut for ending in self.endings) / self.in_flight_at_ends

    @property
    def share_cut_expected(self) -> float | None:
        """The same, computed from each server's time for open streams; None if none was in flight."""
        if not self.in_flight_at_ends:
            return None
        shares = [
            share_cut(self.request_seconds, ending.stream_seconds) * ending.ending.in_flight for ending in self.endings
        ]
        return sum(shares) / self.in_flight_at_ends

    @property
    def distorted(self) -> bool:
        """Whether a busy machine distorted the sample."""
        return self.late_seconds > DISTORTED_FROM * self.request_seconds

    @property
    def cut_per_server(self) -> int | None:
        """Streams cut by the end of a server at that load, computed: the sample is too small to scale. None if none was in flight."""
        share = self.share_cut_expected
        return None if share is None else round(share * self.in_flight_per_server)

    def figures(self) -> tuple[Figure, ...]:
        """Figures for the drill, those about clients first."""
        made = [*self._figures_of_ends()]
        made.append(Figure(name="requests lost without a retry", value=self.lost, note=format_losses(self.losses)))
        if self.retried:
            after = Figure(
                name="requests lost with one retry",
                value=self.lost_after_retry,
                note=format_losses(self.losses_after_retry),
            )
            made.append(after)
        made.append(
            Figure(
                name="requests sent", value=self.sent, note=f"{self.rate_per_second:.2g} a simulated second, a sample"
            )
        )
        note = f"servers and client paused together for {self.skipped_seconds:.0f} s while the machine was busy"
        made.append(Figure(name="client late by at most", value=round(self.late_seconds, 1), unit="s", note=note))
        return tuple(made)

    def _figures_of_ends(self) -> Iterator[Figure]:
        cut, share = self.cut_per_server, self.share_cut
        if cut is None or share is None:
            return
        yield Figure(
            name=f"streams cut per ended replica at the {self.load} load",
            value=cut,
            note=f"computed, {self.share_cut_expected:.0%} of {self.in_flight_per_server:,} in flight, without requests sent before "
            "the Service removes the endpoint",
        )
        note = f"of {self.in_flight_at_ends} in flight on ended replicas"
        if self.distorted:
            note += (
                f"; distorted: the busy machine sent requests up to {self.late_seconds:.0f} s late. Try a lower --speed"
            )
        yield Figure(name="streams cut in the sample", value=f"{share:.0%}", note=note)


def format_losses(losses: Mapping[Cause, int]) -> str:
    """`12 cut mid-stream, 3 refused`, or `none`."""
    return ", ".join(f"{losses[cause]} {cause}" for cause in CAUSES if losses.get(cause)) or "none"


def _counted(causes: Sequence[Cause | None]) -> Mapping[Cause, int]:
    counts = Counter(cause for cause in causes if cause is not None)
    return {cause: counts[cause] for cause in CAUSES if counts[cause]}
