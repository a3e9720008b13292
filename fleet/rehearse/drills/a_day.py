"""A day in the life of a fleet that follows load: from an empty morning to an empty evening, with what goes wrong in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from facts.cost import SECONDS_PER_HOUR
from facts.day import SLOT_SECONDS, load_of_day
from fleet.rehearse.drills.alerts import alerts_during
from fleet.rehearse.drills.autoscaling import by_keda, by_load, has_windows, moment_of, policy_of
from fleet.rehearse.drills.conditions import all_of
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.drills.requests import requests_during
from fleet.rehearse.drills.spending import USD, state_of
from fleet.rehearse.results import Curve, Day, DrillBrokenOffError
from fleet.rehearse.simulation.spot import preempt
from fleet.rehearse.timeline import Moment
from settings.derived.spending import rates
from settings.sections.rollout import CANARY_ENDING

if TYPE_CHECKING:
    from fleet.rehearse.meter import Series
    from fleet.rehearse.stage import Stage
    from fleet.rehearse.timeline import Lane, Mood
    from fleet.rehearse.traffic.outcomes import TrafficReport

COMPRESSION: Final = 10.0
"""The trace's day passes so many times as fast. Steeper than the growth that the target leaves room for."""
TRACE_DAY: Final = 1
"""Day of the trace `daily`: from its night to a hump before noon, a dip, one peak, and down."""
HUMP: Final = 43
"""Slot after the trough, at the end of the hump."""
PEAK_SERVERS: Final = 3.9
"""Load at the peak, in servers at their target: one more than the hump needs."""
SAMPLE_PER_SECOND: Final = 0.4
"""Requests a simulated second, of which is read what clients lose. Measured: a quarter of a core at this drill's speed."""
ALERTS_SECONDS: Final = 90.0
"""Between two samples of the alerts. Measured: at 30 s the rules of a day take Prometheus' engine most of a minute."""
BESIDE_SECONDS: Final = 600.0
"""How long a canary is looked at."""
AFTER_HOURS_SECONDS: Final = 120.0
COST, NOTICED = "What it cost", "What users noticed"
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
    """The trace's day, in servers; it stands still where the drill does not go on."""

    stage: Stage
    shares: tuple[float, ...] = field(default_factory=lambda: trace())
    at: int = 0

    def go_on(self, slot: int) -> None:
        """Play it up to this slot, and wait until that is so."""
        _, target = policy_of(self.stage)
        clock, every = self.stage.clock, SLOT_SECONDS / COMPRESSION
        began, shares = clock.now_seconds(), self.shares[self.at : slot + 1]
        self.stage.keda.in_flight.plan(
            (began + number * every, share * PEAK_SERVERS * target) for number, share in enumerate(shares)
        )
        over, self.at = began + len(shares) * every, slot
        self.stage.until("the load to get there", lambda: clock.now_seconds() >= over, len(shares) * every)

    def wanted(self) -> int:
        """Servers that the load of now needs."""
        return ceil(self.shares[self.at] * PEAK_SERVERS)

    @property
    def peak(self) -> int:
        """Slot of the most load."""
        return self.shares.index(1.0)


def trace() -> tuple[float, ...]:
    """Load of a day's slots from its trough on, as shares of its peak."""
    found = load_of_day("daily", 1.0, first_day=TRACE_DAY, days=1, step_seconds=SLOT_SECONDS).requests_per_s
    trough = found.index(min(found))
    return tuple(one / max(found) for one in (*found[trough:], *found[:trough]))


@dataclass
class _Diary:
    """What the page tells of the day."""

    stage: Stage
    began: float = 0.0
    opened: float = 0.0
    """When callers come."""
    over: float = 0.0
    """When the last machine is gone."""
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
        """To the timeline of the drill, and to the day's; with `since` a stretch, until then or now."""
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
    stage.keda.begin_anew(begins - timedelta(hours=6))
    stage.bring_up()
    _until_no_machine(stage)
    stage.rest(opens - timedelta(minutes=10))
    diary = _Diary(stage, began=stage.clock.now_seconds())
    first, callers = stage.until("the guard's first count", lambda: state_of(stage), 600), _Callers(stage)
    with alerts_during(stage, A_DAY, proof, every_seconds=ALERTS_SECONDS):
        _morning(stage, proof, diary, opens, begins)
        with requests_during(stage, Proof(), rate_per_second=SAMPLE_PER_SECOND) as requests:
            callers.go_on(HUMP)
            stage.until_ready(callers.wanted())
            _spot_loss(stage, proof, diary)
            _stock_out(stage, proof, diary, callers)
            _canary(stage, proof, diary)
            _evening(stage, proof, diary, callers)
            if stage.keda.now >= ends:
                raise DrillBrokenOffError(
                    "this machine is too slow for the drill's clock: the window was over before its evening"
                )
        waited = stage.keda.in_flight.delayed_share(diary.opened)
        after = _zero(stage, proof, diary, ends)
        diary.over = stage.clock.now_seconds()
        counted = (state_of(stage) or {})["usd"] - first["usd"]
    assert requests.report is not None
    _cost(stage, proof, diary, counted)
    _noticed(proof, requests.report, after, waited)
    proof.day = _day(stage, diary, opens - timedelta(minutes=10))


