"""Two measurements, load by load: what is worse beyond noise.

A change counts where it lies outside Welch's 95 % interval of the difference over the repeats, and is relevant. What was deployed
may differ (that is what is compared: a canary and the servers, this week and the last), what was sent may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

from facts.engines import normalise_environment, normalise_flags
from fleet.bench.certificate import certify
from fleet.bench.folder import Asked, AskedShape
from fleet.bench.measurement import Estimate, Measurement, Run
from fleet.bench.repeats import CONFIDENCE, estimate, welch_half_width

RELEVANT_RATE: Final = 0.01
"""Smallest change of a rate that counts, however certain. Assumed: one node of a hundred; equal fleets of the article differ by up
to 3.4 %."""
RELEVANT_LATENCY: Final = 0.03
"""The same for a latency. Assumed: above the article's own resolution, 1 ms of 46."""
LEAST_REPEATS: Final = 2
"""Of each side: without a spread a change cannot be told from noise."""
QUANTITIES: Final[Mapping[str, str]] = {
    "total_tokens_per_s": "total tok/s",
    "output_tokens_per_s": "output tok/s",
    "ttft_p50": "TTFT p50, ms",
    "ttft_p99": "TTFT p99, ms",
    "tpot_p50": "TPOT p50, ms",
    "tpot_p99": "TPOT p99, ms",
    "e2e_p50": "E2E p50, ms",
}
_RATES: Final = ("total_tokens_per_s", "output_tokens_per_s")
_EXCUSED: Final = "repeats"
"""The check that repeats agree: here their spread is in the interval."""

Verdict = Literal["worse", "better", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One quantity at one load."""

    quantity: str
    connections: int
    """Requests in flight, all clients together."""
    before: Estimate
    after: Estimate
    change_share: float
    noise_share: float
    """Half width of the difference's interval, as a share of the first mean. All loads' intervals hold together with 95 %."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two measurements: what keeps them from being compared, else every change."""

    obstacles: tuple[str, ...]
    differences: tuple[str, ...]
    """What was deployed differently."""
    changes: tuple[Change, ...]

    @property
    def holds(self) -> bool:
        """Whether they were compared, and the second is in nothing worse."""
        return bool(self.changes) and all(change.verdict != "worse" for change in self.changes)


def compare(before: Measurement, after: Measurement) -> Compared:
    """Every quantity of every load that both have."""
    obstacles = tuple(_obstacles(before, after))
    shared = sorted(_loads(before).keys() & _loads(after).keys())
    return Compared(
        obstacles=obstacles,
        differences=tuple(_differences(before.asked, after.asked)),
        changes=() if obstacles else tuple(_changes(_loads(before), _loads(after), shared)),
    )


def _loads(measurement: Measurement) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for run in measurement.runs:
        found.setdefault(run.connections, []).append(run)
    return found


def _obstacles(before: Measurement, after: Measurement) -> Iterator[str]:
    for name, one in (("the first", before), ("the second", after)):
        lacks = [check.id for check in certify(one).checks if check.prevents and check.id != _EXCUSED]
        if lacks:
            yield f"{name} is not certified: {', '.join(lacks)}"
        if any(len(runs) < LEAST_REPEATS for runs in _loads(one).values()):
            yield f"{name} has a load with fewer than {LEAST_REPEATS} repeats: raise benchmark.repeats"
    for key in ("workload", "prompts_per_client"):
        if getattr(before.asked, key) != getattr(after.asked, key):
            yield f"{key} differs: measure both with the same requests"
    if not _loads(before).keys() & _loads(after).keys():
        yield "no load is in both: measure both at the same requests in flight"


def _differences(before: Asked, after: Asked) -> Iterator[str]:
    olds, news = _deployed(before), _deployed(after)
    for name in sorted(olds.keys() | news.keys()):
        if olds.get(name) != news.get(name):
            yield f"{name}: {olds.get(name, 'not set')}, then {news.get(name, 'not set')}"


def _deployed(asked: Asked) -> dict[str, object]:
    plain = {name: getattr(asked.shape, name) for name in AskedShape.model_fields if name not in ("flags", "env")}
    flags = {f"--{name}": value for name, value in normalise_flags(asked.shape.flags).items()}
    return {"image": asked.image, **plain, **flags, **normalise_environment(asked.shape.env)}


def _changes(olds: Mapping[int, list[Run]], news: Mapping[int, list[Run]], loads: Sequence[int]) -> Iterator[Change]:
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(loads))  # Bonferroni: each load can be called worse by chance
    for load in loads:
        for key in QUANTITIES:
            before, after = list(_values(olds[load], key)), list(_values(news[load], key))
            if min(len(before), len(after)) >= LEAST_REPEATS and (mean := estimate(before).mean):
                yield _change(key, load, before, after, welch_half_width(before, after, confidence) / abs(mean))


def _change(key: str, load: int, before: Sequence[float], after: Sequence[float], noise: float) -> Change:
    olds, news = estimate(before), estimate(after)
    change = news.mean / olds.mean - 1
    is_rate = key in _RATES
    verdict: Verdict = "same"
    if abs(change) > max(noise, RELEVANT_RATE if is_rate else RELEVANT_LATENCY):
        verdict = "better" if (change > 0) == is_rate else "worse"
    return Change(
        quantity=QUANTITIES[key],
        connections=load,
        before=olds,
        after=news,
        change_share=change,
        noise_share=noise,
        verdict=verdict,
    )


def _values(runs: Sequence[Run], key: str) -> Iterator[float]:
    """The quantity in each run that has it."""
    for run in runs:
        if key in _RATES:
            value = None if run.steady is None else getattr(run.steady, key)
        else:
            name, percentile = key.split("_")
            found = getattr(run.latencies, name)
            value = None if found is None else getattr(found, percentile)
        if value is not None and isfinite(value):
            yield value
