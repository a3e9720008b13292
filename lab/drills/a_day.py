"""A working day of a fleet that scales by load: schedule, a Spot preemption, a shortage, a canary, and scale to zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from facts.cost import SECONDS_PER_HOUR
from facts.day import SLOT_SECONDS, load_of_day
from lab.cloud.spot import preempt
from lab.drills.alerts_during import alerts_during
from lab.drills.autoscaling import by_keda, by_load, has_windows, moment_of, policy_of
from lab.drills.conditions import all_of
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during
from lab.drills.spending import USD, state_of
from lab.results.result import Curve, Day, DrillBrokenOffError
from lab.results.timeline import Moment
from settings.derived.spending import rates
from settings.sections.rollout import CANARY_ENDING

if TYPE_CHECKING:
    from lab.results.timeline import Lane, Mood
    from lab.stage.meter import Series
    from lab.stage.stage import Stage
    from lab.stage.traffic.outcomes import TrafficReport
    from lab.stage.update_report import UpReport

COMPRESSION: Final = 10.0
"""Speed of the trace's day. Load then grows faster than the target's headroom covers."""
TRACE_DAY: Final = 1
"""Day of the trace `daily`: night, a hump before noon, a dip, one peak, then down."""
HUMP: Final = 43
"""Slot after the trough, at the end of the hump."""
PEAK_SERVERS: Final = 3.9
"""Load at the peak, in replicas at their target: one more than the hump needs."""
SAMPLE_PER_SECOND: Final = 0.4
"""Sampled requests per simulated second. Measured: a quarter of a core at this drill's speed."""
ALERTS_SECONDS: Final = 90.0
"""Between two samples of the alerts. Measured: at 30 s, evaluating a day's rules takes most of a minute."""
BESIDE_SECONDS: Final = 600.0
"""How long the canary serves."""
AFTER_HOURS_SECONDS: Final = 120.0
CANARY: Final = {"engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
COST, NOTICED = "What it cost", "What clients noticed"
SECTIONS: Final[dict[str, Any]] = {
    "capacity": {"mode": "spot", "usdPerNodeHour": USD},
    "server": {
        "scaling": {
            "mode": "load",
            "min": 0,
            "max": 5,
            "leadMinutes": 20,
            "timezone": "Europe/Amsterdam",
            "windows": [{"days": ["MO", "TU", "WE", "TH", "FR"], "start": "08:00", "end": "13:30", "replicas": 2}],
        }
    },
    "spending": {"limit": 1200, "then": "pause", "since": None},
    "benchmark": {"enabled": False},
}


@dataclass
class _Callers:
    """Load from the trace, in replicas; it advances only when the drill calls `advance`."""

    stage: Stage
    shares: tuple[float, ...] = field(default_factory=lambda: trace())
    at: int = 0

    def advance(self, slot: int) -> None:
        """Play the trace up to this slot and wait until it is reached."""
        _, target = policy_of(self.stage)
        clock, every = self.stage.clock, SLOT_SECONDS / COMPRESSION
        began, shares = clock.now_seconds(), self.shares[self.at : slot + 1]
        self.stage.keda.in_flight.plan(
            (began + number * every, share * PEAK_SERVERS * target) for number, share in enumerate(shares)
        )
        over, self.at = began + len(shares) * every, slot
        self.stage.until("the load to reach its level", lambda: clock.now_seconds() >= over, len(shares) * every)

    def wanted(self) -> int:
        """Replicas that the current load needs."""
        return ceil(self.shares[self.at] * PEAK_SERVERS)

    @property
    def peak(self) -> int:
        """Slot of the highest load."""
        return self.shares.index(1.0)


def trace() -> tuple[float, ...]:
    """Load per slot from the day's trough on, as shares of its peak."""
    found = load_of_day("daily", 1.0, first_day=TRACE_DAY, days=1, step_seconds=SLOT_SECONDS).requests_per_s
    trough = found.index(min(found))
    return tuple(one / max(found) for one in (*found[trough:], *found[:trough]))


@dataclass
class _Diary:
    """Moments of the day for the report."""

    stage: Stage
    began: float = 0.0
    opened: float = 0.0
    """When load begins."""
    over: float = 0.0
    """When the last node is gone."""
    moments: list[Moment] = field(default_factory=list)

    def note(
        self,
        lane: Lane,
        subject: str,
        text: str,
        mood: Mood = "plain",
        since: float | None = None,
        until: float | None = None,
    ) -> None:
        """Add a moment to the drill's timeline and to the day's; with `since`, a period until `until` or now."""
        now = self.stage.clock.now_seconds()
        at, end = (now, None) if since is None else (since, now if until is None else until)
        one = Moment(lane=lane, subject=subject, text=text, at_seconds=at, until_seconds=end, mood=mood)
        self.stage.timeline.extend([one])
        self.moments.append(one)


def _play(stage: Stage, proof: Proof) -> None:
    policy, _ = policy_of(stage)
    (window,) = policy.windows
    begins = moment_of(policy, window.start_minute)
    ends = begins + timedelta(minutes=window.end_minute - window.start_minute)
    opens = begins - timedelta(minutes=policy.early_minutes)
    stage.keda.restart_at(begins - timedelta(hours=6))
    stage.bring_up()
    stage.until_empty()
    stage.rest(opens - timedelta(minutes=10))
    diary = _Diary(stage, began=stage.clock.now_seconds())
    first, callers = stage.until("the guard's first count", lambda: state_of(stage), 600), _Callers(stage)
    with alerts_during(stage, A_DAY, proof, every_seconds=ALERTS_SECONDS):
        _morning(stage, proof, diary, opens, begins)
        with requests_during(stage, Proof(), rate_per_second=SAMPLE_PER_SECOND) as requests:
            callers.advance(HUMP)
            stage.until_ready(callers.wanted())
            _spot_loss(stage, proof, diary)
            with stage.ready_up({"rollout": {"canary": CANARY}}) as start_canary:
                _stock_out(stage, proof, diary, callers)
                _canary(stage, proof, diary, start_canary)
            _evening(stage, proof, diary, callers)
            if stage.keda.now >= ends:
                raise DrillBrokenOffError(
                    "this machine is too slow for the drill's speed: the window ended before load had fallen"
                )
        waited = stage.keda.in_flight.delayed_share(diary.opened)
        after = _zero(stage, proof, diary, ends)
        diary.over = stage.clock.now_seconds()
        counted = (state_of(stage) or {})["usd"] - first["usd"]
    assert requests.report is not None
    _cost(stage, proof, diary, counted)
    _noticed(proof, requests.report, after, waited)
    proof.day = _day(stage, diary, opens - timedelta(minutes=10))


def _morning(stage: Stage, proof: Proof, diary: _Diary, opens: datetime, begins: datetime) -> None:
    floor = policy_of(stage)[0].windows[0].replicas
    empty = stage.meter.servers.now
    stage.until("the window", lambda: stage.keda.now >= opens, 900)
    scaled_at = stage.clock.now_seconds()
    stage.until_ready(floor)
    spare = (begins - stage.keda.now).total_seconds() / 60
    diary.note("clock", "window", f"scales to {floor} replicas", "waiting", scaled_at)
    proof.check("no replica runs at night", empty == 0, f"{empty} replicas")
    proof.check(f"{floor} replicas are Ready before the window begins", spare >= 0, f"{spare:.0f} min before")
    stage.until("the window to begin", lambda: stage.keda.now >= begins, 3600)
    diary.opened = stage.clock.now_seconds()


def _spot_loss(stage: Stage, proof: Proof, diary: _Diary) -> None:
    pods, began = stage.ready_pods(), stage.clock.now_seconds()
    victim, node = pods[-1]["metadata"]["name"], pods[-1]["spec"]["nodeName"]
    preempt(stage.world, [node])
    stage.until("the node to be gone", lambda: stage.world.nodes.get(node) is None, 120)
    stage.until_ready(len(pods))
    diary.note("node", "Spot", "a node is preempted, until its replacement is Ready", "bad", began)
    lowest = stage.meter.ready_servers.lowest(began)
    others = victim not in {pod["metadata"]["name"] for pod in stage.ready_pods()}
    statement = f"a Spot preemption takes one of {len(pods)} replicas, and it is replaced"
    proof.check(statement, lowest == len(pods) - 1 and others, f"at least {lowest} Ready")


def _stock_out(stage: Stage, proof: Proof, diary: _Diary, callers: _Callers) -> None:
    servers, began = stage.meter.servers.now, stage.clock.now_seconds()
    stage.stock.spot_nodes = stage.machines_for(servers)
    callers.advance(callers.peak)

    def pending() -> Any:
        found = (pod for pod in stage.pods() if stage.provisioner.why_pending(pod))
        return next(found, None)

    pod = stage.until("a replica without a node", pending, 1800)
    since, trouble = stage.clock.now_seconds(), stage.provisioner.why_pending(pod)
    if proof.watch is not None:
        proof.watch.let_pass("PodLate")
    stage.stock.spot_nodes = None
    diary.note("capacity", "Spot", "no capacity for one more node", "bad", since)
    stage.until_ready(callers.wanted())
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "the replica without a node waits and reports why", trouble is not None, trouble.message if trouble else ""
    )
    proof.check(f"the other {servers} stay Ready", lowest == servers, f"at least {lowest} Ready")


