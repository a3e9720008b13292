"""Checks of `server.scaling`: settings that KEDA or Kubernetes would ignore, and settings that would leave callers without servers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final
from zoneinfo import available_timezones

from facts.capacity import FLEX_START_WAIT_SECONDS
from facts.finding import Finding, Severity
from settings.derived.scaling import lead_minutes, load_of_a_server
from settings.row import Row
from settings.sections.capacity import Calendar, Reservation, has_flex_start

if TYPE_CHECKING:
    from settings.sections.scaling import ScalingWindow
    from settings.stack import Settings

START_MINUTES: Final = (10, 18)
"""Minimum and maximum time from a scale-up of a running fleet to the new server's first response, without a wait at flex-start. Source:
facts/time_to_serve.py."""
_START: Final = "a server takes minutes to start, and more where a node is waited for at flex-start"
_PATH: Final = "server.scaling"
_TWO_OWNERS = Row(
    "replicas-beside-scaling",
    "replicas must have one owner: the autoscaler and `pulumi up` or kubectl would overwrite each other",
    "remove replicas; scaling.min and scaling.max bound the servers",
)
_BOUNDS = Row(
    "scaling-bounds",
    "with equal bounds the autoscaler never scales",
    "a larger max, or mode: none with server.replicas",
)
_LEAD = Row(
    "scaling-lead-short",
    f"{_START}: windows would open without servers, and twice the lead of low load would remove servers that are soon needed again",
    "remove leadMinutes",
    "warning",
)
_TARGET = Row(
    "scaling-target-above-load",
    f"the autoscaler would add servers only when the running ones are overloaded, and {_START}",
    "remove targetInFlight, or one in the range",
    "warning",
)
_NO_WINDOWS = Row(
    "scaling-without-windows",
    "only a window changes the number of servers by a schedule, or scales up from zero, where there are no metrics",
    'windows: [{days: [MO, TU, WE, TH, FR], start: "07:00", end: "20:00", replicas: 2}]',
)
_TIMEZONE = Row(
    "scaling-timezone",
    "KEDA cannot load any other, and the windows would never open",
    "timezone: Europe/Amsterdam, or UTC",
)
_OVERLAP = Row(
    "scaling-windows-overlap", "only the higher minimum would apply in an overlap", "hours outside the other"
)
_BACKWARDS = Row(
    "scaling-window-backwards",
    "a window ends on the day it begins",
    'two windows, until "24:00" and from "00:00" of the next day',
)
_SHORT = Row(
    "scaling-window-short",
    f"{_START}, and its node idles for ten before its removal: most of the cost would be outside the window",
    "a longer window",
    "warning",
)
_REPLICAS = Row(
    "scaling-window-replicas",
    "a window's number up to min has no effect, and the autoscaler never exceeds max",
    "replicas in the range, or other bounds",
)
_NO_METRICS = Row(
    "scaling-without-metrics",
    "the autoscaler reads the servers' metrics from managed Prometheus, which would not scrape them",
    "monitoring: {enabled: true}, or scaling: {mode: schedule}",
)
_NO_KEDA = Row("scaling-without-keda", "without KEDA the ScaledObject has no effect", "remove keda")
_NEEDS_KEDA = Row(
    "platform-needs-keda",
    "this stack adds a ScaledObject and no operator: the platform provides KEDA and its permission to read metrics",
    "nothing, if `kubectl get crd scaledobjects.keda.sh` finds it and keda/keda-operator has roles/monitoring.viewer",
    "note",
)
_NO_SAVING = Row(
    "scaling-saves-nothing",
    "a reservation is billed whether its nodes run or not",
    "capacity: {mode: compute-class}, with a reservation for the minimum number of servers and hourly nodes for the rest",
    "note",
)
_MEASURING = Row(
    "scaling-while-measuring",
    "the benchmark's load makes the autoscaler add servers during the measurement, so its figures fit no fixed fleet size",
    "benchmark: {enabled: false}, or a stack with fixed replicas for the measurement",
    "warning",
)
_NO_BATCH = Row(
    "scaling-without-batch",
    "only the pods of `fleet batch run` ask for servers, and without the section it has no bucket",
    "batch: {enabled: true}, or scaling: {mode: schedule} or {mode: load}",
)
_BATCH_ALONE = Row(
    "scaling-batch-alone",
    "the batch alone decides: `fleet batch run` plans the servers that deadline and maxUsd need; a minimum would be billed without work",
    "remove it; or mode: schedule or load",
)


def scaling_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of a stack with an autoscaler."""
    yield from _bounds(settings)
    if settings.server.scaling.mode == "batch":
        yield from _by_batch(settings)
    else:
        yield from _windows(settings)
    yield from _surroundings(settings)


