"""The runs that are judged, and what several checks compute from them."""

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
"""Command that collects everything a certificate needs."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One condition of the certificate."""

    id: str
    title: str
    allowed: str
    why: str
    blames: Blame
    required: bool = True

    def check(
        self, *, good: str, bad: Iterable[str] = (), missing: Iterable[str] = (), blames: Blame | None = None
    ) -> Check:
        """Failed for anything bad, else not measured for anything missing, else passed."""
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
        """run.json; None for bare results."""
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
        """The servers' metrics, of the runs that have them."""
        for run in self.runs:
            if run.server is not None:
                yield run, run.server

    def without_metrics(self) -> list[str]:
        """Message for runs without server metrics; empty without any."""
        blind = sum(run.server is None for run in self.runs)
        return (
            [f"{counted(blind, len(self.runs), 'run')} without the servers' /metrics; {RUN_COMMAND} reads them"]
            if blind
            else []
        )

    @cached_property
    def saturated(self) -> str | None:
        """The client that limited the rate and why; None where every client had room, or none was watched."""
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
                    return f"{run.title}: clients of pod {pod} used {peak:.1f} of {cores:g} cores"
        return None


def over_cpu(run: Run, client: ClientResult) -> str | None:
    """Message for a client that used up its core; None where it did not."""
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
    """Explanation for a client that was late and had little to do."""
    mean = client.cpu_share_mean
    if mean is None or not mean < limits.CLIENT_CPU_GOAL:
        return ""
    return f" although it used {mean:.2f} of a core: another process kept its machine busy"


def over_files(run: Run, client: ClientResult) -> str | None:
    """Message for a client near its limit of open files; None where there was room."""
    peak, limit = client.open_files_peak, client.open_files_limit
    if peak is None or limit is None or peak <= limits.OPEN_FILES_LIMIT * limit:
        return None
    return f"{named(run, client)} had {peak:,} of {limit:,} files open"


def lag_limit_ms(run: Run) -> float:
    """Allowed event-loop lag: a share of the median time between chunks, or of the TTFT without any.

    Where a proxy gathers chunks, most arrive together and their median distance is near 0: the mean counts then.
    """
    chunks = run.latencies.itl or run.latencies.ttft
    together = run.latencies.itl is not None and chunks.p50 < limits.TOGETHER_SHARE * chunks.mean
    share = limits.LAG_SHARE_OF_ITL * (chunks.mean if together else chunks.p50)
    return max(limits.LAG_FLOOR_MS, share) if isfinite(share) else limits.LAG_FLOOR_MS


def limiting_lag_ms(run: Run) -> float:
    """Event-loop lag beyond which a client limits the rate instead of only distorting latencies."""
    return lag_limit_ms(run) * limits.LIMITING_LAG_SHARE_OF_ITL / limits.LAG_SHARE_OF_ITL


def named(run: Run, client: ClientResult) -> str:
    """A client with its run."""
    return f"{run.title}: client {client.client}"


def counted(some_of: int, count: int, noun: str) -> str:
    """`2 of 3 runs`."""
    return f"{some_of:,} of {count:,} {noun}" + ("" if count == 1 else "s")


def share(part: float, whole: float) -> float:
    """One number over another; 0/0 is 0, anything else over 0 infinite."""
    if whole == 0:
        return 0.0 if part == 0 else float("inf")
    return part / whole


def percent(value: float, digits: int = 1) -> str:
    """A share as text."""
    return f"{100 * value:,.{digits}f} %"


def some(texts: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(texts) - _MOST_NAMED
    return "; ".join(texts[:_MOST_NAMED]) + (f"; and {more:,} more" if more > 0 else "")
