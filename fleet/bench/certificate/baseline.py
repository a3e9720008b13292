"""An earlier measurement, and whether a new one is worse beyond noise.

A baseline has what was measured (shape, workload, loads), the rates and latencies of every run, and the verdict of its
certificate. Two measurements are compared load by load with Welch's interval for a difference of means.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from facts.engines import normalise_environment, normalise_flags
from fleet.bench.certificate.certify import certify
from fleet.bench.folder import AskedShape, AskedWorkload
from fleet.bench.measurement import Certificate, Distribution, Estimate, Latencies, Measurement, Run
from fleet.bench.repeats import CONFIDENCE, estimate, welch_half_width

RELEVANT_RATE: Final = 0.01
"""Smallest change of a rate that counts, however certain. Assumed: one node of a hundred; equal fleets of the article differ by up
to 3.4 %."""
RELEVANT_LATENCY: Final = 0.03
"""The same for a latency. Assumed: above the article's own resolution, 1 ms of 46."""
SAME_LENGTH_SHARE: Final = 0.01
"""Allowed difference in requests a connection for a comparison of latencies. Assumed: clients with uneven shares."""

Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    name: str
    better: Direction

    @property
    def relevant(self) -> float:
        return RELEVANT_RATE if self.better == "higher" else RELEVANT_LATENCY


_QUANTITIES: Final[Mapping[str, _Quantity]] = {
    "total_tokens_per_s": _Quantity(name="total tok/s", better="higher"),
    "output_tokens_per_s": _Quantity(name="output tok/s", better="higher"),
    "ttft_p50_ms": _Quantity(name="TTFT p50, ms", better="lower"),
    "ttft_p99_ms": _Quantity(name="TTFT p99, ms", better="lower"),
    "tpot_p50_ms": _Quantity(name="TPOT p50, ms", better="lower"),
    "tpot_p99_ms": _Quantity(name="TPOT p99, ms", better="lower"),
    "e2e_p50_ms": _Quantity(name="E2E p50, ms", better="lower"),
}
_RATES: Final = ("total_tokens_per_s", "output_tokens_per_s")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Comparison(_File):
    """Against an earlier measurement."""

    baseline: str
    quantity: str
    before: Estimate
    after: Estimate
    change_share: float
    noise_share: float
    """Half width of the difference's 95 % interval, for all loads together, as a share of the baseline."""
    verdict: Literal["regressed", "improved", "same within noise", "not comparable"]
    why: str


class BaselinePoint(_File):
    """One load."""

    connections: int
    requests_per_connection: float
    """In a run. Latencies include the first wave, in which all prompts arrive together; with few requests it weighs more."""
    estimates: dict[str, Estimate]
    """Rates: total_tokens_per_s, output_tokens_per_s, requests_per_s."""
    latencies_ms: dict[str, dict[str, float]]
    """All repeats pooled: ttft, tpot, itl, e2e -> p50, p99."""
    runs: dict[str, tuple[float, ...]]
    """Quantity -> its value in each run."""


class Baseline(_File):
    """What is compared of a measurement."""

    name: str
    created: str
    shape: AskedShape | None
    workload: AskedWorkload | None
    points: tuple[BaselinePoint, ...]
    certificate: Literal["certified", "not certified"]
    headline: str
    lacks: dict[str, Literal["failed", "not measured"]]
    """Checks that prevented a certificate, with their verdict."""

    @property
    def judges(self) -> bool:
        """Whether it can be compared: certified, or only too few repeats."""
        return self.certificate == "certified" or self.lacks == {"repeats": "not measured"}


def of(measurement: Measurement, certificate: Certificate | None = None) -> Baseline:
    """The baseline that a measurement makes."""
    judged = certificate or certify(measurement)
    asked = measurement.asked
    return Baseline(
        name=asked.name,
        created=asked.created,
        shape=asked.shape,
        workload=asked.workload,
        points=tuple(_points(measurement)),
        certificate=judged.verdict,
        headline=judged.headline,
        lacks=dict(_lacks(judged)),
    )


def compare(
    measurement: Measurement, baseline: Baseline, certificate: Certificate | None = None
) -> tuple[Comparison, ...]:
    """Every quantity of every load against the baseline's.

    Regressed or improved: beyond the 95 % interval of the difference, and by more than RELEVANT_RATE or RELEVANT_LATENCY.
    """
    return compare_baselines(of(measurement, certificate), baseline)


