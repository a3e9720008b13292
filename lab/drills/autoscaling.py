"""Autoscaling by load and schedule: the real HPA controller, with a simulated KEDA that follows KEDA's source."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from facts.texts import plural
from lab.cloud.keda.in_flight import LAG_SECONDS
from lab.cloud.keda.operator import A_MONDAY
from lab.control_plane.api import DEPLOYMENT
from lab.drills.conditions import all_of
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during
from settings.derived.scaling import DAY_MINUTES, GROWTH_DURING_LEAD, WEEK_MINUTES, ScalingPolicy, scaling_policy

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from settings.stack import Settings

STEP_SECONDS = 60.0
"""Interval between steps of growing load."""
_END_SECONDS = 900.0
"""Longest end of a replica, with its grace period of up to 600 s."""
SEEN_SECONDS = 4 * LAG_SECONDS
"""Time until the autoscaler acts on the current load. Assumed: twice the lag, doubled for a busy machine."""


def by_keda(settings: Settings) -> str:
    """Only where KEDA scales the replicas."""
    return "" if settings.scales_by_keda else "the stack does not scale with KEDA"


def by_load(settings: Settings) -> str:
    """Only where load scales the replicas between different bounds."""
    policy = scaling_policy(settings)
    if policy is None or policy.target_in_flight is None or policy.paused:
        return "the stack does not scale by load"
    return "" if policy.max > policy.min else "server.scaling.min and max are equal"


def has_windows(settings: Settings) -> str:
    """Only where a schedule scales the replicas."""
    policy = scaling_policy(settings)
    return "" if policy and policy.windows and not policy.paused else "server.scaling has no windows"


def policy_of(stage: Stage) -> tuple[ScalingPolicy, int]:
    """The stack's scaling policy and its target of requests in flight per replica."""
    policy = scaling_policy(stage.settings)
    assert policy is not None, "the drill is skipped without one"
    return policy, policy.target_in_flight or 0


def _desired(stage: Stage) -> int:
    found = stage.api.get(DEPLOYMENT, stage.server, stage.namespace)
    return int(found["spec"].get("replicas", 1)) if found else 0


def moment_of(policy: ScalingPolicy, week_minute: int) -> datetime:
    """The next occurrence of a minute of the week, in the policy's time zone."""
    here = A_MONDAY.astimezone(ZoneInfo(policy.timezone)).replace(hour=0, minute=0)
    return here + timedelta(minutes=(week_minute - here.weekday() * DAY_MINUTES) % WEEK_MINUTES)


def _quiet(policy: ScalingPolicy, hours: int = 8) -> datetime:
    """When the schedule's minimum is lowest for some hours, so that only load keeps replicas."""
    floors = [
        max(policy.floor(minute + 60 * hour) for hour in range(hours + 1)) for minute in range(0, WEEK_MINUTES, 60)
    ]
    return moment_of(policy, 60 * floors.index(min(floors)))


def _scale_up_in_time(stage: Stage, proof: Proof) -> None:
    policy, target = policy_of(stage)
    servers, keda = stage.servers, stage.keda
    keda.in_flight.offer(servers * target)
    before, began = _desired(stage), stage.clock.now_seconds()
    wanted = min(policy.max, ceil(servers * GROWTH_DURING_LEAD))
    steps = int(policy.lead_seconds / STEP_SECONDS)
    with stage.up_in_background() as running:
        for step in range(1, steps + 1):
            keda.in_flight.offer(servers * target * (1 + (GROWTH_DURING_LEAD - 1) * step / steps))
            stage.clock.sleep(STEP_SECONDS)
        ready = stage.until_ready(wanted)
        report = running.result()
    kept = not (report.failed or report.updated) and _desired(stage) >= wanted
    late = keda.in_flight.delayed_share(began)
    proof.check(f"{plural(servers, 'replica')} before the load grows", before == servers, f"{before} desired")
    proof.check("pulumi up meanwhile changes nothing", kept, f"{_desired(stage)} desired afterwards")
    proof.check(
        f"no request waits while load grows by {GROWTH_DURING_LEAD} times in {policy.lead_seconds // 60} minutes",
        late == 0,
        f"{late:.1%} of requests waited for a replica",
    )
    asked_at = stage.meter.servers.first_at(servers + 1, began) or began
    proof.figure("scale-up starts after", round((asked_at - began) / 60, 1), "min", "of growing load")
    proof.figure(f"all {wanted} Ready after", round((ready - began) / 60, 1), "min")
    keda.in_flight.offer(2 * policy.max * target)
    stage.until(f"{policy.max} replicas", lambda: stage.meter.servers.now >= policy.max, SEEN_SECONDS + 600)
    stage.scale(policy.max + 1)
    stage.until("the maximum", lambda: _desired(stage) == policy.max, SEEN_SECONDS)
    most, gpus = stage.meter.servers.highest(began), stage.settings.gpu_ceiling
    proof.check(
        f"never more than {policy.max} replicas, at any load",
        most == policy.max,
        f"at most {most}; the quota allows {gpus} GPUs",
    )


