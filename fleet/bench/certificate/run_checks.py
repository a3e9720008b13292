"""Checks of the runs: complete, started together, at the intended load, steady, repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import median
from typing import Final

from facts.texts import plural
from fleet.bench.certificate import limits
from fleet.bench.certificate.subject import RUN_COMMAND, Blame, Rule, Subject, counted, named, percent, share
from fleet.bench.measurement import Check, Run
from fleet.bench.student_t import two_sided

ASKED: Final = Rule(
    id="asked",
    title="The measured stack is known",
    allowed="run.json, written when the measurement started",
    why="A figure holds for one model, version, flags, machines, workload and load. Without run.json they are unknown. Measure with "
    f"{RUN_COMMAND}.",
    blames="data",
)
COMPLETE: Final = Rule(
    id="complete",
    title="No client or run is missing",
    allowed="all clients, loads and repeats of run.json, none left out",
    why="Without some of its clients, a measurement had a different load than it states. Fetch it again (`fleet bench fetch`), or measure "
    "again if files were excluded.",
    blames="data",
)
CLOCKS: Final = Rule(
    id="clocks",
    title="Clients' clocks agree",
    allowed=f"clocks read in every client, or all clients on one node; uncertain by at most {percent(limits.CLOCK_SHARE)} of the steady "
    "window",
    why="The common window is cut by time. A bare result has a date to a second and its machine's monotonic clock, which cannot be "
    f"compared with another machine's. {RUN_COMMAND} makes every client record both clocks. Where they drifted apart, check time "
    "synchronization on the benchmark's nodes.",
    blames="data",
)
START: Final = Rule(
    id="start",
    title="Clients started together",
    allowed=f"released within {limits.RELEASE_MEDIAN_S * 1e3:g} ms of the common start (median), {limits.RELEASE_MAX_S * 1e3:g} ms "
    f"each; first requests within {limits.START_SKEW_S:g} s",
    why="Where clients start one after another, the servers are never under full load, and summed rates are too high. Check what kept the "
    "late clients or their node busy, and use a larger benchmark.machineType.",
    blames="run",
)
IN_FLIGHT: Final = Rule(
    id="in-flight",
    title="The intended load was reached",
    allowed=f"in flight over the steady window: {percent(limits.IN_FLIGHT_SHARE, 0)} to {percent(limits.IN_FLIGHT_MOST, 0)} of what was "
    "intended",
    why="A rate belongs to the load it was measured at. Fewer requests in flight mean clients too slow to send, or too few prompts: raise "
    "benchmark.promptsPerClient.",
    blames="run",
)
STEADY: Final = Rule(
    id="steady",
    title="The steady window is long enough",
    allowed=f"at least {limits.STEADY_SECONDS:g} s and {limits.STEADY_REQUESTS:g} median requests, without warm-up and tail",
    why="At the start all prompts arrive together, and at the end connections stand idle; neither is normal service. Raise "
    "benchmark.promptsPerClient.",
    blames="run",
)
DRIFT: Final = Rule(
    id="drift",
    title="The rate is stable over the window",
    allowed=f"output tok/s with a slope of at most {percent(limits.DRIFT_SHARE, 0)} over the window, or within its noise; never above "
    f"{percent(limits.DRIFT_MOST, 0)}",
    why="The mean of a rate that still rises or falls depends on when the run ended. Raise benchmark.promptsPerClient. A falling rate can "
    "be heat or a filling cache. Only output is checked: input comes in waves.",
    blames="run",
)
MIX: Final = Rule(
    id="mix",
    title="Input and output are in proportion",
    allowed=f"input per output token in the steady window within {percent(limits.MIX_SHARE, 0)} of the whole run's, or 3/sqrt(requests) "
    "if that is more",
    why="Requests that start together have their prompts read together. A window that cuts such a wave counts too much input or output, "
    "and total tok/s is off by as much. Raise benchmark.promptsPerClient.",
    blames="run",
)
OVERLAP: Final = Rule(
    id="overlap",
    title="All clients worked at the same time",
    allowed=f"the sum of the clients' own rates at most {percent(limits.OVERSTATEMENT_SHARE, 0)} above the rate of the window they shared",
    why="The summed rates of clients that ran one after another were never reached. Where clients overlap, the sum is the lower figure. "
    "Check the logs of the clients that ended early, and raise benchmark.promptsPerClient.",
    blames="run",
)
REPEATS: Final = Rule(
    id="repeats",
    title="Repeats agree",
    allowed=f"at least {limits.LEAST_REPEATS} repeats of every load, with a standard deviation of at most "
    f"{percent(limits.VARIATION_LIMIT, 0)} of the mean",
    why="One run has no spread. Set benchmark.repeats. If repeats differ, check what changed between them (nodes, prefix cache, "
    "neighbors).",
    blames="run",
)

_SAME_START_S: Final = 0.001
"""Rounding between two pods that read one moment from the bucket as text."""
_LEAST_SECONDS: Final = 6
"""Fewest seconds for a line."""


def checks(subject: Subject) -> Iterator[Check]:
    """All checks of the runs."""
    yield _asked(subject)
    yield _complete(subject)
    yield _clocks(subject)
    yield _start(subject)
    yield _in_flight(subject)
    yield _steady(subject)
    yield _drift(subject)
    yield _mix(subject)
    yield _overlap(subject)
    yield _repeats(subject)


def _asked(subject: Subject) -> Check:
    if subject.asked is None:
        gap = f"bare results without run.json; {RUN_COMMAND} writes one"
        return ASKED.check(good="", missing=[gap])
    shape = subject.asked.shape
    nodes = plural(shape.replicas, "node")
    return ASKED.check(good=f"{shape.model} on {nodes} of {shape.machine_type}, vLLM {shape.engine_version}")


def _complete(subject: Subject) -> Check:
    bad = [f"{one.file} was left out: {one.why}" for one in subject.measurement.excluded]
    asked = subject.asked
    for run in subject.runs:
        bad += [
            f"{run.title}: client {client} has {times} results"
            for client, times in Counter(client.client for client in run.clients).items()
            if times > 1
        ]
    if asked is None:
        gap = f"the number of clients is unknown without run.json; {RUN_COMMAND} writes it"
        return COMPLETE.check(good="", bad=bad, missing=[gap])
    wanted = [point.point for point in subject.points]
    if subject.whole_measurement:
        wanted = sorted({*wanted, *range(len(asked.points))})
    for number in wanted:
        if not 0 <= number < len(asked.points):
            bad.append(f"load {number + 1} is not in run.json")
            continue
        runs = [run for run in subject.runs if run.point == number]
        repeats = len({run.repeat for run in runs})
        if repeats != asked.repeats or repeats != len(runs):
            bad.append(f"load {number + 1}: {len(runs)} runs of {asked.repeats}")
        for run in runs:
            found, clients = len(run.clients), asked.points[number].clients
            if found != clients:
                bad.append(f"{run.title}: {found} clients of {clients}")
            if run.connections != asked.points[number].connections:
                bad.append(f"{run.title}: {run.connections:,} connections of {asked.points[number].connections:,}")
    clients = sum(len(run.clients) for run in subject.runs)
    return COMPLETE.check(good=f"{clients:,} results of {len(subject.runs)} runs, none left out", bad=bad)


def _clocks(subject: Subject) -> Check:
    bad, undated, worst = [], 0, 0.0
    for run in subject.runs:
        if run.clock == "end date":
            undated += 1
            continue
        worst = max(worst, run.clock_uncertainty_s)
        seconds = (run.steady or run.whole).seconds
        if not 2 * run.clock_uncertainty_s <= limits.CLOCK_SHARE * seconds:
            bad.append(
                f"{run.title}: clocks are uncertain by {run.clock_uncertainty_s:,.3f} s in a window of {seconds:,.0f} s"
            )
    gap = f"{counted(undated, len(subject.runs), 'run')} with only each file's date, to a second; {RUN_COMMAND} records both clocks"
    return CLOCKS.check(good=f"to {worst * 1e3:,.1f} ms", bad=bad, missing=[gap] if undated else ())


def _start(subject: Subject) -> Check:
    bad, unheld, worst_skew, worst_release = [], 0, 0.0, 0.0
    for run in subject.runs:
        worst_skew = max(worst_skew, run.start_skew_s)
        if not run.start_skew_s <= limits.START_SKEW_S:
            bad.append(f"{run.title}: {run.start_skew_s:,.2f} s between the clients' first requests")
        late = []
        for client in run.clients:
            if client.go_at is None or client.released_at is None:
                unheld += 1
                continue
            late.append(client.released_at - client.go_at)
            if not abs(late[-1]) <= limits.RELEASE_MAX_S:
                bad.append(f"{named(run, client)} was released {late[-1]:,.2f} s after the common start")
            elif run.clock == "witness" and not client.first_request - client.go_at <= limits.START_SKEW_S:
                waited = client.first_request - client.go_at
                bad.append(f"{named(run, client)} sent its first request {waited:,.2f} s after the common start")
        starts = [client.go_at for client in run.clients if client.go_at is not None]
        if starts and not max(starts) - min(starts) <= _SAME_START_S:
            bad.append(f"{run.title}: clients had different common starts")
        if late:
            worst_release = max(worst_release, max(late))
            if not median(late) <= limits.RELEASE_MEDIAN_S:
                bad.append(
                    f"{run.title}: the median client was released {median(late) * 1e3:,.0f} ms after the common start"
                )
    good = f"released within {worst_release * 1e3:,.0f} ms of the common start, first requests within {worst_skew:,.2f} s of each other"
    clients = sum(len(run.clients) for run in subject.runs)
    gap = f"{counted(unheld, clients, 'client')} not started by a barrier; {RUN_COMMAND} starts all clients together"
    return START.check(good=good, bad=bad, missing=[gap] if unheld else ())


def _in_flight(subject: Subject) -> Check:
    bad, missing, shares = [], [], []
    for run in subject.runs:
        if run.in_flight_mean_steady is None:
            missing.append(f"{run.title}: no steady window")
            continue
        held = share(run.in_flight_mean_steady, run.connections)
        shares.append(held)
        words = f"{run.title}: {run.in_flight_mean_steady:,.1f} of {run.connections:,} in flight, {percent(held)}"
        if not limits.IN_FLIGHT_SHARE <= held <= limits.IN_FLIGHT_MOST:
            bad.append(words)
    good = f"{percent(min(shares))} to {percent(max(shares))} of what was intended" if shares else ""
    slow = bool(shares) and not min(shares) >= limits.IN_FLIGHT_SHARE
    blames: Blame = "data" if not slow else "client" if subject.saturated else "run"
    return IN_FLIGHT.check(good=good, bad=bad, missing=missing, blames=blames)


def _steady(subject: Subject) -> Check:
    # The certificate's reason quotes an entry up to its first semicolon.
    never = [run for run in subject.runs if run.steady is None]
    bad, shortest = [], []
    if len(never) == 1:
        bad.append(f"{never[0].title} was never steady; {_reason(never[0])}")
    elif never:
        who = f"{never[0].title} and {len(never) - 1:,} more of {len(subject.runs):,} runs"
        bad.append(f"{who} were never steady; the first: {_reason(never[0])}")
    for run in subject.runs:
        if run.steady is None:
            continue
        request = run.latencies.e2e.p50 / 1000
        requests = share(run.steady.seconds, request)
        shortest.append((run.steady.seconds, requests))
        if not run.steady.seconds >= limits.STEADY_SECONDS:
            bad.append(f"{run.title} was steady for {run.steady.seconds:,.1f} s; required: {limits.STEADY_SECONDS:g} s")
        elif not requests >= limits.STEADY_REQUESTS:
            bad.append(
                f"{run.title} was steady for {run.steady.seconds:,.1f} s, {requests:,.1f} median requests; "
                f"required: {limits.STEADY_REQUESTS:g}"
            )
    seconds, requests = min(shortest, default=(0.0, 0.0))
    good = (
        f"at least {seconds:,.0f} s, {requests:,.1f} median requests"
        if isfinite(requests)
        else f"at least {seconds:,.0f} s"
    )
    return STEADY.check(good=good, bad=bad)


def _reason(run: Run) -> str:
    return run.steady_why.removeprefix("never steady: ")


def _drift(subject: Subject) -> Check:
    bad, missing, worst = [], [], 0.0
    for run in subject.runs:
        slope = output_slope(run)
        if slope is None:
            missing.append(f"{run.title}: no steady window, or a window too short for a slope")
            continue
        worst = max(worst, abs(slope.share))
        if abs(slope.share) <= limits.DRIFT_SHARE:
            continue
        if abs(slope.share) > min(slope.noise, limits.DRIFT_MOST):
            direction = "rises" if slope.share > 0 else "falls"
            bad.append(
                f"{run.title}: {direction} by {percent(abs(slope.share))} over the window, noise {percent(slope.noise)}"
            )
    excused = ", which is within its noise" if worst > limits.DRIFT_SHARE else ""
    return DRIFT.check(good=f"at most {percent(worst)} over the window{excused}", bad=bad, missing=missing)


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through a window, as shares of the window's mean."""

    share: float
    """End of the line over its begin, minus 1."""
    noise: float
    """Half of that number's 95 % interval."""