def compare_baselines(
    new: Baseline, baseline: Baseline, *, changed: Container[str] = (), confidence: float | None = None
) -> tuple[Comparison, ...]:
    """The same of two that are made. `changed`: what of the shape may differ, a field's name, `flag` or `env`. `confidence`:
    of each interval, instead of one that a quantity's loads share.
    """
    title = baseline.name or "baseline"
    reasons = _incomparable(new, baseline, changed)
    old_points = {point.connections: point for point in baseline.points}
    new_points = {point.connections: point for point in new.points}
    pairs = [
        (before, point)
        for connections, point in new_points.items()
        if (before := old_points.get(connections)) is not None
    ]
    how = _How(title=title, reasons=tuple(reasons), loads=len(pairs), name_load=len(new_points) > 1, given=confidence)
    found = [one for before, point in pairs for one in _compare_point(before, point, how)]
    return (*found, *_unpaired(title, old_points, new_points))


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """What holds for every comparison of two measurements."""

    title: str
    reasons: tuple[str, ...]
    """Why none can be made."""
    loads: int
    """Loads that both have: each can be called worse by chance."""
    name_load: bool
    given: float | None = None
    """Confidence of one interval, where the caller sets it."""

    @property
    def confidence(self) -> float:
        """Of one interval, so that those of all loads hold together."""
        return shared_confidence(self.loads) if self.given is None else self.given