def _stock_out(stage: Stage, proof: Proof) -> None:
    _, target = policy_of(stage)
    servers, stock, began = stage.servers, stage.stock, stage.clock.now_seconds()
    machines = stage.machines_for(servers)
    held = stock.reservations
    stock.spot_nodes = stock.flex_start_nodes = stock.on_demand_nodes = 0 if held else machines
    for name in held:
        stock.resize(name, machines)
    stage.keda.in_flight.offer((machines * stage.servers_a_machine + 0.5) * target)
    pending = stage.until(
        "a replica without a node",
        lambda: next((pod for pod in stage.pods() if stage.provisioner.why_pending(pod)), None),
        SEEN_SECONDS + 900,
    )
    trouble = stage.provisioner.why_pending(pending)
    report = stage.up()
    proof.check("the replica waits and reports why", trouble is not None, trouble.message if trouble else "")
    proof.check(
        "pulumi up does not wait for it",
        not (report.failed or report.updated),
        "; ".join(report.failed.values()) or "unchanged",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("the others stay Ready", lowest >= servers, f"at least {lowest} Ready")
    for name, reservation in held.items():
        stock.resize(name, reservation.nodes)
    stock.spot_nodes = stock.flex_start_nodes = stock.on_demand_nodes = None
    done = stage.until_ready(_desired(stage))
    proof.figure("Ready after the load", round((done - began) / 60, 1), "min", "capacity returned in between")


def _at_night(stage: Stage) -> tuple[ScalingPolicy, int, int]:
    """Start with more replicas than the minimum, kept by load alone; returns policy, target and replicas."""
    policy, target = policy_of(stage)
    stage.keda.restart_at(_quiet(policy))
    busy = min(policy.max, stage.servers + 2)
    # Replicas first: load above their capacity would queue while more start, and the queue would scale to the maximum.
    stage.scale(busy)
    stage.until_ready(busy)
    stage.keda.in_flight.offer(busy * target)
    stage.clock.sleep(SEEN_SECONDS)
    return policy, target, busy


def _metrics_outage(stage: Stage, proof: Proof) -> None:
    policy, _, busy = _at_night(stage)
    began = stage.clock.now_seconds()
    stage.keda.in_flight.outage = "no samples"
    stage.until("the fallback", lambda: stage.keda.falls_back(), SEEN_SECONDS)
    after = stage.clock.now_seconds() - began
    # Longer than the HPA's scale-down window: a metric of zero would show by now.
    stage.clock.sleep(policy.down_window_seconds + SEEN_SECONDS)
    stage.keda.in_flight.outage = "no answer"
    stage.clock.sleep(SEEN_SECONDS)
    lowest = stage.meter.servers.lowest(began)
    proof.check(
        f"no replica is removed in {round((stage.clock.now_seconds() - began) / 60)} minutes without metrics",
        lowest == busy,
        f"at least {lowest} of {busy}",
    )
    stage.keda.in_flight.outage = ""
    stage.until("metrics again", lambda: not stage.keda.falls_back(), SEEN_SECONDS)
    proof.check("afterwards load scales again", _desired(stage) == busy, f"{_desired(stage)} desired")
    proof.figure("fallback active after", round(after / 60, 1), "min", "the ScaledObject's condition Fallback")


def _resume(stage: Stage, proof: Proof) -> None:
    report = stage.up({"server": {"replicas": 0}, "benchmark": {"enabled": False}})
    proof.succeeds("pulumi up with zero replicas succeeds", report)
    stage.until("every replica to go", lambda: stage.meter.servers.now == 0, 1800)
    stage.until_empty()
    before = len(stage.keda.suppressed)
    report = stage.up()
    proof.succeeds("pulumi up without them succeeds", report)
    ready = stage.until_ready(stage.servers)
    told = len(stage.keda.suppressed) - before
    proof.check("KEDA logs its fallback while the first replica starts", told > 1, plural(told, "entry", "entries"))
    proof.figure("Ready again after", round((ready - report.began_seconds) / 60, 1), "min")


def _scale_in_slow(stage: Stage, proof: Proof) -> None:
    policy, target, busy = _at_night(stage)
    least = stage.servers
    with requests_during(stage, proof, planned=True) as requests:
        began = stage.clock.now_seconds()
        stage.keda.in_flight.offer(least * target / 2)
        allowance = policy.down_window_seconds + (busy - least + 1) * policy.down_period_seconds
        stage.until(f"{least} replicas", lambda: stage.meter.servers.now <= least, allowance)
        stage.until("the removed replicas to end", lambda: len(stage.pods()) <= least, _END_SECONDS)
    steps = [(at, number) for at, number in stage.meter.servers.steps if at >= began]
    numbers = [busy, *(number for _, number in steps)]
    gaps = [later - at for (at, _), (later, _) in pairwise(steps)]
    proof.check(
        f"no replica is removed in the first {policy.down_window_seconds // 60} quiet minutes",
        steps[0][0] - began >= policy.down_window_seconds,
        f"first after {(steps[0][0] - began) / 60:.0f} min",
    )
    proof.check(
        f"then {policy.down_pods_per_period} at a time, {policy.down_period_seconds // 60} minutes apart",
        all(a - b <= policy.down_pods_per_period for a, b in pairwise(numbers))
        and all(gap >= policy.down_period_seconds * 0.9 for gap in gaps),
        ", ".join(str(number) for number in numbers)
        + "; intervals "
        + (", ".join(f"{gap / 60:.0f} min" for gap in gaps) or "none"),
    )
    report = requests.report
    assert report is not None
    proof.check(
        "no request is lost after one retry",
        report.lost_after_retry == 0,
        f"{report.lost_after_retry} of {report.sent} lost",
    )


def _schedule(stage: Stage, proof: Proof) -> None:
    policy, _ = policy_of(stage)
    window = max(policy.windows, key=lambda one: one.replicas)
    begins = moment_of(policy, window.days[0] * DAY_MINUTES + window.start_minute)
    opens = begins - timedelta(minutes=policy.early_minutes)
    stage.rest(opens - timedelta(minutes=8))
    before = stage.servers
    stage.until(f"{before} replicas", lambda: stage.meter.servers.now == before, 300)
    floor = policy.floor(window.days[0] * DAY_MINUTES + window.start_minute)
    stage.until("the window", lambda: stage.keda.now >= opens, 900)
    opened = stage.clock.now_seconds() - (stage.keda.now - opens).total_seconds()
    stage.until(f"{floor} Ready replicas", lambda: stage.meter.ready_servers.now >= floor, 60.0 * policy.early_minutes)
    # As the meter saw them: a busy machine looks late.
    early = stage.meter.servers.at(opened)
    ready = stage.meter.ready_servers.first_at(floor, opened) or stage.clock.now_seconds()
    spare = policy.early_minutes - (ready - opened) / 60
    proof.check("no earlier scale-up", early <= before, f"{early} replicas, {before} before the window")
    proof.check(f"{floor} replicas are Ready when the window begins", spare >= 0, f"{spare:.0f} min before")
    proof.figure("Ready before the window", round(spare), "min", f"scale-up starts {policy.early_minutes} min before")


DRILLS = (
    Drill(
        name="scale-up-in-time",
        title="Load grows while replicas start",
        proves="replicas are Ready before requests wait, pulumi up does not reset the number, and the maximum holds",
        play=_scale_up_in_time,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="scale-up-stock-out",
        title="Load grows and capacity runs out",
        proves="a replica without a node does not affect the others, and starts when there is capacity",
        play=_stock_out,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="metrics-outage",
        title="No autoscaler metrics for an hour",
        proves="the fallback keeps every replica",
        play=_metrics_outage,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="scaled-resume",
        title="A fleet that scales by load is paused and resumed",
        proves="pulumi up pauses and resumes it, and KEDA holds its fallback until a replica serves",
        play=_resume,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="scale-in-slow",
        title="Load ends",
        proves="replicas are removed one at a time, after the scale-down window, and no stream is cut",
        play=_scale_in_slow,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="schedule",
        title="A scheduled window begins",
        proves="scale-up starts early enough for replicas to be Ready when the window begins",
        play=_schedule,
        fast=False,
        skip=all_of(by_keda, has_windows),
    ),
)