def _canary(stage: Stage, proof: Proof, diary: _Diary, start: Callable[[], UpReport]) -> None:
    began, name = stage.clock.now_seconds(), stage.server + CANARY_ENDING
    servers = {pod["metadata"]["uid"] for pod in stage.ready_pods()}
    came = start()
    with stage.ready_up() as end:
        stage.until("the canary", lambda: stage.ready_pods(name), 2 * stage.timings.whole_start_seconds)
        ready = stage.clock.now_seconds()
        stage.clock.sleep(BESIDE_SECONDS)
        went = end()
    stage.until("the canary to go", lambda: not stage.pods(name), SECONDS_PER_HOUR)
    diary.note("operator", "canary", "starts", "waiting", began, ready)
    diary.note("operator", "canary", "serves, then is removed", "good", ready)
    failed = "; ".join({**came.failed, **went.failed}.values())
    proof.check("pulumi up adds a canary and removes it", not failed, failed or "no failure")
    same = servers == {pod["metadata"]["uid"] for pod in stage.ready_pods()}
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "the canary affects no replica", same and lowest == len(servers), f"{lowest} of {len(servers)} stayed Ready"
    )


def _evening(stage: Stage, proof: Proof, diary: _Diary, callers: _Callers) -> None:
    policy, _ = policy_of(stage)
    began, busy, floor = stage.clock.now_seconds(), stage.meter.servers.now, policy.windows[0].replicas
    callers.advance(len(callers.shares) - 1)
    allowance = policy.down_window_seconds + (busy - floor + 1) * policy.down_period_seconds
    stage.until(f"{floor} replicas", lambda: stage.meter.servers.now <= floor, allowance)
    numbers = [value for _, value in stage.meter.servers.steps[-(busy - floor + 1) :]]
    diary.note("operator", "autoscaler", "removes one replica at a time", "plain", began)
    proof.check(
        "replicas are removed one at a time", numbers == list(range(busy, floor - 1, -1)), ", ".join(map(str, numbers))
    )


