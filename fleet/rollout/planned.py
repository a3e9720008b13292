"""The plan of a canary: differences, price and duration, before it is started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from facts.machines import DEFAULT_MACHINE
from facts.texts import plural
from facts.time_to_serve import Start, time_to_serve
from fleet.plan.benchmark_price import Price, price_of
from fleet.preview.report.consequences import release_changes
from fleet.report.outline import Element, Findings, Items, Outline, Prose, Section, some
from fleet.report.words import format_duration, format_usd
from fleet.rollout.effort import MEASUREMENTS, REPEATS
from settings.derived.canary import release, weights_ending
from settings.derived.figures import figures
from settings.load import check
from settings.sections.capacity import has_flex_start
from settings.sections.section import key

if TYPE_CHECKING:
    from facts.finding import Finding
    from facts.time_to_serve import TimeToServe
    from settings.stack import Settings


def outline(before: Settings, after: Settings, *then: Element) -> Outline:
    """Differences, effects, findings, price and duration, then what comes next. An unknown price is null in the document."""
    canary, less, more = after.as_canary, figures(before).bill.usd_per_hour, figures(after).bill.usd_per_hour
    assert canary is not None
    way, one, missing = _way(after, canary), one_measurement(after), benchmark_missing(after)
    changes = release_changes(canary, before.serving.engine.release, canary.serving.engine.release)
    found = _new_findings(before, after)
    costs = (_cost(before, after), _time(after, canary), _judgement(after))
    return Outline(
        title=f"Canary {canary.server.name}: {plural(canary.replicas, 'replica')} beside {after.replicas}",
        head=some(Prose(missing, "warn") if missing else None),
        body=some(
            Section(title="What differs", body=(Items((*differences(after), *changes)),)),
            Section(title="Deserves a look", body=(Findings(found),)) if found else None,
            Section(title="Costs and takes", body=(Items(costs),)),
            *then,
        ),
        data={
            "stack": after.stack,
            "canary": canary.server.name,
            "replicas": canary.replicas,
            "differences": difference_rows(after),
            "nodesMore": after.nodes - before.nodes,
            "usdPerHourMore": None if less is None or more is None else more - less,
            "readySeconds": {"likely": way.likely_seconds, "low": way.low_seconds, "high": way.high_seconds},
            "measurements": MEASUREMENTS,
            "measuringMinutes": MEASUREMENTS * one.minutes,
            "benchmarkEnabled": after.benchmark.enabled,
        },
    )


def _new_findings(before: Settings, after: Settings) -> tuple[Finding, ...]:
    of_servers = {one.text() for one in check(before)}
    return tuple(
        one for one in check(after) if one.severity in ("warning", "deliberate") and one.text() not in of_servers
    )


def differences(settings: Settings) -> Iterator[str]:
    """Each setting in which the canary differs from the servers."""
    return (f"{row['setting']}: {_text(row['servers'])} -> {_text(row['canary'])}" for row in difference_rows(settings))


def difference_rows(settings: Settings) -> list[dict[str, Any]]:
    """The same as JSON values."""
    assert settings.as_canary is not None
    servers, canary = ({"profile": one.serving.profile.name, **release(one)} for one in (settings, settings.as_canary))
    return list(_different(servers, canary))


def _different(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[dict[str, Any]]:
    for name in new:
        if isinstance(old[name], Mapping) and isinstance(new[name], Mapping) and old[name].keys() == new[name].keys():
            yield from _different(old[name], new[name], f"{path}{name}.")
        elif old[name] != new[name]:
            yield {"setting": f"{path}{name}", "servers": old[name], "canary": new[name]}


def _text(value: Any) -> str:
    """A value as the stack file would have it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cost(before: Settings, after: Settings) -> str:
    less, more = figures(before).bill, figures(after).bill
    own = ", and a separate weights volume" if weights_ending(after) else ""
    node = f"{plural(after.nodes - before.nodes, 'node')} more{own}"
    if less.usd_per_hour is None or more.usd_per_hour is None:
        return f"{node}: unknown price; {less.format_hourly_total()} without it"
    return f"{node}: {format_usd(more.usd_per_hour - less.usd_per_hour)} an hour in addition to {less.format_hourly_total()}"


def _way(after: Settings, canary: Settings) -> TimeToServe:
    weights = canary.weights
    return time_to_serve(
        Start(
            weights_gb=canary.serving.model.size_gb,
            volume_gib=weights.size_gib,
            volume_mibps=weights.throughput_mibps,
            readers=canary.replicas,
            platform_exists=True,
            weights_exist=weights_ending(after) is None,
            weights_from_hub=not weights.has_volume,
            flex_start=has_flex_start(canary.capacity),
            gpus=canary.gpus_per_replica,
            articles_machine=canary.machine == DEFAULT_MACHINE,
        )
    )


def _time(after: Settings, canary: Settings) -> str:
    way = _way(after, canary)
    return (
        f"ready about {format_duration(way.likely_seconds)} after pulumi up begins ({format_duration(way.low_seconds)} to "
        f"{format_duration(way.high_seconds)})"
    )


def one_measurement(settings: Settings) -> Price:
    """One measurement of `fleet rollout judge`: the stack's benchmark for one replica."""
    fields = {name: getattr(settings, name) for name in settings.model_fields_set - {"gateway", "rollout"}}
    server = settings.server.model_copy(update={"replicas": 1})
    benchmark = settings.benchmark.model_copy(update={"repeats": REPEATS})
    fields |= {"namespace": settings.namespace, "server": server, "benchmark": benchmark}
    # Not model_copy, which takes along what was worked out for all replicas.
    return price_of(type(settings).model_construct(**fields))


def _judgement(settings: Settings) -> str:
    one, rate = one_measurement(settings), figures(settings).bill.usd_per_hour
    minutes = MEASUREMENTS * one.minutes
    price = "" if rate is None else f", in which the stack costs {format_usd(rate * minutes / 60)}"
    return (
        f"then judged: {MEASUREMENTS} measurements of {plural(one.runs, 'run')}, half of them of one of the servers, half of the canary; "
        f"about {minutes:.0f} minutes together{price}"
    )


def benchmark_missing(settings: Settings) -> str:
    """Setting that is required to judge the canary; empty if present."""
    if settings.benchmark.enabled:
        return ""
    return (
        f"`fleet rollout judge` uses the stack's benchmark, which is off. First write to Pulumi.{settings.stack}.yaml: "
        f"{key('benchmark')}: {{enabled: true, runOnUpdate: false}}. The `pulumi up` of the canary then prepares it too."
    )
