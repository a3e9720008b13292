"""Autoscaling by load and schedule: the real HPA controller, with a simulated KEDA that follows KEDA's source."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from facts.texts import plural
from lab.cloud.keda.in_flight import LAG_SECONDS
from lab.cloud.keda.operator import A_MONDAY
from lab.control_plane.api import DEPLOYMENT
from lab.drills.conditions import all_of
from lab.drills.drill import Drill, Proof
from settings.derived.scaling import DAY_MINUTES, GROWTH_DURING_LEAD, WEEK_MINUTES, ScalingPolicy, scaling_policy

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from settings.stack import Settings

STEP_SECONDS = 60.0
"""Interval between steps of growing load."""
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


def _schedule(stage: Stage, proof: Proof) -> None:
    policy, _ = policy_of(stage)
    window = max(policy.windows, key=lambda one: one.replicas)
    begins = moment_of(policy, window.days[0] * DAY_MINUTES + window.start_minute)
    opens = begins - timedelta(minutes=policy.early_minutes)
    floor = policy.floor(window.days[0] * DAY_MINUTES + window.start_minute)
    stage.rest(opens - timedelta(minutes=8))
    before = stage.servers
    stage.until_ready(before)
    stage.keda.run_calendar()
    first, asked = (_asked_at(stage, servers, 120.0 * policy.early_minutes) for servers in (before + 1, floor))
    stage.until_ready(floor)
    # By calendar and timings: what Kubernetes' controllers add on a busy machine is none of the stack's.
    spare = ((begins - asked).total_seconds() - stage.timings.whole_start_seconds) / 60
    proof.check(
        "no earlier scale-up", first >= opens, f"{(first - opens).total_seconds() / 60:.0f} min after it is due"
    )
    proof.check(f"{floor} replicas are Ready when the window begins", spare >= 0, f"{spare:.0f} min before")
    proof.figure("Ready before the window", round(spare), "min", f"scale-up starts {policy.early_minutes} min before")


def _asked_at(stage: Stage, servers: int, simulated_seconds: float) -> datetime:
    """Date and time at which the autoscaler asks for that many replicas."""
    what = f"the autoscaler to ask for {servers} replicas"
    return stage.until(what, lambda: stage.keda.now if _desired(stage) >= servers else None, simulated_seconds)


DRILLS = (
    Drill(
        name="scale-up-in-time",
        title="Load grows while replicas start",
        proves="replicas are Ready before requests wait, pulumi up does not reset the number, and the maximum holds",
        play=_scale_up_in_time,
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