def _zero(stage: Stage, proof: Proof, diary: _Diary, ends: datetime) -> TrafficReport:
    """The window ends while clients still send requests."""
    stage.until("the window's end", lambda: stage.keda.now >= ends, 3 * SECONDS_PER_HOUR)
    closed = stage.clock.now_seconds()
    diary.note("clock", "window", f"at least {policy_of(stage)[0].windows[0].replicas} replicas", "good", diary.opened)
    stage.until("the last replica to go", lambda: stage.meter.servers.now == 0, 1800)
    stage.until("no endpoint to remain", lambda: not stage.traffic.endpoints(), 600)
    gone = stage.clock.now_seconds()
    stage.traffic.start(rate_per_second=SAMPLE_PER_SECOND, retry=True)
    stage.clock.sleep(AFTER_HOURS_SECONDS)
    after = stage.traffic.finish()
    diary.note("traffic", "after hours", f"{after.sent} requests, none answered", "bad")
    stage.until_empty()
    diary.note("node", "last node", "removed", "good")
    proof.check(
        "the schedule removes the last replicas",
        stage.meter.servers.now == 0,
        f"{(gone - closed) / 60:.0f} min after its end",
    )
    refused = after.losses_after_retry.get("no endpoint", 0)
    proof.check(
        "requests after the window find no endpoint", refused == after.sent, f"{refused} of {after.sent} requests"
    )
    return after