def _bounds(settings: Settings) -> Iterator[Finding]:
    server, scaling = settings.server, settings.server.scaling
    if "replicas" in server.model_fields_set and server.replicas != 0:
        severity: Severity = "warning" if server.replicas == "external" else "error"
        yield _TWO_OWNERS("server.replicas", server.replicas, "left out with server.scaling; 0 pauses", severity)
    if scaling.min >= scaling.max and scaling.mode != "batch":
        yield _BOUNDS(f"{_PATH}.max", scaling.max, f"more than min ({scaling.min})")
    (least, most), lead = _start_minutes(settings), lead_minutes(settings)
    if lead < least:
        yield _LEAD(f"{_PATH}.leadMinutes", lead, f"{least} or more: a start takes {least} to {most} min")
    proven = load_of_a_server(settings)
    if scaling.target_in_flight is not None and scaling.target_in_flight > proven:
        allowed = f"up to {proven}, the load of each server (needs.concurrencyPerReplica)"
        yield _TARGET(f"{_PATH}.targetInFlight", scaling.target_in_flight, allowed)


def _start_minutes(settings: Settings) -> tuple[int, int]:
    """`START_MINUTES`, with the wait at flex-start."""
    least, most = START_MINUTES
    return least, most + has_flex_start(settings.capacity) * FLEX_START_WAIT_SECONDS // 60


def _windows(settings: Settings) -> Iterator[Finding]:
    scaling = settings.server.scaling
    if not scaling.windows and (scaling.mode == "schedule" or scaling.min == 0):
        yield _NO_WINDOWS(f"{_PATH}.windows", [], "one or more windows with mode: schedule or min: 0")
    zones = available_timezones()  # empty if this machine has no time zone database
    if zones and scaling.timezone not in zones:
        yield _TIMEZONE(f"{_PATH}.timezone", scaling.timezone, "a name of the IANA time zone database")
    for number, window in enumerate(scaling.windows):
        yield from _window(settings, f"{_PATH}.windows[{number}]", window)
    for (a, one), (b, other) in combinations(enumerate(scaling.windows), 2):
        days = [day for day in one.days if day in other.days]
        if days and one.start_minute < other.end_minute and other.start_minute < one.end_minute:
            allowed = f"hours outside windows[{a}] ({one.start} to {one.end}) on {', '.join(days)}"
            yield _OVERLAP(f"{_PATH}.windows[{b}]", f"{other.start} to {other.end}", allowed)


def _window(settings: Settings, path: str, window: ScalingWindow) -> Iterator[Finding]:
    scaling, (least, most) = settings.server.scaling, _start_minutes(settings)
    if window.start_minute >= window.end_minute:
        yield _BACKWARDS(f"{path}.end", window.end, f"later than its start, {window.start}")
    elif window.end_minute - window.start_minute < most:
        yield _SHORT(path, f"{window.start} to {window.end}", f"{most} min or more: a start takes {least} to {most}")
    if not scaling.min < window.replicas <= scaling.max:
        yield _REPLICAS(
            f"{path}.replicas", window.replicas, f"more than min ({scaling.min}), up to max ({scaling.max})"
        )


def _surroundings(settings: Settings) -> Iterator[Finding]:
    scaling = settings.server.scaling
    if scaling.mode == "load" and not settings.monitoring.enabled:
        yield _NO_METRICS("monitoring.enabled", False, "true with server.scaling.mode load")
    if settings.owns_platform and settings.cluster.keda is False:
        yield _NO_KEDA("cluster.keda", False, "true, or left out, with server.scaling")
    if not settings.owns_platform:
        yield _NEEDS_KEDA(f"{_PATH}.mode", scaling.mode, "any, if the cluster has KEDA")
    if isinstance(settings.capacity, Reservation | Calendar):
        yield _NO_SAVING(f"{_PATH}.mode", scaling.mode, "any; on reserved capacity it frees nodes but saves no money")
    if settings.benchmark.enabled and scaling.mode != "batch":
        yield _MEASURING("benchmark.enabled", True, "true; best without server.scaling")


def _by_batch(settings: Settings) -> Iterator[Finding]:
    scaling = settings.server.scaling
    if not settings.batch.enabled:
        yield _NO_BATCH("batch.enabled", False, "true with server.scaling.mode batch")
    given = {
        "min": bool(scaling.min),
        "windows": "windows" in scaling.model_fields_set,
        "targetInFlight": "target_in_flight" in scaling.model_fields_set,
        "leadMinutes": "lead_minutes" in scaling.model_fields_set,
        "timezone": "timezone" in scaling.model_fields_set,
    }
    for name in (name for name, is_given in given.items() if is_given):
        yield _BATCH_ALONE(f"{_PATH}.{name}", "given", "left out with mode: batch")
