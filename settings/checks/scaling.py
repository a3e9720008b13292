"""Checks of `server.scaling`: settings that KEDA or Kubernetes would ignore, and settings that would leave callers without servers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final
from zoneinfo import available_timezones

from facts.capacity import FLEX_START_WAIT_SECONDS
from facts.finding import Finding, Severity
from settings.derived.scaling import default_target, lead_minutes, load_of_a_server
from settings.sections.capacity import Calendar, Reservation, has_flex_start
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.scaling import ScalingWindow
    from settings.stack import Settings

START_MINUTES: Final = (10, 18)
"""Minimum and maximum time from a scale-up of a running fleet to the new server's first response, without a wait at flex-start. Source:
facts/time_to_serve.py."""


def scaling_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the stack's autoscaler."""
    scaling = settings.server.scaling
    if scaling.mode == "none":
        if unused := sorted(scaling.model_fields_set - {"mode"}):
            yield _problem(
                "scaling-off",
                "mode",
                "none",
                allowed="load, schedule or batch, for the rest of the section to take effect",
                why=f"without an autoscaler {', '.join(unused)} has no effect; server.replicas sets the number of servers",
                write="mode: load",
                severity="note",
            )
        return
    yield from _bounds(settings)
    if scaling.mode == "batch":
        yield from _by_batch(settings)
    else:
        yield from _windows(settings)
    yield from _surroundings(settings)


def _bounds(settings: Settings) -> Iterator[Finding]:
    server, scaling = settings.server, settings.server.scaling
    if server.replicas == "external":
        yield Finding(
            id="replicas-beside-scaling",
            subject=key("server.replicas"),
            found=server.replicas,
            allowed="left out with server.scaling; 0 pauses",
            why=f"external means managed outside this stack, but mode: {scaling.mode} adds an autoscaler, which takes precedence",
            write="remove replicas; or scaling: {mode: none}, which removes the autoscaler and keeps the servers",
            severity="warning",
        )
    elif "replicas" in server.model_fields_set and server.replicas != 0:
        yield Finding(
            id="replicas-beside-scaling",
            subject=key("server.replicas"),
            found=server.replicas,
            allowed="left out with server.scaling; 0 pauses",
            why="replicas must have one owner: the autoscaler and `pulumi up` would overwrite each other",
            write="remove replicas; scaling.max limits the servers of a batch"
            if scaling.mode == "batch"
            else f"remove replicas; scaling: {{min: {min(int(server.replicas), scaling.max)}}} sets the minimum",
        )
    if scaling.min >= scaling.max and scaling.mode != "batch":
        yield _problem(
            "scaling-bounds",
            "max",
            scaling.max,
            allowed=f"more than min ({scaling.min})",
            why="with equal bounds the autoscaler never scales",
            write=f"max: {scaling.min + 1} or more, or mode: none with server.replicas",
        )
    lead, (least, most) = lead_minutes(settings), _start_minutes(settings)
    if lead < least:
        yield _problem(
            "scaling-lead-short",
            "leadMinutes",
            lead,
            allowed=f"{least} or more",
            why=f"a server takes {least} to {most} min to start: windows would open without servers, and "
            f"{2 * lead} minutes of low load would remove servers that are soon needed again",
            write="remove leadMinutes",
            severity="warning",
        )
    proven = load_of_a_server(settings)
    if scaling.target_in_flight is not None and scaling.target_in_flight > proven:
        yield _problem(
            "scaling-target-above-load",
            "targetInFlight",
            scaling.target_in_flight,
            allowed=f"up to {proven}, the load of each server (needs.concurrencyPerReplica)",
            why="the autoscaler would add servers only when the running ones are overloaded, and a server takes "
            f"{least} to {most} min to start",
            write=f"targetInFlight: {default_target(proven)}",
            severity="warning",
        )


def _start_minutes(settings: Settings) -> tuple[int, int]:
    """`START_MINUTES`, with the wait at flex-start."""
    least, most = START_MINUTES
    return least, most + has_flex_start(settings.capacity) * FLEX_START_WAIT_SECONDS // 60


def _windows(settings: Settings) -> Iterator[Finding]:
    scaling = settings.server.scaling
    if not scaling.windows and (scaling.mode == "schedule" or scaling.min == 0):
        what = "mode: schedule" if scaling.mode == "schedule" else "min: 0"
        yield _problem(
            "scaling-without-windows",
            "windows",
            [],
            allowed=f"one or more windows with {what}",
            why="only a window scales up from zero: without servers there are no metrics"
            if scaling.min == 0
            else "only windows change the number of servers",
            write='windows: [{days: [MO, TU, WE, TH, FR], start: "07:00", end: "20:00", replicas: 2}]',
        )
    zones = available_timezones()  # empty if this machine has no time zone database
    if zones and scaling.timezone not in zones:
        yield _problem(
            "scaling-timezone",
            "timezone",
            scaling.timezone,
            allowed="a name of the IANA time zone database",
            why="KEDA cannot load any other, and the windows would never open",
            write="timezone: Europe/Amsterdam, or UTC",
        )
    for number, window in enumerate(scaling.windows):
        yield from _window(settings, f"windows[{number}]", window)
    for (a, one), (b, other) in combinations(enumerate(scaling.windows), 2):
        days = [day for day in one.days if day in other.days]
        if days and one.start_minute < other.end_minute and other.start_minute < one.end_minute:
            yield _problem(
                "scaling-windows-overlap",
                f"windows[{b}]",
                f"{other.start} to {other.end}",
                allowed=f"hours outside windows[{a}] ({one.start} to {one.end}) on {', '.join(days)}",
                why="only the higher minimum would apply in an overlap",
                write=f'start: "{one.end}"',
            )