def _until_no_machine(stage: Stage) -> None:
    stage.until("every machine to go", lambda: stage.meter.gpu_nodes.now == 0, 4 * stage.timings.scale_down_seconds)


def _morning(stage: Stage, proof: Proof, diary: _Diary, opens: datetime, begins: datetime) -> None:
    floor = policy_of(stage)[0].windows[0].replicas
    empty = stage.meter.servers.now
    stage.until("the window", lambda: stage.keda.now >= opens, 900)
    asked = stage.clock.now_seconds()
    stage.until_ready(floor)
    spare = (begins - stage.keda.now).total_seconds() / 60
    diary.note("clock", "window", f"asks for {floor} servers", "waiting", asked)
    proof.check("the night had no server", empty == 0, f"{empty} servers")
    proof.check(f"{floor} servers are Ready before callers come", spare >= 0, f"{spare:.0f} min before")
    stage.until("the callers", lambda: stage.keda.now >= begins, 3600)
    diary.opened = stage.clock.now_seconds()


def _spot_loss(stage: Stage, proof: Proof, diary: _Diary) -> None:
    pods, began = stage.ready_pods(), stage.clock.now_seconds()
    victim, node = pods[-1]["metadata"]["name"], pods[-1]["spec"]["nodeName"]
    preempt(stage.world, [node])
    stage.until("the machine to be gone", lambda: stage.world.nodes.get(node) is None, 120)
    stage.until_ready(len(pods))
    diary.note("node", "Spot", "a machine is taken, until another serves", "bad", began)
    lowest = stage.meter.ready_servers.lowest(began)
    others = victim not in {pod["metadata"]["name"] for pod in stage.ready_pods()}
    statement = f"a Spot loss takes one of {len(pods)} servers, and it is replaced"
    proof.check(statement, lowest == len(pods) - 1 and others, f"at worst {lowest} Ready")


def _stock_out(stage: Stage, proof: Proof, diary: _Diary, callers: _Callers) -> None:
    servers, began = stage.meter.servers.now, stage.clock.now_seconds()
    stage.stock.spot_nodes = stage.machines_for(servers)
    callers.go_on(callers.peak)

    def pending() -> Any:
        found = (pod for pod in stage.pods() if stage.provisioner.why_pending(pod))
        return next(found, None)

    pod = stage.until("a server without a machine", pending, 1800)
    since, trouble = stage.clock.now_seconds(), stage.provisioner.why_pending(pod)
    if proof.watch is not None:
        proof.watch.let_pass("PodLate")
    stage.stock.spot_nodes = None
    diary.note("capacity", "Spot", "no machine for one more server", "bad", since)
    stage.until_ready(callers.wanted())
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "the server that finds no machine waits and says why", trouble is not None, trouble.message if trouble else ""
    )
    proof.check(f"the {servers} others go on meanwhile", lowest == servers, f"at worst {lowest} Ready")


def _canary(stage: Stage, proof: Proof, diary: _Diary) -> None:
    began, name = stage.clock.now_seconds(), stage.server + CANARY_ENDING
    servers = {pod["metadata"]["uid"] for pod in stage.ready_pods()}
    flags = {"engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
    came = stage.up(stage.record({"rollout": {"canary": flags}}))
    stage.until("the canary", lambda: stage.ready_pods(name), 2 * stage.timings.whole_start_seconds)
    ready = stage.clock.now_seconds()
    stage.clock.sleep(BESIDE_SECONDS)
    went = stage.up()
    stage.until("the canary to go", lambda: not stage.pods(name), SECONDS_PER_HOUR)
    diary.note("operator", "canary", "starts", "waiting", began, ready)
    diary.note("operator", "canary", "beside them, then taken away", "good", ready)
    failed = "; ".join({**came.failed, **went.failed}.values())
    proof.check("a canary comes and is taken away by pulumi up", not failed, failed or "no failure")
    same = servers == {pod["metadata"]["uid"] for pod in stage.ready_pods()}
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "the fleet is untouched by it", same and lowest == len(servers), f"{lowest} of {len(servers)} stayed Ready"
    )


def _evening(stage: Stage, proof: Proof, diary: _Diary, callers: _Callers) -> None:
    policy, _ = policy_of(stage)
    began, busy, floor = stage.clock.now_seconds(), stage.meter.servers.now, policy.windows[0].replicas
    callers.go_on(len(callers.shares) - 1)
    allowance = policy.down_window_seconds + (busy - floor + 1) * policy.down_period_seconds
    stage.until(f"{floor} servers", lambda: stage.meter.servers.now <= floor, allowance)
    numbers = [value for _, value in stage.meter.servers.steps[-(busy - floor + 1) :]]
    diary.note("operator", "autoscaler", "one at a time", "plain", began)
    proof.check("servers go one at a time", numbers == list(range(busy, floor - 1, -1)), ", ".join(map(str, numbers)))


