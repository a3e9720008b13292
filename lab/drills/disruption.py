"""Lost replicas and nodes: Spot notices, a drain, a rolling update to a new revision of the weights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lab.control_plane.api import PERSISTENT_VOLUME, POD_DISRUPTION_BUDGET, ApiRefusedError, Manifest
from lab.drills.conditions import all_of, at_most_one_down, needs_servers, no_others, on_spot, writes_weights
from lab.drills.drill import Drill, Proof
from lab.drills.operator import cordon, evict

if TYPE_CHECKING:
    from lab.stage.stage import Stage

OTHER_REVISION: Final = "0123456789abcdef0123456789abcdef01234567"
"""Placeholder: the rehearsal downloads nothing."""


def _node_of(pod: Manifest) -> str:
    node: str = pod["spec"].get("nodeName", "")
    return node


def _until_fewer(stage: Stage, servers: int, since: float) -> None:
    """Wait until the meter has counted fewer Ready replicas since then, whether or not they are all Ready again by now."""
    stage.until("the replica to leave the Service", lambda: stage.meter.ready_servers.lowest(since) < servers)


def _preempt_four(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, time.monotonic()
    victims = list(dict.fromkeys(_node_of(pod) for pod in stage.ready_pods()))[:4]
    lost = {pod["metadata"]["name"] for pod in stage.ready_pods() if _node_of(pod) in victims}
    stage.maker.preempt(victims)
    stage.until("the nodes to be gone", lambda: not any(stage.nodes.get(node) for node in victims))
    _until_fewer(stage, servers, began)
    stage.until_ready(servers)
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

    return int(stage.until("the disruption budget's controller", counted)["disruptionsAllowed"])


def _until_gone(stage: Stage, name: str) -> None:
    stage.until("the evicted replica to go", lambda: stage.pods_seen.get(name, stage.namespace) is None)


def _empty(stage: Stage, node: str, servers: int) -> None:
    """Evict the node's replicas one at a time, as kubectl drain does."""
    for pod in stage.pods():
        if _node_of(pod) == node:
            name = pod["metadata"]["name"]
            evict(stage, name)
            _until_gone(stage, name)
            stage.until_ready(servers)


def _drain(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, time.monotonic()
    allowed = _disruptions_allowed(stage)
    first, second = stage.ready_pods()[:2]
    name = first["metadata"]["name"]
    cordon(stage, _node_of(first))
    evict(stage, name)
    # At once: the API server itself has counted the first eviction, and its replacement cannot be Ready yet.
    refused = ""
    try:
        stage.api.evict(stage.namespace, second["metadata"]["name"])
    except ApiRefusedError as refusal:
        refused = refusal.message
    _until_gone(stage, name)
    stage.until_ready(servers)
    _empty(stage, _node_of(first), servers)
    proof.check("the disruption budget allows one eviction", allowed == 1, f"disruptionsAllowed was {allowed}")
    proof.check("a second eviction is refused meanwhile", bool(refused), refused or "it was evicted as well")
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("never more than one replica down", lowest >= servers - 1, f"at least {lowest} of {servers} Ready")


def _rolling_update(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, time.monotonic()
    before = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    volumes = _volumes(stage)
    served = stage.settings.serving.model
    report = stage.up({"model": {"id": served.id, "revision": OTHER_REVISION, "sizeGb": served.size_gb}})
    stage.until_ready(servers)
    after = {pod["metadata"]["name"] for pod in stage.ready_pods()}
    proof.succeeds("pulumi up succeeds", report)
    proof.check("every replica is new", not before & after and len(after) == servers, f"{len(after - before)} new")
    mounted = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in stage.ready_pods()
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    new = [name for name in mounted if OTHER_REVISION[:7] in name]
    proof.check("every replica mounts the new revision", len(mounted) == len(new), ", ".join(sorted(mounted)))
    made = _volumes(stage) - volumes
    proof.check("the new volume is created beside the old one", bool(made), f"{len(made)} new")
    _never_more_gpus(stage, proof, began)
    at_most_one_down(stage, proof, servers, began)
    nodes = stage.meter.gpu_nodes.lowest(began)
    proof.check(
        "no node is removed during the update",
        nodes >= stage.machines_for(servers),
        f"at least {nodes} nodes throughout",
    )


def _volumes(stage: Stage) -> set[str]:
    return {volume["metadata"]["name"] for volume in stage.api.list_all(PERSISTENT_VOLUME)}


def _never_more_gpus(stage: Stage, proof: Proof, since: float) -> None:
    paid = stage.machines_for(stage.settings.replicas) * stage.settings.machine.gpus
    most = stage.meter.gpus.highest(since)
    proof.check(f"never more than {paid} GPUs at the same time", most <= paid, f"at most {most}")


DRILLS = (
    Drill(
        name="preempt-four",
        title="Four Spot nodes are preempted at the same time",
        proves="four replicas are replaced; a disruption budget does not stop a preemption",
        play=_preempt_four,
        skip=on_spot(4),
    ),
    Drill(
        name="drain",
        title="A node is drained for maintenance",
        proves="the disruption budget allows one eviction at a time",
        play=_drain,
        skip=needs_servers(2),
    ),
    Drill(
        name="rolling-update",
        title="A new revision of the weights on scarce GPUs",
        proves="a new volume is created beside the old one, and replicas are updated one at a time, without a spare node",
        play=_rolling_update,
        skip=all_of(needs_servers(), writes_weights),
    ),
)