def _window(settings: Settings, path: str, window: ScalingWindow) -> Iterator[Finding]:
    scaling, (least, most) = settings.server.scaling, _start_minutes(settings)
    if window.start_minute >= window.end_minute:
        yield _problem(
            "scaling-window-backwards",
            f"{path}.end",
            window.end,
            allowed=f"later than its start, {window.start}",
            why="a window ends on the day it begins",
            write='start: "00:00" and end: "24:00" for whole days'
            if window.start_minute == window.end_minute
            else f'two windows, until "24:00" and from "00:00" of the next day, or end: "{window.start}" with start: "{window.end}"',
        )
    elif window.end_minute - window.start_minute < most:
        yield _problem(
            "scaling-window-short",
            path,
            f"{window.start} to {window.end}",
            allowed=f"{most} min or more",
            why=f"a server takes {least} to {most} min to start, and its node idles for ten before its removal: "
            "most of the cost would be outside the window",
            write=f'end: "{_clock(min(window.start_minute + 60, 24 * 60))}"',
            severity="warning",
        )
    if not scaling.min < window.replicas <= scaling.max:
        yield _problem(
            "scaling-window-replicas",
            f"{path}.replicas",
            window.replicas,
            allowed=f"more than min ({scaling.min}), up to max ({scaling.max})",
            why="a window's number up to min has no effect, and the autoscaler never exceeds max",
            write=f"replicas: {min(max(window.replicas, scaling.min + 1), max(1, scaling.max))}, or other bounds",
        )


def _surroundings(settings: Settings) -> Iterator[Finding]:
    scaling, capacity = settings.server.scaling, settings.capacity
    if scaling.mode == "load" and not settings.monitoring.enabled:
        yield Finding(
            id="scaling-without-metrics",
            subject=key("monitoring.enabled"),
            found=False,
            allowed="true with server.scaling.mode load",
            why="the autoscaler reads the servers' metrics from managed Prometheus, which would not scrape them",
            write="monitoring: {enabled: true}, or scaling: {mode: schedule}",
        )
    if settings.owns_platform and settings.scales_by_keda and settings.cluster.keda is False:
        yield Finding(
            id="scaling-without-keda",
            subject=key("cluster.keda"),
            found=False,
            allowed="true, or left out, with server.scaling",
            why="without KEDA the ScaledObject has no effect",
            write="remove keda",
        )
    if settings.platform.kubeconfig is not None and settings.scales_by_keda:
        yield _problem(
            "platform-needs-keda",
            "mode",
            settings.server.scaling.mode,
            allowed="any, if the cluster has KEDA",
            why="this stack adds a ScaledObject and no operator: the platform provides KEDA and its permission to read metrics",
            write="nothing, if `kubectl get crd scaledobjects.keda.sh` finds it and keda/keda-operator has roles/monitoring.viewer",
            severity="note",
        )
    if isinstance(capacity, Reservation | Calendar):
        yield _problem(
            "scaling-saves-nothing",
            "mode",
            scaling.mode,
            allowed="any; on reserved capacity it frees nodes but saves no money",
            why="a reservation is billed whether its nodes run or not",
            write="capacity: {mode: ladder}, with a reservation for the minimum number of servers and hourly nodes for the rest",
            severity="note",
        )
    if settings.benchmark.enabled and scaling.mode != "batch":
        yield Finding(
            id="scaling-while-measuring",
            subject=key("benchmark.enabled"),
            found=True,
            allowed="true; best without server.scaling",
            why="the benchmark's load makes the autoscaler add servers during the measurement, so its figures fit no fixed fleet size",
            write="benchmark: {enabled: false}, or a stack with fixed replicas for the measurement",
            severity="warning",
        )


def _by_batch(settings: Settings) -> Iterator[Finding]:
    scaling = settings.server.scaling
    if not settings.batch.enabled:
        yield Finding(
            id="scaling-without-batch",
            subject=key("batch.enabled"),
            found=False,
            allowed="true with server.scaling.mode batch",
            why="only the client pods of `fleet batch run` ask for servers, and without the section it has no bucket",
            write="batch: {enabled: true}, or scaling: {mode: schedule} or {mode: load}",
        )
    if scaling.min:
        yield _problem(
            "scaling-batch-min",
            "min",
            scaling.min,
            allowed="0, the default with mode: batch",
            why="between batches no server runs; a minimum would be billed without work",
            write="remove min; or mode: load, which keeps a minimum",
        )
    for name, field, other in (
        ("windows", "windows", "schedule"),
        ("targetInFlight", "target_in_flight", "load"),
        ("leadMinutes", "lead_minutes", "load"),
        ("timezone", "timezone", "schedule"),
    ):
        if field in scaling.model_fields_set:
            yield _problem(
                "scaling-batch-alone",
                name,
                "given",
                allowed="left out with mode: batch",
                why="the batch alone decides: `fleet batch run` plans the servers that deadline and maxUsd need",
                write=f"remove {name}; or mode: {other}",
            )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _problem(
    id_: str, path: str, value: object, *, allowed: str, why: str, write: str, severity: Severity = "error"
) -> Finding:
    where = key(f"server.scaling.{path}")
    return Finding(id=id_, subject=where, found=value, allowed=allowed, why=why, write=write, severity=severity)
