"""The split of a gateway's loss, from its measurements, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Final

from facts.engines import normalise_environment, normalise_flags
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Asked
from fleet.bench.gateway_loss.variants import (
    DIRECT,
    DIRECT_INTERVAL,
    DIRECT_WHOLE,
    GATEWAY,
    GATEWAY_INTERVAL,
    GATEWAY_WHOLE,
    RANDOM,
    SERVICE,
    STREAM_INTERVAL,
    VARIANTS,
    Variant,
)
from fleet.bench.measurement import Estimate, Judged
from fleet.bench.repeats import CONFIDENCE, estimate
from fleet.bench.report.source import judged_of
from fleet.bench.student_t import two_sided

Values = Sequence[float]
_INTERVAL_FLAG: Final = "stream-interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One variant's measurement."""

    variant: Variant
    values: tuple[float, ...]
    """Steady total tokens a second of each run."""
    chunks_per_s: float
    """Of all clients, mean over the runs."""
    lacks: tuple[str, ...]
    """Checks that a certificate lacks."""

    @property
    def rate(self) -> Estimate:
        """Mean over the runs, with its interval."""
        return estimate(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the throughput without the gateway, with its 95 % interval."""

    value: float
    half: float

    @property
    def is_certain(self) -> bool:
        """Whether 0 lies outside the interval."""
        return abs(self.value) > self.half


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of the split."""

    id: str
    title: str
    how: str
    """Which measurements it compares."""
    missing: tuple[str, ...]
    """Measurements that it still needs."""
    share: Share | None
    """None while one is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    """`sign` times the rate of one variant over that of another."""

    sign: int
    over: Variant
    under: Variant


_PARTS: Final[tuple[tuple[str, str, str, float, tuple[_Ratio, ...]], ...]] = (
    ("loss", "the gateway in all", "gateway against direct", 1.0, (_Ratio(sign=-1, over=GATEWAY, under=DIRECT),)),
    ("proxy", "of it: load balancer", "service against direct", 1.0, (_Ratio(sign=-1, over=SERVICE, under=DIRECT),)),
    (
        "calls",
        "of it: calls of the picker",
        "random-picks against service",
        0.0,
        (_Ratio(sign=1, over=SERVICE, under=DIRECT), _Ratio(sign=-1, over=RANDOM, under=DIRECT)),
    ),
    (
        "choice",
        "of it: its choice of a server",
        "gateway against random-picks",
        0.0,
        (_Ratio(sign=1, over=RANDOM, under=DIRECT), _Ratio(sign=-1, over=GATEWAY, under=DIRECT)),
    ),
    (
        "loss-interval",
        f"the gateway in all, {STREAM_INTERVAL} tokens a chunk",
        f"{GATEWAY_INTERVAL.id} against {DIRECT_INTERVAL.id}",
        1.0,
        (_Ratio(sign=-1, over=GATEWAY_INTERVAL, under=DIRECT_INTERVAL),),
    ),
    (
        "loss-whole",
        "the gateway in all, answers not streamed",
        f"{GATEWAY_WHOLE.id} against {DIRECT_WHOLE.id}",
        1.0,
        (_Ratio(sign=-1, over=GATEWAY_WHOLE, under=DIRECT_WHOLE),),
    ),
    (
        "goes-with-interval",
        f"what {STREAM_INTERVAL} tokens a chunk take from the loss",
        "the two losses",
        0.0,
        (_Ratio(sign=-1, over=GATEWAY, under=DIRECT), _Ratio(sign=1, over=GATEWAY_INTERVAL, under=DIRECT_INTERVAL)),
    ),
    (
        "goes-with-streams",
        "what chunks cost at all: the loss that is gone without streams",
        "the two losses",
        0.0,
        (_Ratio(sign=-1, over=GATEWAY, under=DIRECT), _Ratio(sign=1, over=GATEWAY_WHOLE, under=DIRECT_WHOLE)),
    ),
)


def measured_in(folder: Path) -> tuple[Measured, ...]:
    """The measurements of a session that are there, each checked to be what its folder says.

    Raises BenchmarkError without `direct` and `gateway`, for one that measured something else, and for too few steady runs.
    """
    found: dict[Variant, Judged] = {
        variant: judged_of(folder / variant.id) for variant in VARIANTS if (folder / variant.id).is_dir()
    }
    if lost := [one.id for one in (DIRECT, GATEWAY) if one not in found]:
        raise BenchmarkError(
            f"{folder}: {' and '.join(lost)} missing: the loss is the difference of {DIRECT.id} and {GATEWAY.id}; run the commands of "
            "`fleet bench gateway-loss` without --results"
        )
    first = _asked(folder / DIRECT.id, found[DIRECT])
    for variant, judged in found.items():
        where = folder / variant.id
        if differing := list(_differences(variant, _asked(where, judged), judged, first)):
            raise BenchmarkError(
                f"{where} is not a measurement of {variant.id}: {'; '.join(differing)}. All measurements of a session have one stack, "
                "workload and load; measure it again with the commands of `fleet bench gateway-loss` without --results"
            )
    return tuple(_measured(folder / variant.id, variant, judged) for variant, judged in found.items())


def parts(measured: Sequence[Measured]) -> tuple[Part, ...]:
    """The loss and its parts. Those of which a measurement is missing are named, without a share."""
    values = {one.variant: one.values for one in measured}
    found = []
    for id_, title, how, constant, ratios in _PARTS:
        needed = dict.fromkeys(variant for ratio in ratios for variant in (ratio.over, ratio.under))
        missing = tuple(variant.id for variant in needed if variant not in values)
        share = None if missing else _share(constant, ratios, values)
        found.append(Part(id=id_, title=title, how=how, missing=missing, share=share))
    return tuple(found)


def _share(constant: float, ratios: Sequence[_Ratio], values: Mapping[Variant, Values]) -> Share:
    """The sum of ratios of means, and half its interval: errors in first order, Welch-Satterthwaite's degrees of freedom."""
    means = {variant: sum(of) / len(of) for variant, of in values.items()}
    total, slopes = constant, dict[Variant, float]()
    for ratio in ratios:
        value = means[ratio.over] / means[ratio.under]
        total += ratio.sign * value
        slopes[ratio.over] = slopes.get(ratio.over, 0.0) + ratio.sign / means[ratio.under]
        slopes[ratio.under] = slopes.get(ratio.under, 0.0) - ratio.sign * value / means[ratio.under]
    variances = {variant: slopes[variant] ** 2 * _variance_of_mean(values[variant]) for variant in slopes}
    error = sum(variances.values())
    if not error > 0:
        return Share(value=total, half=0.0)
    degrees = 1 / sum((one / error) ** 2 / (len(values[variant]) - 1) for variant, one in variances.items())
    return Share(value=total, half=two_sided(degrees, CONFIDENCE) * sqrt(error))


def _variance_of_mean(values: Values) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def _asked(where: Path, judged: Judged) -> Asked:
    asked = judged.measurement.asked
    if asked is None:
        raise BenchmarkError(
            f"{where}: run.json is missing, so what was measured is unknown; measure with `fleet bench run`"
        )
    return asked


def _differences(variant: Variant, asked: Asked, judged: Judged, first: Asked) -> Iterator[str]:
    """How a measurement differs from its variant, or from the first one in more than its variant."""
    shape = asked.shape
    flags, firsts = dict(normalise_flags(shape.flags)), dict(normalise_flags(first.shape.flags))
    interval = flags.pop(_INTERVAL_FLAG, None)
    firsts.pop(_INTERVAL_FLAG, None)
    if shape.routing != variant.routing:
        yield f"routing is {shape.routing}, not {variant.routing}"
    if interval != variant.stream_interval:
        yield f"--{_INTERVAL_FLAG} is {interval or 'not set'}, not {variant.stream_interval or 'unset'}"
    if asked.workload.streamed != variant.streamed:
        yield "answers were " + ("streamed" if asked.workload.streamed else "not streamed")
    if not variant.streamed and any(run.latencies.itl is not None for run in judged.measurement.runs):
        yield "answers came in chunks although none were asked for"
    for name in ("model", "engine_version", "machine_type", "replicas", "gpus_per_replica"):
        if getattr(shape, name) != getattr(first.shape, name):
            yield f"{name} is {getattr(shape, name)}, of {DIRECT.id} {getattr(first.shape, name)}"
    if flags != firsts or normalise_environment(shape.env) != normalise_environment(first.shape.env):
        yield f"other engine options than {DIRECT.id}"
    if asked.workload.model_copy(update={"streamed": True}) != first.workload.model_copy(update={"streamed": True}):
        yield f"workload is {asked.workload.name}, of {DIRECT.id} {first.workload.name}"
    if (asked.points, asked.prompts_per_client) != (first.points, first.prompts_per_client):
        yield f"another load than {DIRECT.id}"


def _measured(where: Path, variant: Variant, judged: Judged) -> Measured:
    measurement = judged.measurement
    if len(measurement.points) > 1:
        raise BenchmarkError(
            f"{where} is a sweep of {len(measurement.points)} loads; the split needs one, without --concurrency"
        )
    values = tuple(run.steady.total_tokens_per_s for run in measurement.runs if run.steady is not None)
    if len(values) < 2 or min(values) <= 0:
        raise BenchmarkError(
            f"{where} has {len(values)} runs with a steady window; the split needs two or more: run it again with --repeats 3"
        )
    chunks = [sum(client.chunks_per_s for client in run.clients) for run in measurement.runs]
    return Measured(
        variant=variant,
        values=values,
        chunks_per_s=sum(chunks) / len(chunks),
        lacks=tuple(
            one.id
            for one in judged.certificate.checks
            if one.verdict == "failed" or (one.required and one.verdict == "not measured")
        ),
    )