def output_slope(run: Run) -> Slope | None:
    """The slope of output tok/s through the whole seconds of a run's steady window; None with fewer than six of them."""
    if run.steady is None:
        return None
    began, ended = run.steady.began - run.whole.began, run.steady.ended - run.whole.began
    line = run.timeline
    return slope_of(
        [
            (at + 0.5, rate)
            for at, rate in zip(line.at, line.output_tokens_per_s, strict=False)
            if began <= at and at + 1 <= ended
        ],
        ended - began,
    )


def slope_of(points: Sequence[tuple[float, float]], seconds: float) -> Slope | None:
    """A least-squares line's rise over that many seconds, with the interval that its residuals give."""
    count = len(points)
    if count < _LEAST_SECONDS:
        return None
    # Products and plain sums: of absurd numbers they are infinite, where powers and fsum would raise.
    middle = sum(at for at, _ in points) / count
    mean = sum(rate for _, rate in points) / count
    spread = sum((at - middle) * (at - middle) for at, _ in points)
    if not mean > 0 or not isfinite(mean) or not spread > 0:
        return None
    slope = sum((at - middle) * (rate / mean - 1) for at, rate in points) / spread
    residuals = [rate / mean - 1 - slope * (at - middle) for at, rate in points]
    residual = sum(one * one for one in residuals)
    share, noise = slope * seconds, two_sided(count - 2) * sqrt(residual / (count - 2) / spread) * seconds
    return Slope(share, noise) if isfinite(share) and isfinite(noise) else None


