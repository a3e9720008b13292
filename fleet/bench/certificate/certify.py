"""The verdict: every row, a headline, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleet.bench.certificate.rows import ROWS, Row, Unit
from fleet.bench.measurement import Certificate, Check, Estimate, Measurement, Point

OPENINGS: Final[Mapping[str, str]] = {
    "client": "A client was the limit, so the servers may be faster than this figure",
    "data": "The results are incomplete or of another load",
    "run": "The run did not go as planned",
    "server": "The servers were faulty, the clients were not",
}
"""First words of the reason, by whom the first failed check blames."""
_UNITS: Final[Mapping[Unit, Callable[[float], str]]] = {
    "share": lambda value: f"{100 * value:,.2f} %",
    "cores": lambda value: f"{value:.2f} of a core",
    "ms": lambda value: f"{value:,.1f} ms",
    "s": lambda value: f"{value:,.1f} s",
    "count": lambda value: f"{value:,.0f}",
}


def certify(measurement: Measurement) -> Certificate:
    """Whether a measurement measured the servers and only the servers: every required check passed, and no check failed."""
    checks = tuple(_check(row, measurement) for row in ROWS)
    if any(check.verdict == "failed" and check.blames == "client" for check in checks):
        checks = tuple(
            check.model_copy(update={"blames": "client"})
            if check.verdict == "failed" and all(map(row.of_late_client, measurement.runs))
            else check
            for row, check in zip(ROWS, checks, strict=True)
        )
    prevents = [check for check in checks if check.prevents]
    failed = [check for check in prevents if check.verdict == "failed"]
    if not prevents:
        return Certificate(verdict="certified", headline=_certified(measurement.points), checks=checks)
    decided = (failed or prevents)[0]
    opening = OPENINGS[decided.blames] if failed else "Not measured"
    return Certificate(
        verdict="not certified",
        headline=f"Not certified: {len(prevents)} of {len(checks)} checks failed or were not measured.",
        reason=f"{opening} ({decided.id}): {decided.found}.",
        checks=checks,
    )


def _check(row: Row, measurement: Measurement) -> Check:
    parts = (
        [(f"load {point.point + 1}", point) for point in measurement.points]
        if row.of == "load"
        else [(run.title, run) for run in measurement.runs]
    )
    judge: Any = row.figures
    judged = [(title, list(judge(measurement, part))) for title, part in parts]
    figures = [(title, one) for title, found in judged for one in found]
    beyond = [
        (title, one)
        for title, one in figures
        if not (one.value >= one.bound if row.is_least else one.value <= one.bound)
    ]
    unmeasured = [title for title, found in judged if not found]
    found = f"no figure of {unmeasured[0]}" if unmeasured else ""
    if beyond or (figures and not unmeasured):
        title, worst = max(beyond or figures, key=lambda one: -one[1].excess if row.is_least else one[1].excess)
        value, bound = (_UNITS[row.unit](number) for number in (worst.value, worst.bound))
        where = ", ".join(filter(None, (title, worst.where)))
        found = f"{where}: {value}, {'least' if row.is_least else 'most'} {bound}"
    return Check(
        id=row.id,
        title=row.title,
        verdict="failed" if beyond else "not measured" if unmeasured else "passed",
        found=found,
        allowed=row.allowed,
        why=row.why,
        blames=row.blames,
        required=row.required,
    )


def _certified(points: Sequence[Point]) -> str:
    best = max(points, key=lambda one: one.total_tokens_per_s.mean)
    loads = "" if len(points) == 1 else f", {len(points)} loads"
    return (
        f"Certified{loads}: {format_estimate(best.total_tokens_per_s)} total tok/s, {format_estimate(best.output_tokens_per_s)} output "
        f"tok/s at {best.connections:,} requests in flight, {best.total_tokens_per_s.repeats} repeats."
    )


def format_estimate(estimate: Estimate) -> str:
    """A mean, and half its 95 % interval where there is one."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:,.0f}"
    return f"{estimate.mean:,.0f} ± {(estimate.high - estimate.low) / 2:,.0f}"
