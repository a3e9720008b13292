"""Load and clock move the number of servers: the real HPA controller, below a stand-in for KEDA that follows KEDA's source."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fleet.rehearse.api import DEPLOYMENT
from fleet.rehearse.drills.conditions import all_of
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.drills.requests import requests_during
from fleet.rehearse.simulation.keda.in_flight import LAG_SECONDS
from fleet.rehearse.simulation.keda.operator import A_MONDAY
from fleet.report.words import plural
from settings.derived.scaling import DAY_MINUTES, GROWTH_DURING_LEAD, WEEK_MINUTES, ScalingPolicy, scaling_policy

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage
    from settings.stack import Settings

STEP_SECONDS = 60.0
"""Load grows in steps of so long."""
SEEN_SECONDS = 4 * LAG_SECONDS
"""After so long the autoscaler acts on what is so now. Assumed: twice the lag, and as much for a busy machine."""


def by_keda(settings: Settings) -> str:
    """Only where KEDA says how many servers there are."""
    return "" if settings.scales_by_keda else "no KEDA scales this stack's servers"


def by_load(settings: Settings) -> str:
    """Only where there is room between the bounds for load to move the number."""
    policy = scaling_policy(settings)
    if policy is None or policy.target_in_flight is None or policy.paused:
        return "load does not say how many servers this stack runs"
    return "" if policy.max > policy.min else "the least and the most servers are the same"


def has_windows(settings: Settings) -> str:
    """Only where a clock has a say."""
    policy = scaling_policy(settings)
    return "" if policy and policy.windows and not policy.paused else "server.scaling has no windows"


def policy_of(stage: Stage) -> tuple[ScalingPolicy, int]:
    """The stack's policy and its target in flight per server."""
    policy = scaling_policy(stage.settings)
    assert policy is not None, "the drill is skipped without one"
    return policy, policy.target_in_flight or 0


def _asked(stage: Stage) -> int:
    found = stage.api.get(DEPLOYMENT, stage.server, stage.namespace)
    return int(found["spec"].get("replicas", 1)) if found else 0


def moment_of(policy: ScalingPolicy, week_minute: int) -> datetime:
    """A moment of the week, from now on, in the policy's time zone."""
    here = A_MONDAY.astimezone(ZoneInfo(policy.timezone)).replace(hour=0, minute=0)
    return here + timedelta(minutes=(week_minute - here.weekday() * DAY_MINUTES) % WEEK_MINUTES)


def _quiet(policy: ScalingPolicy, hours: int = 8) -> datetime:
    """When the floor is lowest for some hours, so that load alone holds servers."""
    floors = [
        max(policy.floor(minute + 60 * hour) for hour in range(hours + 1)) for minute in range(0, WEEK_MINUTES, 60)
    ]
    return moment_of(policy, 60 * floors.index(min(floors)))


def _scale_up_in_time(stage: Stage, proof: Proof) -> None:
    policy, target = policy_of(stage)
    servers, keda = stage.servers, stage.keda
    keda.in_flight.offer(servers * target)
    before, began = _asked(stage), stage.clock.now_seconds()
    wanted = min(policy.max, ceil(servers * GROWTH_DURING_LEAD))
    steps = int(policy.lead_seconds / STEP_SECONDS)
    kept = True
    for step in range(1, steps + 1):
        keda.in_flight.offer(servers * target * (1 + (GROWTH_DURING_LEAD - 1) * step / steps))
        stage.clock.sleep(STEP_SECONDS)
        if step == steps // 2:
            asked = _asked(stage)
            report = stage.up()
            kept = not (report.failed or report.updated) and _asked(stage) >= asked
    ready = stage.until_ready(wanted)
    late = keda.in_flight.delayed_share(began)
    proof.check(f"{plural(servers, 'server')} at rest", before == servers, f"{before} asked for")
    proof.check("pulumi up in the middle changes nothing", kept, f"{_asked(stage)} asked for afterwards")
    proof.check(
        f"no request waits while load grows {GROWTH_DURING_LEAD}-fold within {policy.lead_seconds // 60} minutes",
        late == 0,
        f"{late:.1%} of the requests waited for a server",
    )
    asked_at = stage.meter.servers.first_at(servers + 1, began) or began
    proof.figure("first server asked for after", round((asked_at - began) / 60, 1), "min", "of growing load")
    proof.figure(f"all {wanted} Ready after", round((ready - began) / 60, 1), "min")
    keda.in_flight.offer(2 * policy.max * target)
    stage.until(f"{policy.max} servers", lambda: stage.meter.servers.now >= policy.max, SEEN_SECONDS + 600)
    stage.scale(policy.max + 1)
    stage.until("the maximum", lambda: _asked(stage) == policy.max, SEEN_SECONDS)
    most, gpus = stage.meter.servers.highest(began), stage.settings.gpu_ceiling
    proof.check(
        f"never more than {policy.max} servers, whatever is asked for",
        most == policy.max,
        f"{most} at most; the GPU quota allows {gpus}",
    )


