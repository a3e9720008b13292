"""The verdict: every check, and one sentence that says what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fleet.bench.certificate import client_checks, data_checks, run_checks, server_checks
from fleet.bench.certificate.subject import RUN_COMMAND, Subject
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Certificate, Check, Estimate, Measurement, Point

_FIRST = ("complete", "clocks")
"""Checks without which no other can be relied on."""
OPENINGS: Final[Mapping[str, str]] = {
    "limit": "a client was the limit, so the servers may be faster than this figure",
    "client": "the clients were not in order",
    "server": "the servers were at fault",
    "run": "the run was not as it should be",
    "data": "the results cannot be relied on",
}
"""What the headline of a failed measurement begins with: whom it blames -> how it says so, in the order of precedence."""


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
        return _failed(subject, failed, checks)
    if gaps:
        titles = ", ".join(check.id for check in gaps)
        return (
            f"Not certified: {len(gaps)} of {checks} checks could not be made ({titles}), and nothing that could was wrong. "
            f"{_what_is_missing(subject, gaps)}"
        )
    best = max(subject.points, key=lambda one: one.total_tokens_per_s.mean)
    what = format_rates(best)
    return (
        f"Certified: {what}."
        if len(subject.points) == 1
        else f"Certified, {len(subject.points)} loads: at most {what}."
    )


def _what_is_missing(subject: Subject, gaps: Sequence[Check]) -> str:
    if subject.asked is None:
        return (
            f"These are bare results of clients: only {RUN_COMMAND} gives run.json, witnesses and the servers' metrics."
        )
    if [check.id for check in gaps] == ["repeats"]:
        return "Set benchmark.repeats to 3 or more and run it again."
    return f"First, {gaps[0].id}: {gaps[0].found}."


def _failed(subject: Subject, failed: Sequence[Check], checks: int) -> str:
    count = f"{len(failed)} of {checks} checks failed" if len(failed) > 1 else f"1 of {checks} checks failed"
    if subject.saturated:
        return f"Not certified: {OPENINGS['limit']}. {subject.saturated}. {count}."
    unsound = next((check for check in failed if check.id in _FIRST), None)
    if unsound is not None:
        return f"Not certified: {OPENINGS['data']} ({unsound.id}): {unsound.found.partition('; ')[0]}. {count}."
    # Of engines that were not read nobody knows what they did.
    unread = any(check.id == "scrapes" or (check.id, check.blames) == ("foreign-traffic", "data") for check in failed)
    told = [check for check in failed if not (unread and check.id == "engine-balance")]
    for blamed, words in OPENINGS.items():
        check = next((check for check in told if check.blames == blamed), None)
        if check is not None:
            if blamed == "server":
                words += ", the clients were not" if _clients_seen(subject) else ", as far as the results say"
            return f"Not certified: {words} ({check.id}): {check.found.partition('; ')[0]}. {count}."
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