def _mix(subject: Subject) -> Check:
    bad, missing, worst = [], [], 0.0
    for run in subject.runs:
        if run.steady is None:
            missing.append(f"{run.title}: no steady window")
            continue
        inside = share(run.steady.input_tokens_per_s, run.steady.output_tokens_per_s)
        whole = share(run.lengths.input_mean, run.lengths.output_mean)
        off = share(inside, whole) - 1
        requests = run.steady.requests_per_s * run.steady.seconds
        allowed = max(limits.MIX_SHARE, 3 / sqrt(requests) if requests > 0 else 0.0)
        worst = max(worst, abs(off))
        if not abs(off) <= allowed:
            direction = "more" if off > 0 else "less"
            bad.append(f"{run.title}: {percent(abs(off))} {direction} input per output token than requests have")
    return MIX.check(
        good=f"input per output token within {percent(worst)} of the whole run's", bad=bad, missing=missing
    )


def _overlap(subject: Subject) -> Check:
    bad, lowest = [], []
    for run in subject.runs:
        if run.common is None:
            bad.append(f"{run.title}: the clients were never all active at the same time")
            continue
        lowest.append((_over(run), share(run.common.seconds, run.whole.seconds)))
        if not _over(run) <= limits.OVERSTATEMENT_SHARE:
            bad.append(
                f"{run.title}: the clients' rates add up to {run.summed.total_tokens_per_s:,.0f} tok/s, "
                f"{percent(_over(run))} above the {run.common.total_tokens_per_s:,.0f} of the window they shared"
            )
    highest = max((over for over, _ in lowest), default=0.0)
    overlap = min((held for _, held in lowest), default=0.0)
    return OVERLAP.check(
        good=f"sum {percent(abs(highest))} {'above' if highest > 0 else 'below'} the shared window's rate; all active for "
        f"{percent(overlap, 0)} of the run",
        bad=bad,
    )


def _over(run: Run) -> float:
    return 0.0 if run.common is None else share(run.summed.total_tokens_per_s, run.common.total_tokens_per_s) - 1


def _repeats(subject: Subject) -> Check:
    bad, missing, variations = [], [], []
    for point in subject.points:
        estimate = point.total_tokens_per_s
        where = f"{point.connections:,} in flight"
        if estimate.repeats < limits.LEAST_REPEATS or estimate.variation is None:
            times = plural(estimate.repeats, "run")
            missing.append(f"{where}: {times}; set benchmark.repeats to {limits.LEAST_REPEATS} or more")
            continue
        variations.append(abs(estimate.variation))
        if not abs(estimate.variation) <= limits.VARIATION_LIMIT:
            bad.append(
                f"{where}: {estimate.repeats} repeats vary by {percent(estimate.variation)} around {estimate.mean:,.0f} tok/s"
            )
    fewest = min((point.total_tokens_per_s.repeats for point in subject.points), default=0)
    return REPEATS.check(
        good=f"{fewest} repeats, varying by at most {percent(max(variations, default=0.0))}", bad=bad, missing=missing
    )