def _noticed(proof: Proof, report: TrafficReport, after: TrafficReport, waited: float) -> None:
    repeated = report.lost - report.lost_after_retry
    again = report.latency_seconds(50, repeated=True)
    proof.check(
        "no request of the day is lost after one retry", report.lost_after_retry == 0, f"of {report.sent:,} sent"
    )
    proof.check("no request waits for a replica", waited == 0, f"{waited:.1%} of the load")
    for name, value, note in (
        ("requests sent", report.sent, f"a sample of {report.rate_per_second:g} a second, evenly over the day"),
        ("answered on the first attempt", report.sent - report.lost, ""),
        ("answered on a retry", repeated, "cut by the preemption and by replicas that end"),
        ("lost after one retry", report.lost_after_retry, ""),
        (
            "latency with a retry",
            "none" if again is None else f"{again:.0f} s",
            f"median; undisturbed {report.request_seconds:.0f} s",
        ),
        ("load that waited for a replica", f"{waited:.1%}", "by the autoscaler's model of load"),
        ("unanswered after hours", after.lost_after_retry, f"of {after.sent} sent after the window"),
    ):
        proof.figure(name, value, note=note, about=NOTICED)


def _cost(stage: Stage, proof: Proof, diary: _Diary, counted: float) -> None:
    until, prices, most = diary.over, rates(stage.settings), policy_of(stage)[0].max
    hours = (until - diary.began) / SECONDS_PER_HOUR
    machine_hours = stage.meter.gpu_nodes.integral(diary.began, until) / SECONDS_PER_HOUR
    paid = machine_hours * prices.per_machine + hours * prices.fixed
    static = hours * (stage.machines_for(most) * prices.per_machine + prices.fixed)
    off = counted / paid - 1
    proof.check(
        "the spending guard's sum is within 5 % of the cost", abs(off) <= 0.05, f"${counted:,.0f} of ${paid:,.0f}"
    )
    for name, value, unit, note in (
        ("node-hours", round(machine_hours, 1), "h", f"in {hours:.1f} hours, canary included"),
        (
            "cost",
            round(paid),
            "$",
            f"${prices.per_machine:,.2f} an hour for a node, ${prices.fixed:,.2f} an hour for the rest",
        ),
        (
            f"{most} replicas all day",
            round(static),
            "$",
            f"in the same hours; this day costs {paid / static:.0%} of that",
        ),
        ("spending guard's sum", round(counted), "$", f"{off:+.1%}: it counts idle minutes in advance"),
    ):
        proof.figure(name, value, unit, note, COST)


def _day(stage: Stage, diary: _Diary, first: datetime) -> Day:
    until, meter, model = diary.over, stage.meter, stage.keda.in_flight
    noted = stage.timeline.moments(diary.began)
    guard = (
        replace(one, lane="money", subject="spending guard", text=one.text.partition(":")[0].removeprefix("spending "))
        for one in noted
        if one.text.startswith("spending ")
    )
    shown = [one for one in noted if one.lane == "alert" or (one.lane == "traffic" and one.subject == "requests")]
    capacity = stage.settings.serving.concurrency_per_replica
    samples = [(at, model.at(at)) for at in _every_minute(diary.began, until)]
    return Day(
        at_seconds=diary.began,
        until_seconds=until,
        first_minute=first.hour * 60 + first.minute,
        curves=(
            (
                Curve(name="replicas desired", points=_steps(meter.servers, diary.began), mood="waiting"),
                Curve(name="replicas Ready", points=_steps(meter.ready_servers, diary.began), mood="good"),
            ),
            (Curve(name="nodes billed", points=_steps(meter.gpu_nodes, diary.began)),),
            (
                Curve(
                    name="capacity of Ready replicas",
                    points=tuple((at, one.servers * capacity) for at, one in samples),
                    mood="good",
                ),
                Curve(
                    name="requests in flight",
                    points=tuple((at, round(one.running + one.waiting)) for at, one in samples),
                ),
            ),
        ),
        moments=tuple(sorted((*diary.moments, *shown, *guard), key=lambda one: one.at_seconds)),
    )


def _every_minute(since: float, until: float) -> list[float]:
    return [since + 60.0 * number for number in range(int((until - since) / 60))]


def _steps(series: Series, since: float) -> tuple[tuple[float, float], ...]:
    return ((since, series.at(since)), *((at, value) for at, value in series.steps if at > since))


A_DAY = Drill(
    name="a-day",
    title="A working day",
    proves="a fleet that scales by load serves a day with failures, with its cost and lost requests known",
    play=_play,
    start="empty",
    speed=150.0,
    sections=SECTIONS,
    alerts=("SpotTaken", "StockOut", "PodLate"),
    may_page=("ReplicasMissing",),
    fast=False,
    skip=all_of(by_keda, by_load, has_windows),
)
DRILLS = (A_DAY,)
