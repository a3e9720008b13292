"""What the checks look at: the runs that are judged, and what several checks ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Literal

from fleet.bench.certificate import limits
from fleet.bench.folder import Asked
from fleet.bench.measurement import Check, ClientResult, Measurement, Point, Run, ServerMetrics

Blame = Literal["client", "server", "run", "data"]

RUN_COMMAND = "`fleet bench run --stack STACK`"
"""What gives all that a certificate needs."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One condition, before anything is known of a measurement."""

    id: str
    title: str
    allowed: str
    why: str
    blames: Blame
    required: bool = True

    def says(
        self, *, good: str, bad: Iterable[str] = (), missing: Iterable[str] = (), blames: Blame | None = None
    ) -> Check:
        """The check: failed for anything bad, else not measured for anything missing, else passed."""
        failures, gaps = list(bad), list(missing)
        verdict: Literal["passed", "failed", "not measured"] = "passed"
        if failures:
            verdict, found = "failed", some(failures)
        elif gaps:
            verdict, found = "not measured", some(gaps)
        else:
            found = good
        return Check(
            id=self.id,
            title=self.title,
            verdict=verdict,
            found=found,
            allowed=self.allowed,
            why=self.why,
            blames=blames if failures and blames else self.blames,
            required=self.required,
        )


@dataclass(frozen=True)
class Subject:
    """A measurement, or the runs of one of its loads."""

    measurement: Measurement
    runs: tuple[Run, ...]
    points: tuple[Point, ...]

    @property
    def asked(self) -> Asked | None:
        """What was asked; None for bare results."""
        return self.measurement.asked

    @property
    def whole_measurement(self) -> bool:
        """Whether every load is judged."""
        return len(self.points) == len(self.measurement.points)

    def clients(self) -> Iterator[tuple[Run, ClientResult]]:
        """Every client of every run."""
        for run in self.runs:
            for client in run.clients:
                yield run, client

    def servers(self) -> Iterator[tuple[Run, ServerMetrics]]:
        """What the servers said, in the runs where they were asked."""
        for run in self.runs:
            if run.server is not None:
                yield run, run.server

    def without_metrics(self) -> list[str]:
        """That no server was read, in words."""
        blind = sum(run.server is None for run in self.runs)
        return (
            [f"{counted(blind, len(self.runs), 'run')} without the servers' /metrics; {RUN_COMMAND} reads them"]
            if blind
            else []
        )

    @cached_property
    def saturated(self) -> str | None:
        """The client that was the limit, in words; None while every client had room, or nobody looked."""
        for run, client in self.clients():
            words = over_cpu(run, client) or over_files(run, client)
            if words is not None:
                return words
        for run, client in self.clients():
            if client.loop_lag_p99_ms is not None and not client.loop_lag_p99_ms <= limiting_lag_ms(run):
                return f"{named(run, client)} was {client.loop_lag_p99_ms:,.1f} ms late (p99){though_idle(client)}"
        for run in self.runs:
            for pod, (peak, cores) in enumerate(zip(run.pod_cpu_peak, run.pod_cores, strict=False)):
                if not peak <= limits.POD_CPU_LIMIT * cores:
                    return f"{run.title}: the clients of pod {pod} used {peak:.1f} of {cores:g} cores"
        return None


def over_cpu(run: Run, client: ClientResult) -> str | None:
    """How a client used up its core, in words; None where it did not."""
    mean, peak = client.cpu_share_mean, client.cpu_share_peak
    too_much = mean is not None and not mean <= limits.CLIENT_CPU_LIMIT
    if not too_much and (peak is None or peak <= limits.CLIENT_CPU_PEAK_LIMIT):
        return None
    used = " and ".join(
        words
        for words in (
            None if mean is None else f"{mean:.2f} of a core on average",
            None if peak is None else f"{peak:.2f} in one second",
        )
        if words
    )
    return f"{named(run, client)} used {used}, at {client.chunks_per_s:,.0f} chunks/s"


def though_idle(client: ClientResult) -> str:
    """What lateness of a client that had little to do means."""
    mean = client.cpu_share_mean
    if mean is None or not mean < limits.CLIENT_CPU_GOAL:
        return ""
    return f" although it used {mean:.2f} of a core: something else kept its machine busy"


def over_files(run: Run, client: ClientResult) -> str | None:
    """How near a client came to its limit of open files, in words; None while there was room."""
    peak, limit = client.open_files_peak, client.open_files_limit
    if peak is None or limit is None or peak <= limits.OPEN_FILES_LIMIT * limit:
        return None
    return f"{named(run, client)} had {peak:,} of {limit:,} files open"


def lag_limit_ms(run: Run) -> float:
    """Event-loop lag that is allowed in a run: a share of its median time between chunks, or to the first one without any.

    Where most chunks come several at once, as from a proxy that gathers them, their median distance is nothing: the mean is taken.
    """
    chunks = run.latencies.itl or run.latencies.ttft
    together = run.latencies.itl is not None and chunks.p50 < limits.TOGETHER_SHARE * chunks.mean
    share = limits.LAG_SHARE_OF_ITL * (chunks.mean if together else chunks.p50)
    return max(limits.LAG_FLOOR_MS, share) if isfinite(share) else limits.LAG_FLOOR_MS


def limiting_lag_ms(run: Run) -> float:
    """Event-loop lag beyond which a client sets the rate, and not only spoils latencies."""
    return lag_limit_ms(run) * limits.LIMITING_LAG_SHARE_OF_ITL / limits.LAG_SHARE_OF_ITL


def named(run: Run, client: ClientResult) -> str:
    """How a client is named."""
    return f"{run.title}: client {client.client}"


def counted(some_of: int, count: int, noun: str) -> str:
    """`2 of 3 runs`."""
    return f"{some_of:,} of {count:,} {noun}" + ("" if count == 1 else "s")


def share(part: float, whole: float) -> float:
    """One number over another; infinite over nothing, and 0 of nothing."""
    if whole == 0:
        return 0.0 if part == 0 else float("inf")
    return part / whole


def percent(value: float, digits: int = 1) -> str:
    """A share in words."""
    return f"{100 * value:,.{digits}f} %"


def some(texts: Sequence[str]) -> str:
    """A few of many."""
    more = len(texts) - _MOST_NAMED
    return "; ".join(texts[:_MOST_NAMED]) + (f"; and {more:,} more" if more > 0 else "")