def _stock_out(stage: Stage, proof: Proof) -> None:
    _, target = policy_of(stage)
    servers, stock, began = stage.servers, stage.stock, stage.clock.now_seconds()
    machines = stage.machines_for(servers)
    held = stock.reservations
    stock.spot_nodes = stock.flex_start_nodes = stock.on_demand_nodes = 0 if held else machines
    for name, one in held.items():
        stock.reserve(name, nodes=machines, zone=one.zone, project=one.project)
    stage.keda.in_flight.offer((machines * stage.servers_a_machine + 0.5) * target)
    pending = stage.until(
        "a server without a machine",
        lambda: next((pod for pod in stage.pods() if stage.provisioner.why_pending(pod)), None),
        SEEN_SECONDS + 900,
    )
    trouble = stage.provisioner.why_pending(pending)
    report = stage.up()
    proof.check("the server waits and says why", trouble is not None, trouble.message if trouble else "")
    proof.check(
        "pulumi up does not wait for it",
        not (report.failed or report.updated),
        "; ".join(report.failed.values()) or "unchanged",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("the others go on", lowest >= servers, f"at worst {lowest} Ready")
    for name, one in held.items():
        stock.reserve(name, nodes=one.nodes, zone=one.zone, project=one.project)
    stock.spot_nodes = stock.flex_start_nodes = stock.on_demand_nodes = None
    done = stage.until_ready(_asked(stage))
    proof.figure("Ready after the load", round((done - began) / 60, 1), "min", "machines were there again in between")


def _at_night(stage: Stage) -> tuple[ScalingPolicy, int, int]:
    """Some servers more than the minimum, and load alone holds them: policy, target, servers."""
    policy, target = policy_of(stage)
    stage.keda.begin_anew(_quiet(policy))
    busy = min(policy.max, stage.servers + 2)
    # Servers first: load that finds too few of them queues while more start, and the queue asks for the maximum.
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
    # Longer than the window in which the HPA still remembers the load: a zero would show by now.
    stage.clock.sleep(policy.down_window_seconds + SEEN_SECONDS)
    stage.keda.in_flight.outage = "no answer"
    stage.clock.sleep(SEEN_SECONDS)
    lowest = stage.meter.servers.lowest(began)
    proof.check(
        f"without metrics for {round((stage.clock.now_seconds() - began) / 60)} minutes no server goes",
        lowest == busy,
        f"{lowest} of {busy} at least",
    )
    stage.keda.in_flight.outage = ""
    stage.until("metrics again", lambda: not stage.keda.falls_back(), SEEN_SECONDS)
    proof.check("afterwards load decides again", _asked(stage) == busy, f"{_asked(stage)} asked for")
    proof.figure("the number is held after", round(after / 60, 1), "min", "ScaledObject's condition Fallback")


def _scale_in_slow(stage: Stage, proof: Proof) -> None:
    policy, target, busy = _at_night(stage)
    least = stage.servers
    with requests_during(stage, proof) as requests:
        began = stage.clock.now_seconds()
        stage.keda.in_flight.offer(least * target / 2)
        allowance = policy.down_window_seconds + (busy - least + 1) * policy.down_period_seconds
        stage.until(f"{least} servers", lambda: stage.meter.servers.now <= least, allowance)
    steps = [(at, number) for at, number in stage.meter.servers.steps if at >= began]
    numbers = [busy, *(number for _, number in steps)]
    gaps = [later - at for (at, _), (later, _) in pairwise(steps)]
    proof.check(
        f"no server goes before {policy.down_window_seconds // 60} quiet minutes are over",
        steps[0][0] - began >= policy.down_window_seconds,
        f"the first after {(steps[0][0] - began) / 60:.0f} min",
    )
    proof.check(
        f"then {policy.down_pods_per_period} at a time, {policy.down_period_seconds // 60} minutes apart",
        all(a - b <= policy.down_pods_per_period for a, b in pairwise(numbers))
        and all(gap >= policy.down_period_seconds * 0.9 for gap in gaps),
        ", ".join(str(number) for number in numbers)
        + "; apart "
        + (", ".join(f"{gap / 60:.0f} min" for gap in gaps) or "once"),
    )
    report = requests.report
    assert report is not None
    proof.check(
        "repeated once, no request is lost",
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
    stage.until(f"{before} servers", lambda: stage.meter.servers.now == before, 300)
    floor = policy.floor(window.days[0] * DAY_MINUTES + window.start_minute)
    stage.until("the window", lambda: stage.keda.now >= opens, 900)
    early = stage.meter.servers.now
    stage.until(f"{floor} Ready servers", lambda: stage.meter.ready_servers.now >= floor, 60.0 * policy.early_minutes)
    spare = (begins - stage.keda.now).total_seconds() / 60
    proof.check("nothing is asked for before", early <= before, f"{early} servers, {before} before the window")
    proof.check(f"{floor} servers are Ready when callers come", spare >= 0, f"{spare:.0f} min before")
    proof.figure("Ready ahead of callers", round(spare), "min", f"asked for {policy.early_minutes} min ahead")


DRILLS = (
    Drill(
        name="scale-up-in-time",
        title="Load grows faster than a server starts",
        proves="servers are Ready before requests wait, a pulumi up meanwhile resets nothing, and the maximum holds",
        play=_scale_up_in_time,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="scale-up-stock-out",
        title="Load grows and there are no more machines",
        proves="a server without a machine waits without harm, and starts when there is one",
        play=_stock_out,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="metrics-outage",
        title="The autoscaler's metrics are gone for an hour",
        proves="the fallback never drops a fleet",
        play=_metrics_outage,
        fast=False,
        alerts=("ScalingBlind",),
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="scale-in-slow",
        title="The load is over",
        proves="servers go one at a time, long after the load; repeated once, no request is lost",
        play=_scale_in_slow,
        fast=False,
        skip=all_of(by_keda, by_load),
    ),
    Drill(
        name="schedule",
        title="A window of the day begins",
        proves="its servers are asked for early enough to be Ready when callers come",
        play=_schedule,
        fast=False,
        skip=all_of(by_keda, has_windows),
    ),
)
