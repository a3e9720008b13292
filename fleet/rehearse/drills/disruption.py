"""Machines and servers that go: a dead rank, Spot notices, a drain, a rolling update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.rehearse.api import NODE, POD, POD_DISRUPTION_BUDGET, ApiRefusedError, Manifest
from fleet.rehearse.drills.conditions import needs_servers, no_others, on_spot
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.drills.requests import requests_during
from fleet.rehearse.simulation.spot import kill_containers, preempt

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage

NOTICE_SECONDS = 30.0
"""From Google's notice to the end of the machine. Source: GKE docs, Spot VMs."""
ALONE = ("NothingServes",)
HANG_SECONDS = 480.0
"""How long a hung rank is left alone: the alert looks at three minutes and waits for two more."""


def _node_of(pod: Manifest) -> str:
    node: str = pod["spec"]["nodeName"]
    return node


def _dead_rank(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    victim = stage.ready_pods()[0]
    name = victim["metadata"]["name"]
    with requests_during(stage, proof):
        stage.timeline.note("pod", name, "one rank dies; vLLM exits", mood="bad")
        kill_containers(stage.world, victim, exit_code=1, reason="Error")
        stage.until("the server to be out of the Service", lambda: stage.meter.ready_servers.now < servers, 60)
        ready_again = stage.until_ready(servers)
    after = stage.world.pods.get(name, stage.namespace)
    restarts = after["status"]["containerStatuses"][0]["restartCount"] if after else 0
    same_node = after is not None and _node_of(after) == _node_of(victim)
    proof.check(
        "the whole server restarts, on the machine it has",
        same_node and restarts == 1,
        f"{restarts} restart(s), {'same' if same_node else 'another'} node",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "no other server is touched",
        lowest == servers - 1,
        f"{lowest} of {servers} stayed Ready",
        empty=no_others(servers),
    )
    _never_more_gpus(stage, proof, began)
    proof.figure(
        "time without that server", round(ready_again - began), "s", "one dead engine stops every engine of its server"
    )
    proof.figure("capacity lost meanwhile", round(100 / servers, 1), "%")


def _hung_rank(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    name = stage.ready_pods()[0]["metadata"]["name"]
    with requests_during(stage, proof):
        stage.timeline.note("pod", name, "one rank hangs: no tokens, no error", mood="bad")
        stage.traffic.hang(name, 0)
        stage.clock.sleep(HANG_SECONDS)
        ready = stage.meter.ready_servers.lowest(began)
        stage.timeline.note("operator", name, "kubectl delete pod", mood="good")
        stage.api.delete(POD, name, stage.namespace)
        stage.until("the hung server to go", lambda: stage.world.pods.get(name, stage.namespace) is None, 900)
        again = stage.until_ready(servers)
    proof.check(
        "Kubernetes notices nothing: every server stays Ready", ready == servers, f"at worst {ready} of {servers}"
    )
    proof.figure("whole again after the runbook's command", round((again - began - HANG_SECONDS) / 60, 1), "min")


def _preempt(count: int, stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    victims = list(dict.fromkeys(_node_of(pod) for pod in stage.ready_pods()))[:count]
    lost = {pod["metadata"]["name"] for pod in stage.ready_pods() if _node_of(pod) in victims}
    with requests_during(stage, proof):
        preempt(stage.world, victims, notice_seconds=NOTICE_SECONDS)
        stage.until(
            "the machines to be gone",
            lambda: not any(stage.world.nodes.get(node) for node in victims),
            4 * NOTICE_SECONDS,
        )
        gone_at = stage.clock.now_seconds()
        full_again = stage.until_ready(servers)
    names = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    proof.check(
        "each lost server is replaced, on a new machine",
        not names & lost and len(names) == servers,
        f"{len(names)} Ready",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        f"{servers - len(lost)} of {servers} servers stay",
        lowest == servers - len(lost),
        f"at worst {lowest} were Ready",
        empty=no_others(servers, gone=len(lost)),
    )
    _never_more_gpus(stage, proof, began)
    proof.figure("servers lost", len(lost))
    proof.figure("machine gone after the notice", round(gone_at - began), "s")
    proof.figure(
        "whole again after", round((full_again - began) / 60, 1), "min", "a new machine, the weights, the engines"
    )
    short = servers * (full_again - began) - stage.meter.ready_servers.integral(began, full_again)
    proof.figure("server-minutes lost", round(short / 60, 1), "min")


def _disruptions_allowed(stage: Stage) -> int:
    """Servers that the disruption budget lets go now, once its controller has seen the budget as it stands."""

    def is_seen() -> bool:
        budget = stage.api.get(POD_DISRUPTION_BUDGET, stage.server, stage.namespace)
        return budget is None or budget["status"].get("observedGeneration") == budget["metadata"]["generation"]

    stage.until("the disruption budget's controller", is_seen, 900)
    budget = stage.api.get(POD_DISRUPTION_BUDGET, stage.server, stage.namespace)
    return int(budget["status"]["disruptionsAllowed"]) if budget else 0


def _evict(stage: Stage, name: str) -> None:
    """Ask a server to go, and wait until it has gone."""
    stage.api.evict(stage.namespace, name)
    stage.until("the evicted server to go", lambda: stage.world.pods.get(name, stage.namespace) is None, 900)


def _drain(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    allowed = _disruptions_allowed(stage)
    first, second = stage.ready_pods()[:2]
    name = first["metadata"]["name"]
    with requests_during(stage, proof):
        stage.timeline.note("operator", _node_of(first), "kubectl drain")
        stage.api.patch(NODE, _node_of(first), None, {"spec": {"unschedulable": True}})
        _evict(stage, name)
        refused = ""
        try:
            stage.api.evict(stage.namespace, second["metadata"]["name"])
        except ApiRefusedError as refusal:
            refused = refusal.message
        full_again = stage.until_ready(servers)
        # Whoever shares the machine follows, one at a time, as kubectl drain goes on asking.
        for pod in stage.pods():
            if _node_of(pod) == _node_of(first):
                _evict(stage, pod["metadata"]["name"])
                full_again = stage.until_ready(servers)
    proof.check("the disruption budget lets one server go", allowed == 1, f"disruptionsAllowed was {allowed}")
    proof.check("a second drain waits while a server is missing", bool(refused), refused or "it was evicted as well")
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("never more than one server missing", lowest >= servers - 1, f"at worst {lowest} of {servers} Ready")
    proof.figure("one drained machine costs", round((full_again - began) / 60, 1), "min", "of one server at a time")


def _rolling_update(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    before = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    minutes = stage.settings.server.startup_minutes + 1
    changed = stage.record({"server": {"startupMinutes": minutes}})
    with requests_during(stage, proof):
        report = stage.up(changed)
        done = stage.until_ready(servers)
    after = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    proof.check("pulumi up ends well", not report.failed, "; ".join(report.failed.values()) or "no failure")
    proof.check("every server is a new one", not before & after and len(after) == servers, f"{len(after - before)} new")
    _never_more_gpus(stage, proof, began)
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "never more than one server missing",
        lowest >= servers - 1,
        f"at worst {lowest} of {servers} Ready",
        empty=no_others(servers),
    )
    proof.figure("the update takes", round((done - began) / 60, 1), "min", f"{servers} servers, one after the other")
    proof.figure("per server", round((done - began) / 60 / servers, 1), "min")
    nodes = stage.meter.gpu_nodes.lowest(began)
    proof.check(
        "no machine is given back on the way",
        nodes >= stage.machines_for(servers),
        f"at least {nodes} machines throughout",
    )


def _never_more_gpus(stage: Stage, proof: Proof, since_seconds: float) -> None:
    paid = stage.machines_for(stage.settings.replicas) * stage.settings.machine.gpus
    most = stage.meter.gpus.highest(since_seconds)
    proof.check(f"never more than {paid} GPUs at once", most <= paid, f"at most {most}")


DRILLS = (
    Drill(
        name="dead-rank",
        title="One data-parallel rank dies",
        proves="one dead engine costs its whole server a restart, and nothing else",
        play=_dead_rank,
        alerts=("Restarted",),
        may_page=ALONE,
        skip=needs_servers(),
    ),
    Drill(
        name="hung-rank",
        title="One data-parallel rank hangs",
        proves="Kubernetes does not notice, the alert does, and the runbook's command mends it",
        play=_hung_rank,
        alerts=("EngineStalled",),
        may_page=ALONE,
        skip=needs_servers(),
    ),
    Drill(
        name="preempt-one",
        title="Google takes one Spot machine back",
        proves="what ran on it is replaced on a new machine; the others go on",
        play=lambda stage, proof: _preempt(1, stage, proof),
        alerts=("SpotTaken",),
        may_page=ALONE,
        skip=on_spot(1),
    ),
    Drill(
        name="preempt-four",
        title="Google takes four Spot machines back at once",
        proves="four servers are replaced; the budget cannot stop a Spot notice",
        play=lambda stage, proof: _preempt(4, stage, proof),
        alerts=("SpotTaken",),
        skip=on_spot(4),
    ),
    Drill(
        name="drain",
        title="Machines are drained for maintenance",
        proves="the disruption budget lets servers go one at a time",
        play=_drain,
        alerts=(),
        skip=needs_servers(2),
    ),
    Drill(
        name="rolling-update",
        title="A rolling update on scarce GPUs",
        proves="servers change one by one without a spare machine",
        play=_rolling_update,
        alerts=(),
        may_page=ALONE,
        skip=needs_servers(),
        fast=False,
    ),
)
