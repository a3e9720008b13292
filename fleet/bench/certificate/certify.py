"""The verdict: every check, a headline, and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fleet.bench.certificate import client_checks, data_checks, run_checks, server_checks
from fleet.bench.certificate.subject import RUN_COMMAND, Subject
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Certificate, Check, Estimate, Measurement, Point

_FIRST = ("complete", "clocks")
"""Checks that all others rely on."""
OPENINGS: Final[Mapping[str, str]] = {
    "limit": "A client was the limit, so the servers may be faster than this figure",
    "client": "The clients were overloaded",
    "server": "The servers were faulty",
    "run": "The run did not go as planned",
    "data": "The results are unreliable",
}
"""First words of the reason: whom the failed checks blame, in order of precedence."""


def certify(measurement: Measurement, point: int | None = None) -> Certificate:
    """Whether a measurement, or one load of a sweep, measured the servers and only the servers.

    Certified: every required check passed, and no check failed. Raises BenchmarkError for a point that is not there.
    """
    subject = _subject(measurement, point)
    checks = (
        *client_checks.checks(subject),
        *run_checks.checks(subject),
        *data_checks.checks(subject),
        *server_checks.checks(subject),
    )
    failed = [check for check in checks if check.verdict == "failed"]
    gaps = [check for check in checks if check.verdict == "not measured" and check.required]
    name = measurement.asked.name if measurement.asked else ""
    return Certificate(
        verdict="not certified" if failed or gaps else "certified",
        headline=_headline(subject, failed, gaps, len(checks)),
        reason=_failed(subject, failed) if failed else _missing(subject, gaps) if gaps else "",
        checks=checks,
        run=name or None,
    )


def _subject(measurement: Measurement, point: int | None) -> Subject:
    if point is None:
        return Subject(measurement, measurement.runs, measurement.points)
    points = tuple(one for one in measurement.points if one.point == point)
    runs = tuple(run for run in measurement.runs if run.point == point)
    if not points or not runs:
        there = ", ".join(str(one.point) for one in measurement.points)
        raise BenchmarkError(f"point {point} is not in this measurement; it has {there}")
    return Subject(measurement, runs, points)


def _headline(subject: Subject, failed: Sequence[Check], gaps: Sequence[Check], checks: int) -> str:
    if failed:
        return f"Not certified: {len(failed)} of {checks} checks failed."
    if gaps:
        return f"Not certified: {len(gaps)} of {checks} checks not measured."
    best = max(subject.points, key=lambda one: one.total_tokens_per_s.mean)
    what = format_rates(best)
    return (
        f"Certified: {what}."
        if len(subject.points) == 1
        else f"Certified, {len(subject.points)} loads: at most {what}."
    )


def _missing(subject: Subject, gaps: Sequence[Check]) -> str:
    if subject.asked is None:
        return f"run.json, witnesses and the servers' metrics are missing; {RUN_COMMAND} collects them."
    if [check.id for check in gaps] == ["repeats"]:
        return "Too few repeats: set benchmark.repeats to 3 or more and run it again."
    which = ", ".join(check.id for check in gaps)
    return f"Not measured: {which}. {'First of them' if len(gaps) > 1 else 'Why'}: {gaps[0].found}."


def _failed(subject: Subject, failed: Sequence[Check]) -> str:
    if subject.saturated:
        return f"{OPENINGS['limit']}: {subject.saturated}."
    unsound = next((check for check in failed if check.id in _FIRST), None)
    if unsound is not None:
        return f"{OPENINGS['data']} ({unsound.id}): {unsound.found.partition('; ')[0]}."
    # Engines that were not read cannot be compared.
    unread = any(check.id == "scrapes" or (check.id, check.blames) == ("foreign-traffic", "data") for check in failed)
    counted = [check for check in failed if not (unread and check.id == "engine-balance")]
    for blamed, words in OPENINGS.items():
        check = next((check for check in counted if check.blames == blamed), None)
        if check is not None:
            if blamed == "server":
                words += ", the clients were not" if _clients_seen(subject) else ", according to the results"
            return f"{words} ({check.id}): {check.found.partition('; ')[0]}."
    raise AssertionError("a failed check blames one of the four")


def _clients_seen(subject: Subject) -> bool:
    return all(
        client.cpu_share_mean is not None and client.loop_lag_p99_ms is not None for _, client in subject.clients()
    )


def format_rates(point: Point) -> str:
    """Total and output tokens a second of one load, with their interval."""
    return (
        f"{format_estimate(point.total_tokens_per_s)} total tok/s, {format_estimate(point.output_tokens_per_s)} output tok/s "
        f"at {point.connections:,} requests in flight, {point.total_tokens_per_s.repeats} repeats"
    )


def format_estimate(estimate: Estimate) -> str:
    """A mean, and half its 95 % interval where there is one."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:,.0f}"
    return f"{estimate.mean:,.0f} ± {(estimate.high - estimate.low) / 2:,.0f}"