def shared_confidence(intervals: int) -> float:
    """Of each, so that all hold together (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / max(1, intervals)


def regressed(comparisons: Sequence[Comparison]) -> bool:
    """Whether anything got worse beyond noise."""
    return any(comparison.verdict == "regressed" for comparison in comparisons)


def incomparable(comparisons: Sequence[Comparison]) -> bool:
    """Whether there is a baseline and nothing could be compared with it, which fails the gate."""
    return bool(comparisons) and all(comparison.verdict == "not comparable" for comparison in comparisons)


def _lacks(certificate: Certificate) -> Iterator[tuple[str, Literal["failed", "not measured"]]]:
    for check in certificate.checks:
        if check.verdict == "failed" or (check.verdict == "not measured" and check.required):
            yield check.id, check.verdict


def _points(measurement: Measurement) -> Iterator[BaselinePoint]:
    for point in measurement.points:
        runs = [run for run in measurement.runs if run.point == point.point]
        values = {key: tuple(_values(runs, key)) for key in _QUANTITIES}
        yield BaselinePoint(
            connections=point.connections,
            requests_per_connection=sum(run.completed + run.failed for run in runs)
            / max(1, sum(run.connections for run in runs)),
            estimates={
                "total_tokens_per_s": point.total_tokens_per_s,
                "output_tokens_per_s": point.output_tokens_per_s,
                "requests_per_s": point.requests_per_s,
            },
            latencies_ms=dict(_pooled(point.latencies)),
            runs=values,
        )


def _pooled(latencies: Latencies) -> Iterator[tuple[str, dict[str, float]]]:
    for name in ("ttft", "tpot", "itl", "e2e"):
        found: Distribution | None = getattr(latencies, name)
        if found is not None:
            yield name, {"p50": found.p50, "p99": found.p99}


def _values(runs: Sequence[Run], key: str) -> Iterator[float]:
    for run in runs:
        value: float | None
        if key in _RATES:
            value = getattr(run.steady, key) if run.steady else None
        else:
            name, percentile, _ = key.split("_")
            distribution: Distribution | None = getattr(run.latencies, name)
            value = getattr(distribution, percentile) if distribution else None
        if value is not None and isfinite(value):
            yield value


def _incomparable(new: Baseline, old: Baseline, changed: Container[str]) -> list[str]:
    """Why two measurements cannot be compared."""
    reasons = []
    for which, one in (("this measurement", new), ("the baseline", old)):
        if not one.judges:
            reasons.append(f"{which} is not certified ({', '.join(one.lacks) or 'reason unknown'})")
        if one.shape is None or one.workload is None:
            reasons.append(f"{which} has no run.json")
        elif one.workload.of_a_file and one.workload.dataset is None:
            reasons.append(f"{which} does not name the file of its requests")
    if new.shape is not None and old.shape is not None:
        reasons += _shape_differences(new.shape, old.shape, changed)
    if new.workload is not None and old.workload is not None and new.workload != old.workload:
        reasons.append(f"the workload differs ({_differing(old.workload, new.workload)})")
    return reasons


def _shape_differences(new: AskedShape, old: AskedShape, changed: Container[str]) -> Iterator[str]:
    for field in ("model", "engine_version", "machine_type", "replicas", "gpus_per_replica", "routing", "workload"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after and field not in changed:
            yield f"{field} was {before}, is {after}"
    for what, olds, news in (
        ("flag", normalise_flags(old.flags), normalise_flags(new.flags)),
        ("env", normalise_environment(old.env), normalise_environment(new.env)),
    ):
        for name in sorted({*olds, *news}):
            if olds.get(name) != news.get(name) and what not in changed:
                yield f"{what} {name} was {olds.get(name, 'not set')}, is {news.get(name, 'not set')}"


def _differing(old: AskedWorkload, new: AskedWorkload) -> str:
    return ", ".join(
        f"{name} was {getattr(old, name)}, is {getattr(new, name)}"
        for name in AskedWorkload.model_fields
        if getattr(old, name) != getattr(new, name)
    )


def _compare_point(old: BaselinePoint, new: BaselinePoint, how: _How) -> Iterator[Comparison]:
    for key in _QUANTITIES:
        missing = [
            f"{which} no such value"
            for which, point in (("the baseline has", old), ("this measurement has", new))
            if not point.runs.get(key)
        ]
        if len(missing) == 2:
            continue
        length = () if key in _RATES else tuple(_other_length(old, new))
        yield _judged(key, old, new, missing or [*how.reasons, *length], how)


def _other_length(old: BaselinePoint, new: BaselinePoint) -> Iterator[str]:
    """Why latencies cannot be compared although rates can."""
    before, after = old.requests_per_connection, new.requests_per_connection
    if not abs(after - before) <= SAME_LENGTH_SHARE * before:
        yield (
            f"a connection had {before:.2f} requests, has {after:.2f}, so the first wave, in which all prompts arrive together, weighs "
            "differently: set the same benchmark.promptsPerClient for both"
        )


def _judged(key: str, old: BaselinePoint, new: BaselinePoint, reasons: Sequence[str], how: _How) -> Comparison:
    quantity = _QUANTITIES[key]
    before, after = (estimate(point.runs.get(key, ())) for point in (old, new))
    name = f"{quantity.name} at {new.connections:,} in flight" if how.name_load else quantity.name
    change = after.mean / before.mean - 1 if before.mean else 0.0
    verdict: Literal["regressed", "improved", "same within noise", "not comparable"] = "not comparable"
    noise, why = 0.0, "; ".join(reasons)
    if not reasons:
        olds, news = old.runs.get(key, ()), new.runs.get(key, ())
        if min(len(olds), len(news)) < 2:
            which = "the baseline" if len(olds) < 2 else "this measurement"
            why = f"{which} has one run, and without a spread a change cannot be told from noise: repeat the runs (benchmark.repeats)"
        elif not before.mean:
            why = "the baseline's value is 0, so there is no relative change"
        else:
            noise = welch_half_width(olds, news, how.confidence) / abs(before.mean)
            worse = change < 0 if quantity.better == "higher" else change > 0
            certain = abs(change) > noise and abs(change) > quantity.relevant
            verdict = "same within noise" if not certain else "regressed" if worse else "improved"
            why = _why(change, noise, quantity, how)
    return Comparison(
        baseline=how.title,
        quantity=name,
        before=before,
        after=after,
        change_share=change,
        noise_share=noise,
        verdict=verdict,
        why=why,
    )


def _why(change: float, noise: float, quantity: _Quantity, how: _How) -> str:
    moved = f"{abs(change):.1%} {'higher' if change > 0 else 'lower'}" if change else "unchanged"
    words = f"{moved}; the {100 * how.confidence:.3g}% interval of the difference is ±{noise:.1%}"
    if how.loads > 1:
        words += f" ({CONFIDENCE:.0%} for all {how.loads} loads together)"
    if abs(change) > noise and abs(change) <= quantity.relevant:
        words += f", and changes below {quantity.relevant:.0%} do not count"
    return words.replace("%", " %").replace("  %", " %")


def _unpaired(title: str, old: Mapping[int, BaselinePoint], new: Mapping[int, BaselinePoint]) -> Iterator[Comparison]:
    for connections in sorted(old.keys() ^ new.keys()):
        there = old.get(connections) or new[connections]
        value = estimate(there.runs.get("total_tokens_per_s", ()))
        nothing = estimate(())
        yield Comparison(
            baseline=title,
            quantity=f"total tok/s at {connections:,} in flight",
            before=value if connections in old else nothing,
            after=nothing if connections in old else value,
            change_share=0.0,
            noise_share=0.0,
            verdict="not comparable",
            why=f"this load was measured only {'by the baseline' if connections in old else 'now'}",
        )
