"""Effect of a change on a running fleet: counts, and headline sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from facts.texts import plural
from fleet.preview.compare.changes import BlastRadius, Changes, Danger, Delta
from fleet.preview.compare.dangers import ENDS, dangers
from fleet.preview.compare.gpu_pods import GpuPods, gpu_pods, reserves_first
from fleet.preview.compare.restarts import MINUTES_TO_LOAD, MINUTES_TO_PROVISION, Restart, restart_of
from fleet.preview.compare.wording import format_after, format_before, format_difference
from fleet.preview.record.recording import RecordedResource


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The blast radius as counts, headline and dangers."""

    radius: BlastRadius
    effects: tuple[str, ...]
    price: tuple[str, ...]
    dangers: tuple[Danger, ...]


def measure(changes: Changes, old: Sequence[RecordedResource], new: Sequence[RecordedResource]) -> Measured:
    """Effect of `changes.resources` on what `old` runs."""
    before = {pod.urn: pod for pod in gpu_pods(old)}
    after = {pod.urn: pod for pod in gpu_pods(new)}
    fates = {resource.urn: resource for resource in changes.resources if resource.operation != "delete"}
    gone = [resource for resource in changes.resources if resource.operation in ENDS and resource.custom]
    restarts = [
        restart
        for urn, pods in after.items()
        if (was := before.get(fates[urn].old_urn)) is not None
        and (restart := restart_of(was, pods, fates[urn], gone, old)) is not None
    ]
    kept = {fates[urn].old_urn for urn in after}
    removed = sum(one.counted for urn, one in before.items() if urn not in kept)
    added = 0
    for urn, pods in after.items():
        was = before.get(fates[urn].old_urn)
        difference = pods.counted - (was.counted if was else 0)
        added, removed = added + max(difference, 0), removed + max(-difference, 0)
    radius = _radius(restarts, added, removed)
    return Measured(
        radius=radius,
        effects=(
            *_effects(changes, radius, restarts, before, after),
            *(
                _format_streams(was, pods)
                for urn, pods in after.items()
                if (was := before.get(fates[urn].old_urn)) and was.stream_seconds != pods.stream_seconds
            ),
        ),
        price=tuple(_price(changes, stays_billed=bool(removed) and reserves_first(new))),
        dangers=tuple(dangers(changes, restarts, before, after, fates)),
    )


def _radius(restarts: Sequence[Restart], added: int, removed: int) -> BlastRadius:
    minutes = max((restart.minutes for restart in restarts), default=0)
    per_replica = [f"{MINUTES_TO_LOAD} minutes to load the model"]
    if any(restart.new_nodes for restart in restarts):
        per_replica.append(f"{MINUTES_TO_PROVISION} to provision a node if there is capacity")
    return BlastRadius(
        replicas_restarted=sum(restart.replicas for restart in restarts),
        replicas_removed=removed,
        replicas_added=added,
        gpus_restarted=sum(restart.gpus for restart in restarts),
        minutes_of_reduced_capacity=minutes,
        assumption=f"each replica needs {' and '.join(per_replica)} (the article's times for A4)" if minutes else "",
    )


def _effects(
    changes: Changes,
    radius: BlastRadius,
    restarts: Sequence[Restart],
    before: Mapping[str, GpuPods],
    after: Mapping[str, GpuPods],
) -> Iterator[str]:
    if not changes.pending:
        yield "No resource changes"
        return
    if not any(resource.old_urn for resource in changes.resources):
        yield f"Everything is new: {plural(len(changes.resources), 'resource')} to create"
    for restart in restarts:
        yield _format_restart(restart)
    if radius.replicas_removed and not any(one.counted for one in after.values()):
        yield _format_stop(radius, before)
    elif before:
        yield from _format_replicas(radius, before)
    if before and not restarts and not radius.replicas_removed:
        yield "No serving replica restarts"


def _price(changes: Changes, *, stays_billed: bool) -> Iterator[str]:
    money = next((one for one in changes.deltas if one.id == "usd-per-hour"), None)
    if changes.pending and money is not None and money.changed:
        billed = "; the ComputeClass's reservation stays billed and is not in the sum" if stays_billed else ""
        yield f"{_format_money(money)}{billed}"


def _format_restart(one: Restart) -> str:
    verb = "may restart" if one.maybe else "restart"
    if one.replicas == 1:
        verb += "" if one.maybe else "s"
        how = f"the only replica of {one.name} {verb}: no service for about {one.minutes:.0f} minutes"
    elif one.at_once:
        how = (
            f"all {one.replicas} replicas of {one.name} {verb} together: no service for about {one.minutes:.0f} minutes"
        )
    elif not one.at_a_time:
        how = f"{one.replicas} replicas of {one.name} {verb}, each after its successor is ready"
    else:
        pace = "one by one" if one.at_a_time == 1 else f"{one.at_a_time} at a time"
        left = one.replicas - one.at_a_time
        how = (
            f"{one.replicas} replicas of {one.name} {verb} {pace}: about {one.minutes:.0f} minutes with {left} of "
            f"{one.replicas} serving"
        )
    return f"{plural(one.gpus, 'GPU')}, {how}"


def _format_streams(was: GpuPods, pods: GpuPods) -> str:
    now = f"; at this update for {was.stream_seconds:g} s" if was.counted else ""
    return (
        f"Open streams of {pods.name} go on for {pods.stream_seconds:g} s instead of {was.stream_seconds:g} s at later updates, "
        f"scale-ins and drained nodes{now}"
    )


def _format_stop(radius: BlastRadius, before: Mapping[str, GpuPods]) -> str:
    most = "up to " if any(one.replicas is None for one in before.values()) else ""
    gpus = sum(one.gpus for one in before.values())
    return f"Every replica stops: {most}{plural(radius.replicas_removed, 'replica')} ({plural(gpus, 'GPU')})"


def _format_replicas(radius: BlastRadius, before: Mapping[str, GpuPods]) -> Iterator[str]:
    gpus = max((one.gpus_per_replica for one in before.values()), default=0)
    for number, word in ((radius.replicas_removed, "fewer"), (radius.replicas_added, "more")):
        if number:
            yield f"{plural(number, f'{word} replica')} ({plural(number * gpus, 'GPU')})"


def _format_money(money: Delta) -> str:
    """Price before and after, USD an hour."""
    if money.difference is None:
        return f"{format_before(money)} an hour becomes {format_after(money)}"
    bound = " in known prices" if money.before_at_least or money.after_at_least else ""
    change = format_difference(money, per_cent=False)
    return f"{format_before(money)} an hour becomes {format_after(money)} ({change}{bound})"
