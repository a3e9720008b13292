"""Lost replicas and nodes: a dead rank, Spot notices, a drain, a rolling update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facts.capacity import IDLE_SECONDS, RECYCLE_LEAD_SECONDS
from facts.texts import plural
from lab.cloud.spot import kill_containers, shut_down
from lab.control_plane.api import POD_DISRUPTION_BUDGET, ApiRefusedError, Manifest
from lab.drills.conditions import all_of, at_most_one_down, needs_servers, no_others, on_spot
from lab.drills.drill import Drill, Proof
from lab.drills.operator import cordon, evict
from lab.drills.requests import requests_during
from settings.derived.scaling import scaling_policy
from settings.sections.capacity import FlexStart, Ladder
from workloads.spending.verdict import rung_of

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from settings.stack import Settings

GONE_SECONDS = 240.0
"""Twice the longest notice."""


def _node_of(pod: Manifest) -> str:
    node: str = pod["spec"]["nodeName"]
    return node


def _dead_rank(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    victim = stage.ready_pods()[0]
    name = victim["metadata"]["name"]
    with requests_during(stage, proof):
        kill_containers(stage.world, victim, exit_code=1, reason="Error")
        _until_fewer(stage, servers, began)
        ready_again = stage.until_ready(servers)
    after = stage.world.pods.get(name, stage.namespace)
    restarts = after["status"]["containerStatuses"][0]["restartCount"] if after else 0
    same_node = after is not None and _node_of(after) == _node_of(victim)
    proof.check(
        "the whole replica restarts, on the same node",
        same_node and restarts == 1,
        f"{plural(restarts, 'restart')}, {'same' if same_node else 'another'} node",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        "no other replica is affected",
        lowest == servers - 1,
        f"{lowest} of {servers} stayed Ready",
        empty=no_others(servers),
    )
    _never_more_gpus(stage, proof, began)
    proof.figure("replica down for", round(ready_again - began), "s", "one dead engine stops all engines of its pod")
    proof.figure("capacity lost", round(100 / servers, 1), "%")


def _until_fewer(stage: Stage, servers: int, since_seconds: float) -> None:
    """Wait until the meter has counted fewer Ready replicas since then, whether or not they are all Ready again by now."""
    stage.until(
        "the replica to leave the Service", lambda: stage.meter.ready_servers.lowest(since_seconds) < servers, 60
    )


def _preempt(count: int, stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    victims = list(dict.fromkeys(_node_of(pod) for pod in stage.ready_pods()))[:count]
    lost = {pod["metadata"]["name"] for pod in stage.ready_pods() if _node_of(pod) in victims}
    with requests_during(stage, proof):
        shut_down(stage.world, victims)
        stage.until(
            "the nodes to be gone",
            lambda: not any(stage.world.nodes.get(node) for node in victims),
            GONE_SECONDS,
        )
        gone_at = stage.clock.now_seconds()
        _until_fewer(stage, servers, began)
        full_again = stage.until_ready(servers)
    names = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    proof.check(
        "each lost replica is replaced, on a new node",
        not names & lost and len(names) == servers,
        f"{len(names)} Ready",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check(
        f"{servers - len(lost)} of {servers} replicas stay Ready",
        lowest == servers - len(lost),
        f"at least {lowest} Ready",
        empty=no_others(servers, gone=len(lost)),
    )
    _never_more_gpus(stage, proof, began)
    proof.figure("replicas lost", len(lost))
    proof.figure("node gone after the notice", round(gone_at - began), "s")
    proof.figure("all Ready again after", round((full_again - began) / 60, 1), "min", "new node, weights, engine start")
    short = servers * (full_again - began) - stage.meter.ready_servers.integral(began, full_again)
    proof.figure("replica-minutes lost", round(short / 60, 1), "min")


def _disruptions_allowed(stage: Stage) -> int:
    """Evictions that the disruption budget allows, once its controller has counted the Ready replicas by the current budget."""
    ready = len(stage.ready_pods())

    def counted() -> Manifest | None:
        budget = stage.api.get(POD_DISRUPTION_BUDGET, stage.server, stage.namespace)
        if budget is None:
            return {"disruptionsAllowed": 0}
        status: Manifest = budget.get("status") or {}
        is_current = status.get("observedGeneration") == budget["metadata"]["generation"]
        return status if is_current and status["currentHealthy"] >= ready else None

    return int(stage.until("the disruption budget's controller", counted, 900)["disruptionsAllowed"])


def _until_gone(stage: Stage, name: str) -> None:
    stage.until("the evicted replica to go", lambda: stage.world.pods.get(name, stage.namespace) is None, 900)


def _empty(stage: Stage, node: str, servers: int) -> float | None:
    """Evict the node's replicas one at a time, as kubectl drain does; when all were Ready again, or None if it has none."""
    ready = None
    for pod in stage.pods():
        if _node_of(pod) == node:
            name = pod["metadata"]["name"]
            evict(stage, name)
            _until_gone(stage, name)
            ready = stage.until_ready(servers)
    return ready