def _zero(stage: Stage, proof: Proof, diary: _Diary, ends: datetime) -> TrafficReport:
    """The window ends while somebody still calls."""
    stage.until("the window's end", lambda: stage.keda.now >= ends, 3 * SECONDS_PER_HOUR)
    closed = stage.clock.now_seconds()
    diary.note("clock", "window", f"at least {policy_of(stage)[0].windows[0].replicas} servers", "good", diary.opened)
    stage.until("the last server to go", lambda: stage.meter.servers.now == 0, 1800)
    stage.until("nobody to answer", lambda: not stage.traffic.endpoints(), 600)
    gone = stage.clock.now_seconds()
    stage.traffic.start(rate_per_second=SAMPLE_PER_SECOND, retry=True)
    stage.clock.sleep(AFTER_HOURS_SECONDS)
    after = stage.traffic.finish()
    diary.note("traffic", "after hours", f"{after.sent} asked, none answered", "bad")
    _until_no_machine(stage)
    diary.note("node", "last machine", "given back", "good")
    proof.check(
        "the schedule takes the last servers",
        stage.meter.servers.now == 0,
        f"{(gone - closed) / 60:.0f} min after its end",
    )
    refused = after.losses_after_retry.get("no endpoint", 0)
    proof.check("who calls then finds no server", refused == after.sent, f"{refused} of {after.sent} requests")
    return after


def _noticed(proof: Proof, report: TrafficReport, after: TrafficReport, waited: float) -> None:
    repeated = report.lost - report.lost_after_retry
    again = report.latency_seconds(50, repeated=True)
    proof.check(
        "repeated once, no request of the day is lost", report.lost_after_retry == 0, f"of {report.sent:,} sent"
    )
    proof.check("no request waits for a server", waited == 0, f"{waited:.1%} of the load")
    for name, value, note in (
        ("requests sent", report.sent, f"a sample of {report.rate_per_second:g} a second, evenly over the day"),
        ("answered at once", report.sent - report.lost, ""),
        ("answered when repeated", repeated, "cut by the Spot loss and by servers that end"),
        ("lost, though repeated", report.lost_after_retry, ""),
        (
            "slow: time of a repeated answer",
            "none" if again is None else f"{again:.0f} s",
            f"median; undisturbed {report.request_seconds:.0f} s",
        ),
        ("load that waited for a server", f"{waited:.1%}", "by the model that the autoscaler sees"),
        ("without a server after hours", after.lost_after_retry, f"of {after.sent} that called after the window"),
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
        "the spending guard's sum is what the machines cost", abs(off) <= 0.05, f"${counted:,.0f} of ${paid:,.0f}"
    )
    for name, value, unit, note in (
        ("machine-hours", round(machine_hours, 1), "h", f"in {hours:.1f} hours, the canary's too"),
        (
            "cost",
            round(paid),
            "USD",
            f"at ${prices.per_machine:,.2f} a machine and ${prices.fixed:,.2f} for the rest, an hour",
        ),
        (
            f"{most} servers all along",
            round(static),
            "USD",
            f"the same hours; this day costs {paid / static:.0%} of it",
        ),
        ("the guard's sum", round(counted), "USD", f"{off:+.1%}: it counts idle minutes in advance"),
    ):
        proof.figure(name, value, unit, note, COST)


def _day(stage: Stage, diary: _Diary, first: datetime) -> Day:
    until, meter, model = diary.over, stage.meter, stage.keda.in_flight
    told = stage.timeline.moments(diary.began)
    guard = (
        replace(one, lane="money", subject="spending guard", text=one.text.partition(":")[0].removeprefix("spending "))
        for one in told
        if one.text.startswith("spending ")
    )
    shown = [one for one in told if one.lane == "alert" or (one.lane == "traffic" and one.subject == "requests")]
    capacity = stage.settings.serving.concurrency_per_replica
    samples = [(at, model.at(at)) for at in _every_minute(diary.began, until)]
    return Day(
        at_seconds=diary.began,
        until_seconds=until,
        first_minute=first.hour * 60 + first.minute,
        curves=(
            (
                Curve(name="servers wanted", points=_steps(meter.servers, diary.began), mood="waiting"),
                Curve(name="servers Ready", points=_steps(meter.ready_servers, diary.began), mood="good"),
            ),
            (Curve(name="machines paid", points=_steps(meter.gpu_nodes, diary.began)),),
            (
                Curve(
                    name="room on Ready servers",
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
    title="A day in its life",
    proves="a fleet that follows load lives through a day, and its cost and its callers' losses are known",
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
