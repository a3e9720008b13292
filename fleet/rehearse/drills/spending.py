"""The spending guard: a limit that is reached under load and renewed, and what must not make its sum wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from facts.cost import SECONDS_PER_HOUR
from fleet.rehearse.api import CONFIG_MAP, POD, Kind, Manifest
from fleet.rehearse.drills.conditions import all_of, needs_servers
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.drills.requests import requests_during
from fleet.rehearse.variants import varied
from settings.derived.spending import rates
from settings.problems import SettingsError
from workloads.names import SPENDING_APP
from workloads.spending.guard import QUOTA, STATE, is_refusal
from workloads.spending.spending import IDLE_SECONDS

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage
    from settings.stack import Settings

USD_PER_NODE_HOUR: Final = 40.0
"""Stated for the drills, so that every stack has a price; Spot's in Europe is near it."""
_QUOTA: Final = Kind("v1", "ResourceQuota")
_NOTICED_SECONDS: Final = 300.0
"""Ten of the guard's looks."""
_AWAY_WALL_SECONDS: Final = 2.0
_LAG_WALL_SECONDS: Final = 1.0
"""Of controllers between the pause and the pods' end. Measured: a third of it."""


def _sections(limit: float, **more: Any) -> dict[str, Any]:
    return {
        "spending": {"limit": limit, "then": "pause", **more},
        "capacity": {"usdPerNodeHour": USD_PER_NODE_HOUR},
        "benchmark": {"enabled": False},
    }


def _limit_reached(stage: Stage, proof: Proof) -> None:
    servers, machines = stage.settings.replicas, stage.machines_for(stage.settings.replicas)
    day = 24.0 * machines * USD_PER_NODE_HOUR
    limited = stage.record(_sections(day))
    report = stage.up(limited)
    proof.check("the guard is added to a running stack", not report.failed, _failed(report.failed))
    stage.until("the guard's first count", lambda: _state(stage), 600)
    lines = len(stage.guards.lines)
    spends_from = _spend_up_to(stage, day - machines * USD_PER_NODE_HOUR * 0.3)
    began = stage.clock.now_seconds()
    with requests_during(stage, proof) as requests:
        stage.until("the pause", lambda: stage.guards.said("paused", lines), 3600)
        paused = stage.clock.now_seconds()
        stage.until("every server to go", lambda: stage.meter.servers.now == 0, 1800)
        report = stage.up(limited)
    warned = [line["share"] for line in stage.guards.said("warned", lines)]
    proof.check("it had warned", warned == [0.95], f"of {warned}")
    proof.check("pulumi up fights no pause", not report.failed, _failed(report.failed))
    proof.check(
        "callers find no server, and no error of Pulumi's", requests.unserved > 0, f"{requests.unserved} requests"
    )
    stage.until("their pods to be gone", lambda: not stage.pods(), 1800)
    emptied, fixed = stage.clock.now_seconds(), rates(varied(stage.opened, _sections(day)).settings).fixed
    running = stage.meter.gpu_nodes.integral(began, emptied) * USD_PER_NODE_HOUR + (emptied - began) * fixed
    idle = machines * IDLE_SECONDS * USD_PER_NODE_HOUR
    stage.until("every GPU machine to go", lambda: stage.meter.gpu_nodes.now == 0, 3 * stage.timings.scale_down_seconds)
    gone, paid = stage.clock.now_seconds(), (running + idle) / SECONDS_PER_HOUR
    # Two looks of the guard, and what Kubernetes' own controllers take, which know nothing of the fast clock.
    slack = machines * USD_PER_NODE_HOUR * (60 + _LAG_WALL_SECONDS * stage.clock.speed) / SECONDS_PER_HOUR
    total, counted = spends_from + paid, (_state(stage) or {})["usd"] - spends_from
    proof.check("its sum is what the machines cost", abs(counted - paid) <= slack, f"${counted:,.2f} of ${paid:,.2f}")
    proof.check("with the last machine gone the limit holds", total <= day + slack, f"${total:,.2f} of ${day:,.2f}")
    proof.check("nothing is replaced", stage.meter.servers.now == 0, f"{stage.meter.servers.now} servers")
    proof.figure("from the limit to the last machine gone", round((gone - paused) / 60, 1), "min", "counted in advance")
    renewed, refused = stage.clock.now_seconds(), _refused(stage)
    report = stage.up(stage.record(_sections(2 * day)))
    proof.check("a higher limit is a stack file and pulumi up", not report.failed, _failed(report.failed))
    stage.until("the quota to go", lambda: stage.api.get(_QUOTA, QUOTA, stage.namespace) is None, _NOTICED_SECONDS)
    stage.until("new servers", lambda: stage.meter.servers.now == servers, _NOTICED_SECONDS)
    proof.check("ReplicaSets that were refused are woken", refused > 0, f"{refused} were refused")
    back = stage.until_ready(servers)
    proof.figure("Ready again after a renewal", round((back - renewed) / 60, 1), "min", "a machine and a start")