def _drain(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    allowed = _disruptions_allowed(stage)
    first, second = stage.ready_pods()[:2]
    name = first["metadata"]["name"]
    with requests_during(stage, proof, planned=True):
        cordon(stage, _node_of(first))
        evict(stage, name)
        # At once: the API server itself has counted the first eviction, and its replacement cannot be Ready yet.
        refused = ""
        try:
            stage.api.evict(stage.namespace, second["metadata"]["name"])
        except ApiRefusedError as refusal:
            refused = refusal.message
        _until_gone(stage, name)
        full_again = stage.until_ready(servers)
        full_again = _empty(stage, _node_of(first), servers) or full_again
    proof.check("the disruption budget allows one eviction", allowed == 1, f"disruptionsAllowed was {allowed}")
    proof.check("a second eviction is refused meanwhile", bool(refused), refused or "it was evicted as well")
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("never more than one replica down", lowest >= servers - 1, f"at least {lowest} of {servers} Ready")
    proof.figure("one drained node takes", round((full_again - began) / 60, 1), "min", "one replica down at a time")


def _flex_recycled(stage: Stage, proof: Proof) -> None:
    servers = stage.servers
    node = _on_flex_start(stage, servers)
    nodes, began = stage.meter.gpu_nodes.now, stage.clock.now_seconds()
    with requests_during(stage, proof, planned=True):
        ends = stage.provisioner.ends_in(node, RECYCLE_LEAD_SECONDS)
        stage.until(
            "the node's replicas to leave it",
            lambda: all(pod["spec"].get("nodeName") != node for pod in stage.pods()),
            RECYCLE_LEAD_SECONDS + GONE_SECONDS,
        )
        left_after = stage.clock.now_seconds() - began
        most = stage.meter.gpu_nodes.highest(began)
        full_again = stage.until_ready(servers)
    proof.check("another node is there before", most > nodes, f"at most {plural(most, 'node')}, {nodes} before")
    proof.check("its replicas leave it ahead of its end", began + left_after < ends, f"after {left_after / 60:.0f} min")
    at_most_one_down(stage, proof, servers, began)
    proof.figure("left the node after", round(left_after / 60, 1), "min", f"of {RECYCLE_LEAD_SECONDS // 60}")
    proof.figure("all Ready again after", round((full_again - began) / 60, 1), "min")


def _on_flex_start(stage: Stage, servers: int) -> str:
    """A flex-start node with a replica. Where all are on earlier rungs, these take no more, and one of their nodes is drained."""

    def node() -> str:
        return next((name for pod in stage.ready_pods() if _is_flex_start(stage, name := _node_of(pod))), "")

    if already := node():
        return already
    machines, earlier = stage.machines_for(servers), _node_of(stage.ready_pods()[0])
    stage.stock.spot_nodes = 0
    for name in stage.stock.reservations:
        stage.stock.resize(name, machines - 1)
    cordon(stage, earlier)
    _empty(stage, earlier, servers)
    stage.until("the drained node to go", lambda: stage.world.nodes.get(earlier) is None, 2 * IDLE_SECONDS)
    return stage.until("a replica on flex-start", node, GONE_SECONDS)


def _is_flex_start(stage: Stage, name: str) -> bool:
    node = stage.world.nodes.get(name)
    return node is not None and rung_of(node["metadata"]["labels"]) == "flex-start"


def _has_recycling(settings: Settings) -> str:
    """Only where flex-start nodes are replaced ahead of their end."""
    capacity = settings.capacity
    if isinstance(capacity, FlexStart):
        return "capacity.mode flex-start does not replace its nodes; a ladder of flex-start alone does"
    if not isinstance(capacity, Ladder) or capacity.flex_start_seconds is None:
        return "the stack has no flex-start rung"
    return "" if capacity.is_recycled else "capacity.flexStartSeconds is too short to replace nodes ahead of their end"


def _always_serves(settings: Settings) -> str:
    """Only where a number of replicas is always there."""
    policy = scaling_policy(settings) if settings.scales_by_keda else None
    if policy is None or policy.paused:
        return needs_servers()(settings)
    return "" if policy.min else "server.scaling.min is 0: no replica is always there"


def _rolling_update(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    before = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    minutes = stage.settings.server.startup_minutes + 1
    changed = {"server": {"startupMinutes": minutes}}
    with requests_during(stage, proof, planned=True):
        report = stage.up(changed)
        done = stage.until_ready(servers)
    after = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    proof.succeeds("pulumi up succeeds", report)
    proof.check("every replica is new", not before & after and len(after) == servers, f"{len(after - before)} new")
    _never_more_gpus(stage, proof, began)
    at_most_one_down(stage, proof, servers, began)
    took = (done - report.began_seconds) / 60
    proof.figure("the update takes", round(took, 1), "min", f"{servers} replicas, one at a time")
    proof.figure("per replica", round(took / servers, 1), "min")
    nodes = stage.meter.gpu_nodes.lowest(began)
    proof.check(
        "no node is removed during the update",
        nodes >= stage.machines_for(servers),
        f"at least {nodes} nodes throughout",
    )


def _never_more_gpus(stage: Stage, proof: Proof, since_seconds: float) -> None:
    paid = stage.machines_for(stage.settings.replicas) * stage.settings.machine.gpus
    most = stage.meter.gpus.highest(since_seconds)
    proof.check(f"never more than {paid} GPUs at the same time", most <= paid, f"at most {most}")


DRILLS = (
    Drill(
        name="dead-rank",
        title="A data-parallel rank dies",
        proves="a dead rank restarts its whole replica and no other",
        play=_dead_rank,
        skip=needs_servers(),
    ),
    Drill(
        name="preempt-one",
        title="One Spot node is preempted",
        proves="its replicas are replaced on a new node, and the others stay Ready",
        play=lambda stage, proof: _preempt(1, stage, proof),
        skip=on_spot(1),
    ),
    Drill(
        name="preempt-four",
        title="Four Spot nodes are preempted at the same time",
        proves="four replicas are replaced; a disruption budget does not stop a preemption",
        play=lambda stage, proof: _preempt(4, stage, proof),
        skip=on_spot(4),
    ),
    Drill(
        name="drain",
        title="A node is drained for maintenance",
        proves="the disruption budget allows one eviction at a time, and no stream is cut",
        play=_drain,
        skip=needs_servers(2),
    ),
    Drill(
        name="flex-recycled",
        title="A flex-start node's time is nearly over",
        proves="its replicas move to another node ahead of its end, and no stream is cut",
        play=_flex_recycled,
        skip=all_of(_has_recycling, _always_serves),
        # A reservation that has room again would take replicas back during the next drill.
        spends_stage=True,
        fast=False,
    ),
    Drill(
        name="rolling-update",
        title="A rolling update on scarce GPUs",
        proves="replicas are updated one at a time, without a spare node, and no stream is cut",
        play=_rolling_update,
        skip=needs_servers(),
        fast=False,
    ),
)