def _what_may_go_wrong(stage: Stage, proof: Proof) -> None:
    machines = stage.machines_for(stage.settings.replicas)
    limit = 1000.0 * machines * USD_PER_NODE_HOUR
    lines, report = len(stage.guards.lines), stage.up(stage.record(_sections(limit)))
    proof.check("the guard is added to a running stack", not report.failed, _failed(report.failed))
    first = stage.until("the guard's first count", lambda: _state(stage), 600)
    unknown = rates(varied(stage.opened, _sections(limit)).settings).unknown
    blind = " ".join(line["message"] for line in stage.guards.said("blind"))
    named = all(name in blind for name in unknown)
    proof.check(
        "it names the prices that nobody knows", named, f"{len(unknown)} of them", empty="" if unknown else "none"
    )
    try:
        varied(stage.opened, _sections(limit, onUnknown="pause"))
        told = "accepted"
    except SettingsError as error:
        told = error.problems[0].id
    proof.check(
        "who would pause for a missing price is told first", told == "spending-unknown-prices" or not unknown, told
    )

    _restart(stage)
    left = _state(stage) or first
    after = stage.until("the guard to count again", lambda: _newer(stage, left), 900)
    _compare(proof, "a restarted guard counts the gap", left, after)
    stage.timeline.note("operator", "kube-apiserver", "gone", mood="bad")
    stage.control_plane.restart_api_server(_AWAY_WALL_SECONDS)
    stage.until("the guard to say that it is blind", lambda: "cannot be asked" in _said(stage, "blind"), 1200)
    back = stage.until("the guard to count again", lambda: _newer(stage, after), 900)
    _compare(proof, "what an absent API server hid is counted", after, back)
    for jump in (86_400.0 * 30, -86_400.0 * 30):
        before = stage.until("a count before the jump", lambda back=back: _newer(stage, back), 300)
        wall = stage.clock.now_seconds()
        stage.guards.clock_off_seconds += jump
        stage.until("the guard to see the jump", lambda jump=jump: f"{jump:+.0f}"[:4] in _said(stage, "blind"), 300)
        back = _state(stage) or before
        added, passed = back["usd"] - before["usd"], stage.clock.now_seconds() - wall + 2 * 60
        most = passed * before["usdPerHour"] / SECONDS_PER_HOUR
        statement = f"a clock {'30 days ahead' if jump > 0 else 'set back'} adds nothing"
        proof.check(statement, 0 <= added <= most, f"${added:,.2f} in {passed / 60:.0f} min")
    proof.check(
        "nothing was paused", not stage.guards.said("paused", lines), f"{stage.meter.ready_servers.now} servers Ready"
    )


def _compare(proof: Proof, statement: str, before: Manifest, after: Manifest) -> None:
    """The sum between two counts is what the time between them cost, by the API server's clock."""
    passed, added = after["at"] - before["at"], after["usd"] - before["usd"]
    due = passed * before["usdPerHour"] / SECONDS_PER_HOUR
    # The clocks are read a moment apart, and the header has whole seconds: at 120 times the wall's speed that is a minute.
    proof.check(
        statement, abs(added - due) <= 0.05 * due + before["usdPerHour"] / 60, f"${added:,.2f} in {passed:.0f} s"
    )


def _state(stage: Stage) -> Manifest | None:
    found = stage.api.get(CONFIG_MAP, STATE, stage.namespace)
    text = ((found or {}).get("data") or {}).get("state")
    return None if text is None else dict(json.loads(text))


def _newer(stage: Stage, than: Manifest) -> Manifest | None:
    now = _state(stage)
    return now if now is not None and now["counted"] > than["counted"] else None


def _said(stage: Stage, step: str) -> str:
    return " ".join(str(line["message"]) for line in stage.guards.said(step))


def _restart(stage: Stage) -> None:
    """The guard's pod is deleted; returns when no guard runs."""
    (pod,) = stage.pods(SPENDING_APP)
    stage.timeline.note("operator", pod["metadata"]["name"], "kubectl delete pod")
    stage.api.delete(POD, pod["metadata"]["name"], stage.namespace)
    stage.until("the guard to end", lambda: pod["metadata"]["uid"] not in stage.guards.running(), 300)


def _spend_up_to(stage: Stage, usd: float) -> float:
    """The sum as a guard had left it that counted for a day; the next one goes on from there."""
    _restart(stage)
    state = _state(stage) or {}
    data = {"data": {"state": json.dumps({**state, "usd": usd, "warned": 0.8})}}
    stage.api.patch(CONFIG_MAP, STATE, stage.namespace, data)
    lines = len(stage.guards.lines)
    stage.until("the next guard", lambda: stage.guards.said("started", lines), 900)
    return float(stage.guards.said("started", lines)[0]["usd"])


def _refused(stage: Stage) -> int:
    """ReplicaSets whose pods a quota has refused."""
    found = stage.api.list_all(Kind("apps/v1", "ReplicaSet"), stage.namespace)
    return sum(any(is_refusal(each) for each in one["status"].get("conditions", ())) for one in found)


def _failed(failed: Any) -> str:
    return "; ".join(failed.values()) or "no failure"


def _countable(settings: Settings) -> str:
    """Only where a pause saves anything."""
    return "nodes are paid whether they run or not" if rates(settings).paid_anyway else ""


def _limits(settings: Settings) -> str:
    """On stacks that limit spending, and on small ones with a limit added."""
    has = settings.spending is not None or settings.replicas == 1
    return "" if has else "the stack has no spending section; those with one server are played with one added"


DRILLS = (
    Drill(
        name="spending-limit",
        title="The limit of spending is reached under load, and renewed",
        proves="the fleet is paused before the limit is passed, nothing fights the pause, and a higher limit ends it",
        play=_limit_reached,
        skip=all_of(needs_servers(), _countable, _limits),
    ),
    Drill(
        name="spending-blind",
        title="The spending guard is restarted, cut off, and told a wrong time",
        proves="gaps are counted, a clock that jumps adds nothing, and a missing price is named",
        play=_what_may_go_wrong,
        skip=all_of(needs_servers(), _countable),
        fast=False,
    ),
)
